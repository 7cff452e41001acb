"""Comparing policies: the matrix, its means and intervals, files, plots and the page."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tenure.model.errors import InvalidInput
from tenure.model.units import US
from tenure.simulation import Cluster, Options, simulate
from tenure.simulation.sla import plots, report, tables
from tenure.simulation.sla.compare import MEASURES, Study, mean_and_half, run_study, summarise
from tenure.simulation.sla.generator import PaperParams, generate
from tenure.simulation.sla.series import mean_level, series_of
from tenure.simulation.sla.sources import Source
from tests.simulation.build import EXAMPLES, node, small, workload

STUDY = Study(
    EXAMPLES / "small.yml",
    Source("paper:high", jobs=25),
    policies=("ff", "asq"),
    pricings=("1", "3"),
    deadlines=("off", "on"),
    seeds=(4, 5, 6),
    options=Options(tolerance_s=100),
)


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    return run_study(STUDY, compiled=False)


def test_every_cell_is_simulated_with_its_own_words(runs: list[dict[str, Any]]) -> None:
    keys = [(r["deadlines"], r["pricing"], r["policy"], r["seed"]) for r in runs]
    assert len(set(keys)) == len(keys) == 2 * 2 * 2 * 3
    assert keys == [(c.deadlines, c.pricing, c.policy, c.seed) for c in STUDY.cells()]
    one = runs[keys.index(("on", "3", "asq", 5))]
    options = Options(deadlines="on", tolerance_s=100)
    alone = simulate(small("3"), STUDY.source.load(5), "asq", options, compiled=False)
    assert one["cost_usd"] == alone.summary()["cost_usd"]
    assert one["mean_duration_s"] == alone.mean_duration_s


def test_several_processes_give_the_same(runs: list[dict[str, Any]]) -> None:
    def figures(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        timed = ("wall_s", "decision_us_mean")
        return [{k: v for k, v in run.items() if k not in timed} for run in found]

    assert figures(run_study(STUDY, processes=2, compiled=False)) == figures(runs)


def test_means_and_intervals(runs: list[dict[str, Any]]) -> None:
    rows = summarise(runs)
    assert len(rows) == 8
    row = rows[0]
    costs = [run["cost_usd"] for run in runs[:3]]
    assert row["cost_usd"] == pytest.approx(sum(costs) / 3)
    # Student's t for two degrees of freedom
    spread = (sum((c - row["cost_usd"]) ** 2 for c in costs) / 2) ** 0.5
    assert row["cost_usd_ci95"] == pytest.approx(4.303 * spread / 3**0.5)
    assert row["seeds"] == 3
    assert all(measure in row for measure in MEASURES)
    assert mean_and_half(iter([2.0])) == (2.0, None)
    assert mean_and_half(iter([None, None])) == (None, None)
    assert mean_and_half(iter([3.0] * 50)) == (3.0, 0.0)


def test_a_study_is_checked_before_it_begins(tmp_path: Path) -> None:
    STUDY.check()
    for wrong, words in (
        ({"policies": ("ff", "nope")}, "'nope' is none of"),
        ({"pricings": ("1", "9")}, "no pricing model '9'"),
        ({"deadlines": ("of",)}, "'of' is none of"),
        ({"cluster": tmp_path / "absent.yml"}, "cannot be read"),
        ({"source": Source(str(tmp_path / "absent.csv"))}, "cannot be read"),
    ):
        with pytest.raises(InvalidInput, match=words):
            replace(STUDY, **wrong).check()


def test_sources(tmp_path: Path) -> None:
    assert len(Source("paper:light").load(0)) == 1000
    for load, threshold_s in (("light", 1000), ("high", 5000)):
        drawn = Source(f"paper:{load}", jobs=50).load(1)
        assert (drawn.deadline_us - drawn.arrival_us - drawn.run_us == threshold_s * US).all()
    assert Source("paper:light", jobs=9).load(3).ids[-1] == "8"
    assert Source("paper:light", jobs=500, floor_s=10).load(0).run_us.min() >= 10 * US
    path = tmp_path / "w.csv"
    path.write_text("job-id,C,M,E,T_A,T_est,T_D\nb,1,1,1,9,1,99\na,1,1,1,3,1,99\n")
    assert Source(str(path), jobs=1).load(0).ids == ("a",)
    assert not Source(str(path)).is_drawn()
    with pytest.raises(InvalidInput, match="floor_s is for paper:light and paper:high"):
        Source(str(path), floor_s=10)
    with pytest.raises(InvalidInput, match="jobs: 0 is not at least 1"):
        Source("paper:high", jobs=0)
    with pytest.raises(InvalidInput, match="'paper:medium' is none of paper:light, paper:high"):
        Source("paper:medium")


def test_mean_levels_by_hand() -> None:
    import numpy as np

    edges = np.array([0.0, 10.0, 20.0, 30.0])
    assert mean_level([(5, 25, 4.0), (0, 10, 1.0)], edges).tolist() == [3.0, 4.0, 2.0]
    assert mean_level([], edges).tolist() == [0.0, 0.0, 0.0]


def test_series_add_up_to_what_was_on_and_in_use() -> None:
    result = simulate(small(), generate(PaperParams(jobs=60), seed=1), "gio", compiled=False)
    series = series_of(result, steps=50)
    last_us = max(span.off_us for span in result.spans)
    step_s = (last_us - int(result.workload.arrival_us[0])) / US / 50
    cores = {n.name: n.cpu_m / 1000 for n in result.cluster.nodes}
    on = sum((s.off_us - s.on_us) / US * cores[s.node] for s in result.spans)
    assert sum(values.sum() for values in series.cores_on.values()) * step_s == pytest.approx(on)
    w = result.workload
    used = ((result.end_us - result.start_us) / US * w.executors * w.cpu_m / 1000).sum()
    assert sum(v.sum() for v in series.cores_used.values()) * step_s == pytest.approx(used)
    waited = ((result.start_us - w.arrival_us) / US).sum()
    assert series.waiting.sum() * step_s == pytest.approx(waited, abs=1e-6)


def test_csv_of_jobs_and_nodes(tmp_path: Path) -> None:
    jobs = workload((0, 2, 1, 10, 11), (0.5, 4, 1, 4, 99), (1, 99, 1, 4, 99))
    result = simulate(Cluster.of([node("n")]), jobs, "ff", compiled=False)
    tables.write_jobs(result, tmp_path / "jobs.csv")
    tables.write_nodes(result, tmp_path / "nodes.csv")
    with (tmp_path / "jobs.csv").open() as file:
        first, second, third = csv.DictReader(file)
    assert first["nodes"] == "n=2"
    assert (first["start_s"], first["end_s"], first["is_met"]) == ("0", "10", "true")
    assert (second["arrival_s"], second["wait_s"], second["duration_s"]) == ("0.5", "9.5", "13.5")
    assert (third["fate"], third["start_s"], third["is_met"]) == ("never_fits", "", "false")
    with (tmp_path / "nodes.csv").open() as file:
        spans = list(csv.DictReader(file))
    assert [tuple(s[c] for c in ("node", "on_s", "off_s")) for s in spans] == [
        ("n", "0", "10"),
        ("n", "10", "14"),
    ]
    assert sum(float(s["cost_usd"]) for s in spans) == pytest.approx(result.total_nano / 1e9)
    with pytest.raises(InvalidInput, match="cannot be written"):
        tables.write_jobs(result, tmp_path / "absent" / "jobs.csv")


class Page(HTMLParser):
    """Checks that tags close, ids are unique and nothing is loaded."""

    VOID = frozenset(("meta", "br", "link", "img"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert name != "src"
            if name == "id":
                assert value not in self.ids
                self.ids.add(str(value))
            if name in ("href", "xlink:href"):
                assert str(value).startswith("#")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_plots_and_page(tmp_path: Path, runs: list[dict[str, Any]]) -> None:
    rows = summarise(runs)
    drawn = plots.of_study(rows, runs)
    written = plots.write(drawn, tmp_path / "plots")
    assert {path.name for path in written} == {
        f"{name}.{kind}"
        for name in ("cost", "deadlines", "durations", "utilisation")
        for kind in ("png", "svg")
    }
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
            assert len(content) > 10_000
        else:
            assert b"pricing 1" in content or b"hours" in content or b"minutes" in content
            assert b"#0b0a" not in content
    columns = [("POLICY", lambda r: r["policy"]), ("COST", lambda r: f"${r['cost_usd']:.1f} <b>")]
    text = report.page({"policy": "ff & asq"}, rows, [*columns, *columns], drawn)
    report.write(tmp_path / "page.html", text)
    page = Page()
    page.feed((tmp_path / "page.html").read_text())
    assert not page.open
    assert page.tags["svg"] == 4
    assert page.tags["table"] == 4
    assert text.count('<tr class="best">') == 4
    assert "ff &amp; asq" in text
    assert "&lt;b&gt;" in text
    assert "#0b0a" not in text
    assert not re.search(r"https?://(?!www\.w3\.org|purl\.org|creativecommons)", text)


def test_plots_of_one_run(tmp_path: Path) -> None:
    result = simulate(small(), generate(PaperParams(jobs=30), seed=1), "gio", compiled=False)
    names = {path.name for path in plots.write(plots.of_run(result), tmp_path)}
    assert names == {"utilisation.svg", "utilisation.png", "shares.svg", "shares.png"}
