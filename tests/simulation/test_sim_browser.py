"""The report in a real browser: nothing overlaps, runs out of the page or has no colour."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tenure.placement.names import POLICIES
from tenure.simulation import Options, simulate
from tenure.simulation.sla import plots, report
from tenure.simulation.sla.compare import Study, run_study, summarise
from tenure.simulation.sla.generator import PaperParams, generate
from tenure.simulation.sla.sources import Source
from testbed import bounded
from tests.simulation.build import EXAMPLES, small

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium in PATH")
#: Runs in the page once it is laid out, and leaves what it saw as JSON in an element of its own.
LOOK = """<script>addEventListener('load', () => {
  const seen = {width: document.documentElement.scrollWidth, inner: innerWidth, svgs: [], over: []};
  for (const svg of document.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')];
    const boxes = texts.map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
    seen.svgs.push({width: box.width, height: box.height, texts: boxes.map(([t]) => t)});
    boxes.forEach(([a, p], i) => {
      if (p.left < box.left - 1 || p.right > box.right + 1) seen.over.push(['outside', a]);
      for (const [b, q] of boxes.slice(i + 1)) {
        const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (a && b && wide > 1 && high > 2) seen.over.push([a, b]);
      }
    });
  }
  const drawn = [...document.querySelectorAll('svg path, svg text, svg use')];
  seen.paints = [...new Set(drawn.filter(e => !e.closest('defs')).map(
    e => getComputedStyle(e).fill))];
  seen.tables = document.querySelectorAll('table').length;
  const out = document.createElement('script');
  out.type = 'application/json'; out.id = 'seen'; out.textContent = JSON.stringify(seen);
  document.body.append(out);
});</script>"""


def seen_in(page: str, folder: Path, width: int) -> dict[str, Any]:
    """Return what a browser of that width sees of a page."""
    file = folder / f"page-{width}.html"
    file.write_text(page.replace("</body>", f"{LOOK}</body>"))
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    profile, size = f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1200"
    assert BROWSER is not None
    ran = bounded.run(
        [BROWSER, *flags, profile, size, "--dump-dom", file.as_uri()],
        text=True,
        check=True,
        timeout_s=120,
    )
    found = re.search(r'id="seen">(.*?)</script>', ran.stdout, re.DOTALL)
    assert found, ran.stdout[-500:]
    seen: dict[str, Any] = json.loads(found[1])
    return seen


def comparison() -> str:
    study = Study(
        EXAMPLES / "small.yml",
        Source("paper:high", jobs=20),
        POLICIES,
        pricings=("1", "2", "3", "4"),
        deadlines=("off", "on"),
        seeds=(1, 2),
        options=Options(tolerance_s=100),
    )
    runs = run_study(study, compiled=False)
    rows = summarise(runs)
    columns = [(name.upper(), lambda row, name=name: row[name]) for name in ("policy", "cost_usd")]
    facts = {"policies": ", ".join(POLICIES), "command": "tenure simulate compare " * 6}
    return report.page(facts, rows, [*columns, *columns], plots.of_study(rows, runs))


def alone() -> str:
    result = simulate(small(), generate(PaperParams(jobs=40), seed=1), "gio", compiled=False)
    return report.page({"policy": "gio"}, [], [], plots.of_run(result))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("made", "named"), [(comparison, POLICIES), (alone, ())])
def test_nothing_overlaps_or_runs_out_of_the_page(
    made: Any, named: tuple[str, ...], tmp_path: Path
) -> None:
    page = made()
    for width in (1280, 700):
        seen = seen_in(page, tmp_path, width)
        assert seen["over"] == []
        assert seen["width"] <= seen["inner"]
        assert all(svg["width"] > 300 and svg["height"] > 100 for svg in seen["svgs"])
        assert len(seen["svgs"]) == page.count("<svg")
        for policy in named:
            assert all(policy in svg["texts"] for svg in seen["svgs"])
        assert seen["tables"] == page.count("<table>")
        # a variable without a value would leave black
        assert len(seen["paints"]) > 3
        assert "rgb(0, 0, 0)" not in seen["paints"]
