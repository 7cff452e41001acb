"""Documents that can drift are generated or checked here."""

from __future__ import annotations

import configparser
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.main import get_command

from tenure.cli.main import app
from testbed import bounded

ROOT = Path(__file__).parents[2]


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


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
        if len(cells) == 3 and cells[1].startswith(("`tenure", "`reproductions", "`benchmarks")):
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


DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "reproductions/README.md"]
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=_named)
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
    for path in DOCUMENTS:
        for target in re.findall(r"`make ([a-z-]+)", path.read_text()):
            assert target in known, f"{path.name} names make {target}"


def test_the_image_s_base_may_be_pinned_by_its_digest() -> None:
    base = f"python:3.12-slim@sha256:{'0' * 64}"
    words = ["make", "-n", "-o", ".venv/stamp", "image", f"BASE={base}"]
    done = bounded.run(words, cwd=ROOT, text=True, check=True)
    assert f"--build-arg 'BASE={base}'" in done.stdout
    assert "FROM ${BASE}\n" in (ROOT / "Dockerfile").read_text()


#: Without what says which commands there are not, or were once.
TELLING = sorted({*DOCUMENTS} - {ROOT / name for name in ("docs/roadmap.md", "CHANGELOG.md")})


@pytest.mark.parametrize("path", TELLING, ids=_named)
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


#: What one must read to run a fleet, in words; and what bounds single documents.
MOST_WORDS = (
    (6000, ("README.md", "docs/quickstart.md", "docs/operations.md")),
    (1500, ("docs/quickstart.md",)),
    (2000, ("docs/known-gaps.md",)),
)


@pytest.mark.parametrize(("most", "names"), MOST_WORDS, ids=str)
def test_what_operators_read_stays_short(most: int, names: tuple[str, ...]) -> None:
    words = sum(len((ROOT / name).read_text().split()) for name in names)
    assert words <= most, "move what is looked up into a page of its own"


def test_known_gaps_are_forty_at_most() -> None:
    text = (ROOT / "docs/known-gaps.md").read_text()
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) <= 40


#: Where code, tests and documents may name a document.
SOURCES = ("*.py", "*.md", "*.cfg", "*.toml", "*.yml", "*.service", "Makefile", "Dockerfile")
#: Of other projects, and files that a test has written.
NOT_OURS = {"WebHDFS.md", "page.md", "x.md"}
ELSEWHERE = (".git", ".venv", "build", "dist", "out", "node_modules")


def _sources() -> list[Path]:
    found = {path for pattern in SOURCES for path in ROOT.rglob(pattern)}
    return sorted(p for p in found if not set(p.relative_to(ROOT).parts) & set(ELSEWHERE))


def test_documents_that_are_named_exist() -> None:
    """A clone holds every `*.md` that a comment, a docstring or a page names."""
    known = NOT_OURS | {path.name for path in DOCUMENTS}
    missing = []
    for path in _sources():
        text = path.read_text()
        if path.parent == ROOT / "tests" / "docs":
            continue  # made-up names
        for name in re.findall(r"(?<![\w*./{-])(?:[\w.-]+/)*([\w-]+\.md)\b", text):
            if name not in known:
                missing.append(f"{path.relative_to(ROOT)} names {name}")
        if path.suffix != ".md" and re.search(r"\b(DESIGN|TESTBED|BASELINES|STYLE)\b", text):
            missing.append(f"{path.relative_to(ROOT)} names a document that a clone lacks")
    assert not missing, "\n".join(missing)


def test_files_of_code_that_are_named_exist() -> None:
    """A path counts from the clone, from a part of it, or from where it is named."""
    homes = (ROOT, ROOT / "tenure", ROOT / "tenure" / "core", ROOT / "tests")
    missing = []
    for path in _sources():
        if path.parent == ROOT / "tests" / "docs":
            continue  # made-up names
        for name in re.findall(r"(?<![\w./{$-])((?:[\w-]+/)+[\w-]+\.py)\b", path.read_text()):
            if not any((home / name).is_file() for home in (*homes, path.parent)):
                missing.append(f"{path.relative_to(ROOT)} names {name}")
    assert not missing, "\n".join(missing)


def test_modules_of_tenure_that_docstrings_name_exist() -> None:
    """``core.capacity.room`` and the like, with or without a name in it."""
    missing = []
    for path in sorted((ROOT / "tenure").rglob("*.py")):
        for name in re.findall(r"``((?:[a-z_]+\.)+[a-z_]+)``", path.read_text()):
            *folders, last = name.removeprefix("tenure.").split(".")
            if last == "py" or not folders or not (ROOT / "tenure" / folders[0]).is_dir():
                continue
            home = (ROOT / "tenure").joinpath(*folders)
            places = home / last, home / f"{last}.py", home.with_suffix(".py")
            if not any(place.exists() for place in places):
                missing.append(f"{path.relative_to(ROOT)} names {name}")
    assert not missing, "\n".join(missing)


def test_the_lock_holds_what_setup_cfg_asks_for() -> None:
    """After a change of setup.cfg `make lock` writes requirements/dev.txt again."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    asked = setup["options"]["install_requires"] + setup["options.extras_require"]["dev"]
    text = (ROOT / "requirements/dev.txt").read_text()
    locked: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE):
        locked.setdefault(name, []).append(version)
    for line in asked.split("\n"):
        if line:
            wanted = Requirement(line)
            versions = locked.get(canonicalize_name(wanted.name), [])
            assert versions, f"{wanted.name} is not locked"
            assert all(wanted.specifier.contains(one) for one in versions), f"{line}: {versions}"


def test_the_lock_has_a_hash_for_each_package_and_names_no_index() -> None:
    text = (ROOT / "requirements/dev.txt").read_text()
    assert "://" not in text
    for block in re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in block, block.splitlines()[0]
