"""The plots of the page: SVG that takes its colours from the page, in light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from demo.facts import ContainerFact, Facts, JobFact, Stretch

#: Placeholders that stand in the SVG until the page's variables take their place.
INK, SOFT, GRID, BACK = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04"
LOCAL, CLOUD, SPAN, LATE = "#0a0b05", "#0a0b06", "#0a0b07", "#0a0b08"
STEPS = ("#0a0b09", "#0a0b0a", "#0a0b0b")
ON_STEPS = ("#0a0b0c", "#0a0b0d", "#0a0b0e")
VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    GRID: "grid",
    BACK: "back",
    LOCAL: "local",
    CLOUD: "cloud",
    SPAN: "span",
    LATE: "late",
    **dict(zip(STEPS, ("step1", "step2", "step3"), strict=True)),
    **dict(zip(ON_STEPS, ("on1", "on2", "on3"), strict=True)),
}
_WIDTH_IN = 9.2
_Amount = Callable[[ContainerFact], float]
#: Title, what was measured, what was reserved.
_Panel = tuple[str, _Amount, _Amount | None]
_MIB = 1 << 20
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # dollars are dollars
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


def _svg(figure: Figure, name: str) -> str:
    """Return a figure as inline SVG that fills its place; ids begin with ``name``."""
    buffer = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def _figure(rows: float, columns: int = 1) -> tuple[Figure, Any]:
    """Return a figure whose height follows its rows."""
    figure = Figure(figsize=(_WIDTH_IN, 0.55 + 0.24 * rows), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    for one in axes:
        one.patch.set_alpha(0)
        one.grid(axis="x")
    return figure, axes if columns > 1 else axes[0]


def _lanes(stretches: Sequence[tuple[str, Stretch]]) -> list[tuple[str, float, float, int, int]]:
    """Return (job, begin, end, executors, lane), a job's executors on a node as one bar.

    A lane holds bars that do not overlap; the lowest free one is taken.
    """
    bars: dict[tuple[str, int], list[Stretch]] = {}
    for job, stretch in stretches:
        attempt = sum(
            other.executor == stretch.executor and other.begin_s < stretch.begin_s
            for name, other in stretches
            if name == job
        )
        bars.setdefault((job, attempt), []).append(stretch)
    found: list[tuple[str, float, float, int, int]] = []
    ends: list[float] = []
    for (job, _), parts in sorted(bars.items(), key=lambda item: min(s.begin_s for s in item[1])):
        begin, end = min(s.begin_s for s in parts), max(s.end_s for s in parts)
        lane = next((i for i, busy in enumerate(ends) if busy <= begin), len(ends))
        ends[lane : lane + 1] = [end]
        found.append((job, begin, end, len(parts), lane))
    return found


def _fits(text: str, seconds: float, facts: Facts) -> bool:
    """Return whether a label has room in a bar of so many seconds."""
    return len(text) * 0.0095 * facts.took_s < seconds


def nodes_plot(facts: Facts) -> str:
    """Return when nodes were on, and the executors of jobs on them."""
    with mpl.rc_context(_STYLE):
        rows = []
        for node in facts.nodes:
            on_it = [(j.name, s) for j in facts.jobs for s in j.stretches if s.node == node.name]
            rows.append((node, _lanes(on_it)))
        heights = [max(1, 1 + max((bar[4] for bar in bars), default=0)) for _, bars in rows]
        figure, axis = _figure(sum(heights) * 0.85 + 0.35 * len(rows) + 1)
        top, ticks = 0.0, []
        for (node, bars), height in zip(rows, heights, strict=True):
            colour = CLOUD if node.site == "cloud" else LOCAL
            spans = [(max(0.0, s.begin_s), s.end_s - max(0.0, s.begin_s)) for s in node.on]
            axis.broken_barh(spans, (top, height), facecolor=SPAN)
            boots = [(max(0.0, s.begin_s), s.end_s - max(0.0, s.begin_s)) for s in node.boots]
            axis.broken_barh(
                boots, (top, height), facecolor="none", edgecolor=SOFT, hatch="////", linewidth=0
            )
            for job, begin, end, count, lane in bars:
                axis.barh(top + lane + 0.5, end - begin, 0.78, begin, color=colour, edgecolor=BACK)
                text = f"{job} x{count}" if count > 1 else job
                is_inside = _fits(text, end - begin, facts)
                axis.text(
                    (begin if is_inside else end) + 0.005 * facts.took_s,
                    top + lane + 0.52,
                    text,
                    va="center",
                    fontsize=8,
                    color=BACK if is_inside else INK,
                )
            ticks.append((top + height / 2, f"{node.name}\n{node.generation}, {node.site}"))
            top += height + 0.35
        axis.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
        _time_axis(axis, facts.took_s)
        axis.set_ylim(top, -0.1)
        return _svg(figure, "nodes")


def _time_axis(axis: Any, until_s: float) -> None:
    axis.set_xlim(0, until_s * 1.01)
    axis.set_xlabel("seconds since the first submission")


def deadlines_plot(facts: Facts) -> str:
    """Return each job's waiting and running against its promise and its deadline."""
    with mpl.rc_context(_STYLE):
        jobs = facts.jobs
        figure, axis = _figure(len(jobs) + 1.6)
        until = max([facts.took_s, *(j.deadline_s or 0.0 for j in jobs)])
        for row, job in enumerate(jobs):
            _deadline_row(axis, row, job, facts.took_s)
        axis.set_yticks(range(len(jobs)), [job.name for job in jobs])
        _time_axis(axis, until)
        axis.set_ylim(len(jobs) - 0.4, -0.6)
        _key(
            axis,
            [
                ("waits", {"color": SOFT, "linewidth": 1.2}),
                ("runs", {"color": LOCAL, "linewidth": 6}),
                ("end promised at submission", _marker("D", INK)),
                ("deadline", _marker("|", INK)),
            ],
        )
        return _svg(figure, "deadlines")


