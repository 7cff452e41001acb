"""The reproduction's document: its blocks are whole, its pictures are there, its cells come out."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.sla import blocks, table
from reproductions.sla.cli import DOCUMENT, MAX_PICTURE_BYTES, PICTURES, PLOTS
from reproductions.sla.matrix import AUTHORS, PRICINGS, studies
from tenure.simulation.sla.compare import Cell, run_cell

DATA = Path(os.environ.get("TENURE_DATA", ""))
BODIES = dict(blocks.BEGIN.findall(DOCUMENT.read_text()))
MEASURED = {name: body for name, body in BODIES.items() if body != blocks.NOTHING}


def row(block: str, policy: str) -> tuple[str, ...]:
    if BODIES[block] == blocks.NOTHING:
        pytest.skip(f"block {block} is not measured yet")
    title = table.TITLES[policy]
    return next(cells[1:] for cells in blocks.rows_of(BODIES[block]) if cells[0] == title)


def test_every_block_is_there_once_and_whole() -> None:
    text = DOCUMENT.read_text()
    assert sorted(re.findall(r"<!-- begin (\S+) -->", text)) == sorted(blocks.names())
    assert sorted(BODIES) == sorted(blocks.names())
    assert MEASURED
    for body in MEASURED.values():
        assert body.startswith(f"`{blocks.COMMAND}`, ")
        assert blocks.rows_of(body)


def test_cost_never_stands_without_deadlines_and_duration() -> None:
    whole = re.compile(r"-|[\d,.]+( ± [\d,.]+)? \([\d.]+ %; [\d,]+ s(; [\d,]+ rejected)?\)")
    for name, body in MEASURED.items():
        if name.startswith(("authors", "figure-2", "figure-3", "figure-6", "optimum")):
            for _, *cells in blocks.rows_of(body):
                assert all(whole.fullmatch(cell) for cell in cells)


def test_every_picture_is_shown_and_small() -> None:
    shown = re.findall(r"\]\(reproduction-sla/(.+)\.svg\)", DOCUMENT.read_text())
    assert sorted(shown) == sorted(path.stem for path in PICTURES.glob("*"))
    assert set(shown) <= PLOTS.keys()
    for path in PICTURES.glob("*"):
        assert path.stat().st_size <= MAX_PICTURE_BYTES
        assert path.read_text().rstrip().endswith("</svg>")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("policy", "pricing"), [("gio", "1"), ("asq", "3")])
def test_cells_of_the_papers_parameters_come_out_again(policy: str, pricing: str) -> None:
    study = studies(DATA)["small-light"]
    runs = [
        run_cell(study, Cell(policy, pricing, "off", seed), compiled=False) for seed in study.seeds
    ]
    means = table.means_of(runs)["off", pricing, policy]
    assert row("figure-2", policy)[PRICINGS.index(pricing)] == table.cell(means)


@pytest.mark.timeout(300)
@pytest.mark.skipif(
    not (os.environ.get("TENURE_DATA") and (DATA / AUTHORS["small-light"].file).exists()),
    reason="TENURE_DATA does not name a folder with rm_small_light.csv.gz and its like",
)
@pytest.mark.parametrize("policy", ["ff", "exact"])
@pytest.mark.parametrize("mode", ["off", "on"])
def test_cells_of_the_authors_workloads_come_out_again(policy: str, mode: str) -> None:
    study = replace(studies(DATA)["authors-small-light"], pricings=("2",))
    run = run_cell(study, Cell(policy, "2", mode, 0), compiled=False)
    means = table.means_of([run])[mode, "2", policy]
    assert row(f"authors-small-light-{mode}", policy)[1] == table.cell(means)
