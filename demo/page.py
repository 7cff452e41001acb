"""The report as one HTML file that needs nothing else: plots inline, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from demo.checks import Check
from demo.facts import Facts
from demo.report import at, on_s, outcome, path_of, rate, size, some, spans_text, summary, usd

_CSS = """
:root { color-scheme: light dark;
  --back: #ffffff; --ink: #1d2330; --soft: #5d6675; --grid: #e1e5eb; --card: #f5f7fa;
  --local: #2f6fd0; --cloud: #c9641a; --span: #e6eaf0; --late: #c4262e; --good: #1a7f45;
  --step1: #bcd5f7; --step2: #3c78cd; --step3: #143a78;
  --on1: #10284f; --on2: #ffffff; --on3: #ffffff; }
@media (prefers-color-scheme: dark) { :root {
  --back: #14171d; --ink: #e6e9ef; --soft: #a3adbb; --grid: #2c323c; --card: #1c2028;
  --local: #6ea4f2; --cloud: #ec9a57; --span: #272d37; --late: #ff7a78; --good: #5fca8b;
  --step1: #2a4a78; --step2: #4f86d6; --step3: #a9caf8;
  --on1: #e6e9ef; --on2: #0d131c; --on3: #0d131c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 40px 0 4px; }
p { margin: 4px 0 12px; color: var(--soft); max-width: 72ch; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 20px 0; }
.figures div { background: var(--card); border-radius: 8px; padding: 12px 14px; }
.figures b { display: block; font-size: 22px; font-weight: 600; }
.figures span { color: var(--soft); font-size: 13px; }
ul.checks { list-style: none; margin: 8px 0; padding: 0; }
ul.checks li { padding: 5px 0 5px 26px; position: relative; }
ul.checks li::before { position: absolute; left: 2px; font-weight: 700; }
ul.checks li.held::before { content: "✓"; color: var(--good); }
ul.checks li.broken::before { content: "✗"; color: var(--late); }
ul.checks small { display: block; color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; }
.scroll svg { display: block; min-width: 680px; height: auto; }
svg text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif !important; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px;
  font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
th.n, td.n { text-align: right; white-space: nowrap; }
td:first-child { white-space: nowrap; }
blockquote { margin: 8px 0; padding: 8px 14px; background: var(--card); border-radius: 8px;
  font-size: 13.5px; }
"""


def page(facts: Facts, checks: Sequence[Check]) -> str:
    """Return the page."""
    from demo import plots  # a third of a second, and only needed here

    parts = [
        f"<h1>tenure: a run on real engines</h1><p>{escape(summary(facts))}</p>",
        _figures(facts, checks),
        _section("What was expected", "", _checks(checks)),
        _section(
            "Nodes and the jobs on them",
            "A grey band: the node is on and costs; hatched: it boots. A bar: a job's executors.",
            _scroll(plots.nodes_plot(facts)),
        ),
        _section("Deadlines", "When each job ended, against its deadline.", _deadlines(facts)),
        _section("Refused", "Answered at once, with what would be possible.", _refused(facts)),
        _section(
            "Containers between generations",
            "Cycles fired by cron move containers by what they were measured to use.",
            _scroll(plots.moves_plot(facts)) + _containers(facts),
        ),
        _section(
            "Measured use and reservation",
            "Bars: the measured 90th percentile. Marks: what was reserved, where anything was.",
            _scroll(plots.use_plot(facts)),
        ),
        _section("Cost", _cost_words(facts), _scroll(plots.cost_plot(facts)) + _nodes(facts)),
        _section("Runs of cycles", "", _runs(facts)),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>tenure: a run on real engines</title><style>{_CSS}</style></head>"
    )
    return f"{head}<body><main>{''.join(parts)}</main></body></html>\n"


def _section(title: str, words: str, body: str) -> str:
    intro = f"<p>{escape(words)}</p>" if words else ""
    return f"<section><h2>{escape(title)}</h2>{intro}{body}</section>" if body else ""


def _scroll(body: str) -> str:
    return f'<div class="scroll">{body}</div>'


def _figures(facts: Facts, checks: Sequence[Check]) -> str:
    due = [job for job in facts.jobs if job.expects == "met"]
    met = sum(job.is_met for job in due)
    switched = sum(len(node.on) for node in facts.nodes if node.can_switch)
    pairs = [
        (f"{sum(c.is_held for c in checks)} of {len(checks)}", "checks hold"),
        (f"{met} of {len(due)}", "promised deadlines met"),
        (str(len(facts.refusals)), "jobs refused at once"),
        (str(sum(move.step == "done" for move in facts.moves)), "moves of containers"),
        (str(switched), "times a node was switched on"),
        (usd(facts.cost.total_usd), "spent"),
    ]
    cells = "".join(f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in pairs)
    return f'<div class="figures">{cells}</div>'


def _checks(checks: Sequence[Check]) -> str:
    rows = [
        f'<li class="{"held" if c.is_held else "broken"}">{escape(c.what)}'
        f"<small>{escape(c.detail)}</small></li>"
        for c in checks
    ]
    return f'<ul class="checks">{"".join(rows)}</ul>'


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Return a table; bit i of ``numbers`` says that column i is right-aligned."""
    marks = [' class="n"' if numbers >> i & 1 else "" for i in range(len(names))]
    head = "".join(f"<th{m}>{escape(n)}</th>" for n, m in zip(names, marks, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{m}>{escape(cell)}</td>" for cell, m in zip(row, marks, strict=True))
        + "</tr>"
        for row in rows
    )
    return _scroll(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _deadlines(facts: Facts) -> str:
    from demo.plots import deadlines_plot

    names = ("job", "size", "on", "ended", "promised", "deadline", "cost", "result", "shows")
    rows = [
        (
            job.name,
            f"{job.executors} x {job.cpus:g}",
            ", ".join(job.nodes),
            at(job.finished_s),
            at(job.promised_end_s),
            at(job.deadline_s),
            usd(job.cost_usd),
            outcome(job),
            job.shows,
        )
        for job in facts.jobs
    ]
    return _scroll(deadlines_plot(facts)) + _table(names, rows, 0b001111000) + _explained(facts)


def _explained(facts: Facts) -> str:
    if not facts.explained:
        return ""
    lines = "<br>".join(escape(line) for line in facts.explained)
    words = f"Why {facts.goals.explained} waited, as asked at that moment:"
    return f"<p style='margin-top:16px'>{escape(words)}</p><blockquote>{lines}</blockquote>"


def _refused(facts: Facts) -> str:
    rows = [(r.name, r.reason or r.code, r.earliest or "none", r.detail) for r in facts.refusals]
    return _table(("job", "because", "earliest offer", "answer"), rows) if rows else ""


def _containers(facts: Facts) -> str:
    names = ("container", "kind", "CPU", "memory", "disk", "network", "samples", "was on")
    rows = [
        (
            box.name,
            box.kind,
            f"{box.used_cpus:.3f}",
            size(box.used_memory_bytes),
            rate(box.used_disk_bytes_per_s),
            rate(box.used_net_bytes_per_s),
            str(box.samples),
            path_of(box).replace(">", "→"),
        )
        for box in facts.containers
    ]
    return _table(names, rows, 0b01111100)


def _cost_words(facts: Facts) -> str:
    sites = ", ".join(f"{site} {usd(cost)}" for site, cost in sorted(facts.cost.by_site.items()))
    return f"{usd(facts.cost.total_usd)} in all: {sites}."


def _nodes(facts: Facts) -> str:
    names = ("node", "generation", "site", "price", "on for", "cost", "on at")
    rows = [
        (
            node.name,
            node.generation,
            node.site,
            f"${node.price_usd_per_h:.2f}/h",
            f"{on_s(node):.0f} s",
            usd(facts.cost.by_node.get(node.name, 0.0)),
            spans_text(node.on) if node.can_switch else "always",
        )
        for node in facts.nodes
    ]
    return _table(names, rows, 0b0111000)


def _runs(facts: Facts) -> str:
    names = ("cycle", "fired by", "due at", "state", "moves", "stayed")
    rows = [
        (
            r.cycle,
            r.trigger,
            at(r.due_s),
            r.state,
            f"{r.accepted} of {r.moves}",
            some(r.kept) or r.reason,
        )
        for r in facts.runs
    ]
    return _table(names, rows, 0b010100)
