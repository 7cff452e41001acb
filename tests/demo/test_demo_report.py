"""The text and the page say what the facts say; the page needs nothing from outside."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from demo.checks import checks
from demo.facts import Facts, load
from demo.page import page
from demo.plots import VARIABLES
from demo.report import print_report
from demo.timeline import COLUMNS, bars_of, ruler

RECORDED = Path(__file__).parent / "facts.json"
VOID = {"meta", "br", "link"}


@pytest.fixture(scope="module")
def facts() -> Facts:
    return load(RECORDED)


@pytest.fixture(scope="module")
def html(facts: Facts) -> str:
    return page(facts, checks(facts))


def text_of(facts: Facts, width: int) -> str:
    file = io.StringIO()
    print_report(facts, checks(facts), Console(file=file, width=width, highlight=False))
    return file.getvalue()


def test_text_names_everything(facts: Facts) -> None:
    text = text_of(facts, 130)
    names = [job.name for job in facts.jobs] + [refusal.name for refusal in facts.refusals]
    names += [box.name for box in facts.containers] + [node.name for node in facts.nodes]
    for name in names:
        assert name in text
    assert text.count("✓") == len(checks(facts))
    assert "…" not in text
    assert f"${facts.cost.by_site['cloud']:.5f}" in text


def test_text_shows_what_does_not_hold(facts: Facts) -> None:
    late = [replace(job, state="failed") if job.name == "matrix" else job for job in facts.jobs]
    text = text_of(replace(facts, jobs=late), 130)
    assert "✗" in text
    assert "not: matrix" in text


def test_text_survives_a_narrow_terminal_and_an_empty_run(facts: Facts) -> None:
    assert "wordc" in text_of(facts, 60)
    nothing = replace(facts, jobs=[], refusals=[], containers=[], moves=[], runs=[], took_s=0.0)
    assert "0 jobs" in text_of(nothing, 100)


def test_time_line_shows_the_times(facts: Facts) -> None:
    bars = dict(bars_of(facts))
    for job in facts.jobs:
        begin = min(stretch.begin_s for stretch in job.stretches)
        column = round(begin / facts.took_s * (COLUMNS - 1))
        assert bars[job.name][column] == "█", job.name
        assert set(bars[job.name][:column]) <= {" ", "·"}, job.name
    assert bars["web"].strip()[0] == "n"
    assert bars["web"][-1] == "t"
    assert ruler(facts).startswith("0")


class Balance(HTMLParser):
    """Checks that tags close in order, and keeps what refers to elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [value for key, value in attrs if key == "id" and value]
        self.links += [value for key, value in attrs if key in ("src", "href") and value]
        self.links += [str(values.get("xlink:href"))] if "xlink:href" in values else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_whole_and_alone(html: str) -> None:
    reader = Balance()
    reader.feed(html)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert [link for link in reader.links if not link.startswith("#")] == []
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    assert "<script" not in html


def test_plots_take_their_colours_from_the_page(html: str) -> None:
    assert "#0a0b" not in html
    for variable in VARIABLES.values():
        # once for light, once for dark
        assert html.count(f"--{variable}: ") == 2
        assert f"var(--{variable})" in html or variable.startswith(("late", "on", "step"))
    svgs = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(svgs) == 5
    for svg in svgs:
        assert ET.fromstring(svg).get("width") == "100%"


def test_dollars_are_no_formulas(facts: Facts, html: str) -> None:
    svg = html[html.index("<h2>Cost</h2>") :]
    for node in facts.nodes:
        text = f">${facts.cost.by_node[node.name]:.5f}: "
        assert text in svg


def test_page_escapes_what_it_is_told(facts: Facts) -> None:
    nasty = [replace(facts.refusals[0], detail="<script>alert(1)</script>")]
    assert "<script>" not in page(replace(facts, refusals=nasty), [])


def test_page_of_a_run_without_anything(facts: Facts) -> None:
    nothing = replace(facts, jobs=[], refusals=[], containers=[], moves=[], runs=[])
    assert "<h2>Cost</h2>" in page(nothing, [])
