"""Words that the glossary has replaced do not come back: one word for each idea."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("tenure", "tests", "testbed", "demo", "benchmarks", "reproductions", "tools")
#: What went, and the word for it (docs/glossary.md).
WENT = {
    "grave": "tombstone",
    "graves": "tombstones",
    "bury": "condemn",
    "buried": "condemned",
    "haunted": "tombstoned",
    "haunts": "tombstoned",
    "roster": "dispatch list",
    "rosters": "dispatch list",
    "strand": "tasks of a stage",
    "strands": "tasks of a stage",
    "agenda": "queue plan",
    "agendas": "queue plans",
    "booking": "reservation",
    "bookings": "reservations",
    "foresight": "lookahead",
    "chronicle": "history",
    "errand": "step effect",
    "departures": "migration admission",
    "evacuation": "drain plan",
    "scouts": "capacity probes",
    "scouting": "capacity probe",
    "shelving": "block index",
    "wholesale": "backfill",
}
#: Where an old word has to stand: names that users or older files know.
KEPT = {
    "tenure_graves",  # a metric
    '"grave"',  # owner of stored effects
    '"graves"',  # kind of records up to schema 2
    '"bookings"',
    "grave:g",
    "grave.open",
}
WORD = re.compile(r"(?<![A-Za-z])(" + "|".join(WENT) + r")(?![a-z])", re.IGNORECASE)


def sources() -> list[Path]:
    found = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    skipped = {Path(__file__)}
    return [path for path in found if path not in skipped]


def pages() -> list[Path]:
    skipped = {"glossary.md", "CHANGELOG.md"}
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    return sorted(path for path in found if path.name not in skipped)


@pytest.mark.parametrize("paths", [sources, pages])
def test_words_that_went_do_not_come_back(paths: object) -> None:
    assert callable(paths)
    found = []
    for path in paths():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            bare = line
            for kept in KEPT:
                bare = bare.replace(kept, "")
            found += [
                f"{path.relative_to(ROOT)}:{number}: {word} is {WENT[word.lower()]} now"
                for word in WORD.findall(bare)
            ]
    assert not found, "\n".join(found)
