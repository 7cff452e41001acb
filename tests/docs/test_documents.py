"""Documents that can drift are generated or checked here."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tenure.cli.main import app
from testbed import bounded

ROOT = Path(__file__).parents[2]


def test_generated_documents_are_up_to_date() -> None:
    done = bounded.run(
        [sys.executable, "tools/write_docs.py", "--check"],
        cwd=ROOT,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def rows_of_paper_map() -> list[tuple[str, str, str]]:
    rows = []
    for line in (ROOT / "docs/paper-map.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].startswith("`tenure"):
            rows.append((cells[0], cells[1].strip("`"), cells[2].strip("`")))
    return rows


@pytest.mark.parametrize("row", rows_of_paper_map(), ids=lambda row: row[0])
def test_paper_map_names_what_exists(row: tuple[str, str, str]) -> None:
    _, function, test = row
    module, _, name = function.partition(":")
    target: object = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    path, _, test_name = test.partition("::")
    assert re.search(rf"def {test_name}\b|class {test_name}\b", (ROOT / path).read_text())


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=lambda p: p.name
)
def test_links_lead_somewhere(path: Path) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", path.read_text()):
        found = path.parent / target if target else path
        assert found.exists(), f"{path.name} links to {target}"
        if heading:
            assert heading in _headings(found), f"{path.name} links to {target}#{heading}"


def _headings(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_make_targets_in_documents_exist() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"`make ([a-z-]+)", path.read_text()):
            assert target in known, f"{path.name} names make {target}"


#: Without what says which commands there are not.
TELLING = sorted({ROOT / "README.md", *ROOT.glob("docs/*.md")} - {ROOT / "docs/known-gaps.md"})


@pytest.mark.parametrize("path", TELLING, ids=lambda p: p.name)
def test_commands_in_documents_exist(path: Path) -> None:
    told = re.findall(r"(?:`|^ {4}|^)tenure((?: [a-z][a-z-]*)+)(?![a-z]*[:=])", _code(path), re.M)
    for words in told:
        command: Any = get_command(app)
        for word in words.split():
            inner = getattr(command, "commands", None)
            if inner is None:
                break  # an argument
            assert word in inner, f"{path.name}: there is no tenure{words}"
            command = inner[word]


def _code(path: Path) -> str:
    """Return what of a document is code: spans, and lines of blocks."""
    text = path.read_text()
    blocks = re.compile(r"^```[a-z]*\n(.*?)^```", re.M | re.S)
    fenced, text = blocks.findall(text), blocks.sub("", text)
    spans = [f"`{span}`" for span in re.findall(r"`([^`]+)`", text)]
    indented = [line for line in text.splitlines() if line.startswith("    ")]
    return "\n".join([*fenced, *spans, *indented])
