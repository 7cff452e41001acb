"""What people read of times, sizes and prices; programs get them whole."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest

from tenure.cli.output import Output, between, cell, columns, size, usd

AT = "2026-11-22T21:20:14.559936Z"


def test_people_read_times_to_the_second_and_programs_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cell(AT) == "2026-11-22T21:20:14Z"
    assert cell(f"the next begins on n1, planned for {AT}").endswith("for 2026-11-22T21:20:14Z")
    Output(is_json=True, is_quiet=False).rows([{"at": AT}], [("AT", lambda row: row["at"])])
    assert json.loads(capsys.readouterr().out) == [{"at": AT}]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (None, "-"),
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (3 << 29, "1.5GiB"),
        (5 << 50, "5120TiB"),
    ],
)
def test_sizes_have_a_binary_unit(count: int | None, told: str) -> None:
    assert size(count) == told


@pytest.mark.parametrize(
    ("amount", "told"), [(None, "-"), (0, "$0"), (0.0123, "$0.012300"), (12.345, "$12.35")]
)
def test_small_prices_have_more_digits(amount: float | None, told: str) -> None:
    assert usd(amount) == told


def test_a_time_that_goes_on_is_told_so_far() -> None:
    start, end = "2030-01-01T00:00:00+00:00", "2030-01-01T00:00:07+00:00"
    later = datetime(2030, 1, 1, 0, 1, 5, tzinfo=UTC)
    assert between(start, end, later) == "7.0s"
    assert between(start, None, later) == "1m5s so far"
    assert between(later.isoformat(), None, datetime.fromisoformat(start)) == "0.0s so far"
    assert between(None, None) == "-"


def test_a_screen_that_is_too_narrow_has_the_last_column_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    row = {"name": "würfel", "reason": "waits for a node that has two cores and is not cordoned"}
    Output(is_json=False, is_quiet=False).table([row], columns("name reason"))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "NAME    REASON"
    assert max(map(len, lines)) <= 40
    assert {line[:8] for line in lines} == {"würfel  ", " " * 8}
    assert " ".join(line[8:] for line in lines) == row["reason"]


def test_headings_are_bold_for_people_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Output(is_json=False, is_quiet=False)
    out.table([], columns("name state"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out.table([], columns("name state"))
    assert capsys.readouterr().out == "NAME  STATE\n\x1b[1mNAME  STATE\x1b[0m\n"
