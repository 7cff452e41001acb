"""The page of Trident's reproduction: whole, and what needs no trace comes out again."""

from __future__ import annotations

import re

import pytest

from reproductions.trident import cli as trident
from reproductions.trident import page as trident_page
from reproductions.trident import runs as trident_runs
from reproductions.trident import words as trident_words
from reproductions.trident.runs import binned
from reproductions.trident.schedulers import DEFAULT, TRIDENT
from reproductions.trident.workload import BINS, HIBENCH, hibench

TEXT = trident.DOCUMENT.read_text()


def tables(title: str) -> list[dict[str, list[str]]]:
    """Return the tables of a section: the cells of each row by its first."""
    section = TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        found.append({name: cells for name, *cells in rows[2:]})
    return found


def test_the_page_says_what_the_command_says_of_itself() -> None:
    assert TEXT.startswith(trident_words.HEAD + "\n\n")
    assert TEXT.endswith(trident_words.TAIL + "\n")
    assert trident_words.CHOSEN in TEXT
    assert trident_words.DEPENDS in TEXT


def test_every_setting_that_was_chosen_has_its_row() -> None:
    (rows,) = tables("What was chosen, and what depends on it")
    assert list(rows) == [name for name, _, _ in trident_runs.SETTINGS]
    # the first of them is what the rest of the page is made with
    (reads,) = tables("Facebook: where blocks were read (Fig. 9)")
    memory = [cell.strip() for cell in rows["as above"][1].split(",")]
    assert memory == [cell.split(" / ")[0] for cell in reads[TRIDENT][list(BINS).index("E") :]]
    local = [int(cell) for cell in rows["as above"][0].split(",")]
    remote = [int(cell.split(" / ")[-1]) for cell in reads[trident_runs.HDFS]]
    assert [a + b for a, b in zip(local, remote, strict=True)] == pytest.approx([100] * 6, abs=1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheduler", [DEFAULT, TRIDENT])
def test_cells_of_the_small_applications_come_out_again(scheduler: str) -> None:
    jobs = dict.fromkeys(trident_runs.SEEDS, hibench("small"))
    base = trident_runs.runs_of(trident_runs.DISKS, jobs, DEFAULT)
    runs = trident_runs.runs_of(trident_runs.TIERED, jobs, scheduler)
    reads, gains = tables("HiBench-like, small: where blocks were read (Fig. 11)")
    assert reads[scheduler] == [trident_page.tiers(runs, [])]
    assert gains[scheduler] == [
        trident_page.gains(binned(runs, app), binned(base, app)) for app in HIBENCH
    ]