def _marker(shape: str, colour: str) -> dict[str, Any]:
    size = 11 if shape == "|" else 4.5
    style = {"marker": shape, "color": colour, "linestyle": "none", "markersize": size}
    return {**style, "markerfacecolor": BACK, "markeredgewidth": 1.6 if shape == "|" else 1.1}


def _key(axis: Any, entries: list[tuple[str, dict[str, Any]]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=label, **style) for label, style in entries]
    axis.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=len(entries),
        frameon=False,
        borderpad=0,
        handlelength=1.6,
        columnspacing=1.8,
    )


def _deadline_row(axis: Any, row: int, job: JobFact, took_s: float) -> None:
    end = job.finished_s if job.finished_s is not None else took_s
    begin = min((s.begin_s for s in job.stretches), default=end)
    axis.plot([job.submitted_s, begin], [row, row], color=SOFT, linewidth=1.2)
    is_late = job.deadline_s is not None and job.expects == "met" and not job.is_met
    axis.barh(row, end - begin, 0.5, begin, color=LATE if is_late else LOCAL)
    if job.promised_end_s is not None:
        axis.plot([job.promised_end_s], [row], **_marker("D", INK))
    if job.deadline_s is not None:
        axis.plot([job.deadline_s], [row], **_marker("|", INK))
    if job.state != "succeeded":
        axis.text(end + 0.6, row, f" {job.state}", va="center", fontsize=8, color=SOFT)


def moves_plot(facts: Facts) -> str:
    """Return in which generation, and on which node, each container was."""
    with mpl.rc_context(_STYLE):
        order = list(dict.fromkeys(node.generation for node in facts.nodes))
        figure, axis = _figure(len(facts.containers) + 1.6)
        for row, box in enumerate(facts.containers):
            for stay in box.stays:
                step = min(order.index(stay.generation), len(STEPS) - 1)
                begin = max(0.0, stay.begin_s)
                axis.barh(row, stay.end_s - begin, 0.7, begin, color=STEPS[step], edgecolor=BACK)
                if _fits(stay.node, stay.end_s - begin, facts):
                    middle = (begin + stay.end_s) / 2
                    style = {"ha": "center", "va": "center", "fontsize": 8}
                    axis.text(middle, row, stay.node, color=ON_STEPS[step], **style)
        axis.set_yticks(range(len(facts.containers)), [box.name for box in facts.containers])
        _time_axis(axis, facts.took_s)
        axis.set_ylim(len(facts.containers) - 0.5, -0.6)
        steps = [STEPS[min(i, len(STEPS) - 1)] for i in range(len(order))]
        _key(
            axis,
            [(n, {"color": c, "linewidth": 6}) for n, c in zip(order, steps, strict=True)],
        )
        return _svg(figure, "moves")


def use_plot(facts: Facts) -> str:
    """Return the measured use of each container beside what it reserved."""
    panels: tuple[_Panel, ...] = (
        ("CPU, cores", lambda b: b.used_cpus, lambda b: b.asked_cpus),
        (
            "memory, MiB",
            lambda b: b.used_memory_bytes / _MIB,
            lambda b: b.asked_memory_bytes / _MIB,
        ),
        ("disk, MiB/s", lambda b: b.used_disk_bytes_per_s / _MIB, None),
        ("network, KiB/s", lambda b: b.used_net_bytes_per_s / 1024, None),
    )
    with mpl.rc_context(_STYLE):
        boxes = facts.containers
        figure, axes = _figure(len(boxes) + 2.6, len(panels))
        layout: Any = figure.get_layout_engine()
        layout.set(wspace=0.08)
        for axis, (title, used, asked) in zip(axes, panels, strict=True):
            axis.barh(range(len(boxes)), [used(box) for box in boxes], 0.55, color=LOCAL)
            if asked is not None:
                for row, box in enumerate(boxes):
                    if asked(box):
                        axis.plot([asked(box)], [row], **_marker("|", INK))
            axis.set_title(title, loc="left", fontsize=9, color=INK)
            axis.set_xlim(left=0)
            axis.margins(x=0.1)
            axis.locator_params(axis="x", nbins=3)
        axes[0].set_yticks(range(len(boxes)), [_label(box) for box in boxes])
        axes[0].set_ylim(len(boxes) - 0.4, -0.6)
        return _svg(figure, "use")


def _label(box: ContainerFact) -> str:
    return f"{box.name}\n{box.kind}"


def cost_plot(facts: Facts) -> str:
    """Return what each node cost, in its site's colour."""
    with mpl.rc_context(_STYLE):
        figure, axis = _figure(len(facts.nodes) + 1.2)
        most = max(facts.cost.by_node.values(), default=0.0) or 1.0
        for row, node in enumerate(facts.nodes):
            cost = facts.cost.by_node.get(node.name, 0.0)
            axis.barh(row, cost, 0.6, color=CLOUD if node.site == "cloud" else LOCAL)
            on_s = sum(span.end_s - span.begin_s for span in node.on)
            text = f"${cost:.5f}: {on_s:.0f} s at ${node.price_usd_per_h:.2f}/h"
            axis.text(cost + most * 0.01, row, text, va="center", fontsize=8.5, color=SOFT)
        axis.set_yticks(range(len(facts.nodes)), [f"{n.name} ({n.site})" for n in facts.nodes])
        axis.set_xlim(0, most * 1.4)
        axis.set_xlabel("dollars")
        axis.set_ylim(len(facts.nodes) - 0.4, -0.6)
        return _svg(figure, "cost")
