"""The page of Salamander's reproduction: whole, of the present settings, with its pictures."""

from __future__ import annotations

import pytest

from reproductions.salamander import cli as salamander
from reproductions.salamander import page as salamander_page
from reproductions.salamander.cells import CENTRES, CHUNKS, GROWTH_TASKS, SETS

TEXT = salamander.DOCUMENT.read_text()
#: A page is shown with its pictures: none is to be a burden.
MAX_PICTURE_BYTES = 100_000


def test_the_page_says_what_the_command_says_of_itself() -> None:
    assert TEXT.startswith(salamander_page.HEAD + "\n\n")
    assert TEXT.endswith(salamander_page.TAIL + "\n")


@pytest.mark.parametrize("title", ["Fig. 3", "Table III", "Table IV", "Fig. 4", "Fig. 5"])
def test_every_experiment_has_its_section(title: str) -> None:
    (line,) = [line for line in TEXT.splitlines() if line.startswith("##") and title in line]
    section = TEXT.split(f"{line}\n", 1)[1].split("\n## ", 1)[0]
    assert section.count("\n| ") >= 4


def test_every_centre_set_and_size_has_its_row() -> None:
    for centre in CENTRES:
        for chunk in CHUNKS:
            for traces in SETS:
                assert f"\n| {centre} | {chunk} MB | {traces} | " in TEXT
    for tasks in GROWTH_TASKS:
        assert f"\n| {tasks:,} | " in TEXT


def test_pictures_are_there_and_small() -> None:
    for name in salamander_page.pictures([], []):
        assert f"({salamander_page.FOLDER}/{name}.svg)" in TEXT
        assert 0 < (salamander.PICTURES / f"{name}.svg").stat().st_size < MAX_PICTURE_BYTES
