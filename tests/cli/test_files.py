"""Job files: YAML and JSON, and everything that is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.cli import output
from tenure.cli.files import documents
from tenure.model.errors import InvalidInput
from tests.cli.conftest import Tenure
from tests.unit.config.test_config_genpack import LISTING_8_1, LISTING_8_2


def _file(folder: Path, text: str | bytes) -> str:
    path = folder / "x.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1", [{"a": 1}]),
        ('{"a": [1, null, true, "x", 1.5]}', [{"a": [1, None, True, "x", 1.5]}]),
        ('{"a": [8e6, 1.5E3, -2e-1, 1.0e+2]}', [{"a": [8e6, 1500.0, -0.2, 100.0]}]),
        ("a: 8e6\nb: '8e6'\nc: 8e6b\nd: 1.8e6", [{"a": 8e6, "b": "8e6", "c": "8e6b", "d": 1.8e6}]),
        ("a: 1\n---\nb: 2\n---\n", [{"a": 1}, {"b": 2}]),
        ("- a: 1\n- b: 2\n", [{"a": 1}, {"b": 2}]),
        ("deadline: 2030-01-31T12:00:00Z", [{"deadline": "2030-01-31T12:00:00+00:00"}]),
        ("deadline: 2030-01-31 12:00:00", [{"deadline": "2030-01-31T12:00:00+00:00"}]),
        ("d: 2030-01-31", [{"d": "2030-01-31"}]),
        ("1: x", [{"1": "x"}]),
        ("\ufeffa: 1", [{"a": 1}]),
    ],
)
def test_documents(tmp_path: Path, text: str, expected: list[object]) -> None:
    assert documents(_file(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no document"),
        ("---\n---\n", "no document"),
        ("just text", "must be a mapping"),
        ("- 1", "document 1 must be a mapping"),
        ("a: [", "line"),
        ("a: 1\na: 2", "stands twice"),
        ("a: {b: 1, b: 2}", "stands twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: !!python/object/apply:os.system [ls]", "neither YAML nor JSON"),
        ("a: .nan", "a: a value"),
        ("a: {b: !!binary aGk=}", "a.b: a value"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("a: " + "[" * 3000, "nested too deeply"),
    ],
)
def test_what_is_none(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        documents(_file(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        documents(str(tmp_path / "absent.yml"))
    with pytest.raises(InvalidInput, match="cannot read"):
        documents(str(tmp_path))


@pytest.mark.parametrize(
    ("span_s", "text"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (59, "59s"), (61, "1m1s"), (3700, "1h1m"), (90000, "1d1h")],
)
def test_span(span_s: float, text: str) -> None:
    assert output.span(span_s) == text


def test_sizes_and_money() -> None:
    assert [output.size(n) for n in (0, 1023, 256 << 20, 3 << 29)] == [
        "0B",
        "1023B",
        "256MiB",
        "1.5GiB",
    ]
    assert output.usd(0.0000125) == "$0.000013"
    assert output.usd(12.5) == "$12.50"
    assert output.usd(None) == "-"


def test_control_characters_cannot_drive_the_terminal() -> None:
    assert output.printable("a\x1b[31mb\x07") == "a\\x1b[31mb\\x07"
    assert output.cell({"a": "\x1b"}) == "a=\\x1b"


def test_import_genpack_writes_what_validates_and_overwrites_nothing(
    tmp_path: Path, tenure: Tenure
) -> None:
    source = tmp_path / "config.yml"
    key = tmp_path / "id_rsa"
    key.touch()
    source.write_text(LISTING_8_1.replace("/keys/id_rsa", str(key)) + LISTING_8_2)
    out = tmp_path / "tenured.yml"
    refused = tenure("config", "import-genpack", str(source))
    assert refused.code == 2
    assert "--out" in refused.err  # the proxy needs a file beside it
    done = tenure("config", "import-genpack", str(source), "--out", str(out))
    assert done.code == 0, done.err
    assert tenure("config", "validate", str(out)).code == 0
    assert "ProxyJump" in (tmp_path / "genpack_ssh_config").read_text()
    again = tenure("config", "import-genpack", str(source), "--out", str(out))
    assert again.code == 2
    assert "exists" in again.err
    plain = (
        source.read_text()
        .replace("  proxy:\n    user: 'proxy_user'\n", "  #")
        .replace("    host: 'proxy_host'\n", "\n")
    )
    source.write_text(plain)
    assert "generations:" in tenure("config", "import-genpack", str(source)).out
