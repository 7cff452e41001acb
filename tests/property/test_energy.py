"""Energy: its parts sum, windows add up, and each moment is what the power model says."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.energy import Metered, NodeEnergy, NodePast, Share, Use
from tenure.model.ledger import Interval
from tenure.model.node import Site
from tenure.profiling.energy import NOMINAL_W, account, reach

END = 40
Window = tuple[int, int]
W = 1_000_000  # a unit of watts large enough that roundings to a microjoule do not show


@st.composite
def spans(draw: st.DrawFn, most: int) -> list[Window]:
    """Up to ``most`` spans that do not overlap, in order."""
    cuts = sorted(draw(st.sets(st.integers(0, END), max_size=2 * most)))
    return list(zip(cuts[::2], cuts[1::2], strict=False))


@st.composite
def pasts(draw: st.DrawFn) -> NodePast:
    rows = []
    for begin, end in draw(spans(3)):
        idle, more = draw(st.sampled_from([0, 60, 100])), draw(st.sampled_from([0, 80]))
        boot = draw(st.one_of(st.none(), st.integers(0, end - begin)))
        is_open = draw(st.booleans()) and end == END
        rows.append(
            Interval(
                f"n@{begin}",
                "n",
                Site.LOCAL,
                draw(st.sampled_from(["young", "tenured"])),
                0,
                begin,
                None if is_open else end,
                boot_us=boot,
                idle_w=idle * W,
                peak_w=(idle + more) * W,
                cpu_m=draw(st.sampled_from([0, 2000, 4000])),
            )
        )
    known = draw(st.integers(0, rows[0].on_us if rows else END))
    return NodePast("n", "young", rows, known, off_w=5 * W, is_known=draw(st.booleans()))


@st.composite
def uses_of(draw: st.DrawFn) -> list[Use]:
    found = []
    for name in ("a", "b", ""):
        for begin, end in draw(spans(3)):
            cpu = draw(st.integers(0, 2 * (end - begin)))
            reserved = draw(st.sampled_from([100, 500])) * (end - begin) if name else 0
            found.append(Use("n", name, begin, end, cpu, reserved))
    return draw(st.permutations(found))


@st.composite
def meters(draw: st.DrawFn) -> list[Metered]:
    return [Metered("n", b, e, draw(st.integers(0, 5000 * W))) for b, e in draw(spans(2))]


windows = st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda w: (min(w), max(w)))


def energy(past: NodePast, uses: list[Use], metered: list[Metered], window: Window) -> NodeEnergy:
    """Account with just what the store would give for the window."""
    cut = [m for m in metered if m.end_us > window[0] and m.begin_us < window[1]]
    low, high = reach(window, cut)
    near = [u for u in uses if u.end_us > low and u.begin_us < high]
    return account(past, near, cut, window)


def parts(found: NodeEnergy) -> dict[str, int]:
    shares = {f"share {name}": share.active_uj for name, share in found.shares.items()}
    shares |= {f"idle of {name}": share.idle_uj for name, share in found.shares.items()}
    rest = ("foreign_uj", "idle_uj", "boot_uj", "off_uj", "measured_uj")
    times = ("on_us", "boot_us", "off_us", "metered_us")
    return {**shares, **{name: getattr(found, name) for name in (*rest, *times)}}


def is_near(one: float, other: float) -> bool:
    return abs(one - other) <= 50 + 1e-9 * abs(other)


# the oracle: microsecond by microsecond


def moment(
    past: NodePast, uses: list[Use], at: int, *, is_metered: bool
) -> tuple[dict[str, float], bool]:
    """Return the modelled draw of one microsecond by cause, and whether the node was on."""
    row = next(
        (r for r in past.intervals if r.on_us <= at and (r.off_us is None or at < r.off_us)), None
    )
    if row is None:
        first = min((r.on_us for r in past.intervals), default=END)
        is_there = past.is_known and at >= (past.known_us or first)
        return ({"off_uj": past.off_w} if is_there and not is_metered else {}), False
    idle, peak = row.idle_w, row.peak_w
    if idle == peak == 0 and is_metered:
        idle, peak = NOMINAL_W
    if row.boot_us is None or at < row.on_us + row.boot_us:
        return {"boot_uj": peak}, True
    here = [u for u in uses if u.begin_us <= at < u.end_us]
    found: dict[str, float] = {}
    rates = [use.cpu_us / (use.end_us - use.begin_us) for use in here]
    cores = max(row.cpu_m / 1000, sum(rates))
    for use, rate in zip(here, rates, strict=True):
        watts = rate * (peak - idle) / cores if row.cpu_m else 0
        name = f"share {use.container}" if use.container else "foreign_uj"
        found[name] = found.get(name, 0) + watts
    weights = {u.container: u.reserved_us / (u.end_us - u.begin_us) for u in here if u.container}
    for name, weight in weights.items():
        found[f"idle of {name}"] = idle * weight / sum(weights.values())
    if not weights:
        found["idle_uj"] = idle
    return found, True


def oracle(
    past: NodePast, uses: list[Use], metered: list[Metered], window: Window
) -> dict[str, float]:
    sums: dict[str, float] = {}
    for at in range(*window):
        read = next((m for m in metered if m.begin_us <= at < m.end_us), None)
        draw, is_on = moment(past, uses, at, is_metered=False)
        if read is not None and is_on:
            whole = [
                moment(past, uses, t, is_metered=True) for t in range(read.begin_us, read.end_us)
            ]
            modelled = sum(sum(one.values()) for one, on in whole if on)
            if modelled > 0:
                draw, _ = moment(past, uses, at, is_metered=True)
                draw = {key: w * read.energy_uj / modelled for key, w in draw.items()}
                sums["measured_uj"] = sums.get("measured_uj", 0) + sum(draw.values())
        for key, watts in draw.items():
            sums[key] = sums.get(key, 0) + watts
    return sums


@settings(max_examples=400)
@given(pasts(), uses_of(), meters(), windows)
def test_each_moment_is_as_the_model_says(
    past: NodePast, uses: list[Use], metered: list[Metered], window: Window
) -> None:
    found, wanted = parts(energy(past, uses, metered, window)), oracle(past, uses, metered, window)
    for key in {*found, *wanted}:
        if key.endswith("_uj") or " " in key:
            assert is_near(found.get(key, 0), wanted.get(key, 0)), key


@settings(max_examples=300)
@given(pasts(), uses_of(), meters(), windows, st.integers(0, END))
def test_adjoining_windows_add_up(
    past: NodePast, uses: list[Use], metered: list[Metered], window: Window, cut: int
) -> None:
    middle = min(max(cut, window[0]), window[1])
    whole = parts(energy(past, uses, metered, window))
    halves = [
        parts(energy(past, uses, metered, half))
        for half in ((window[0], middle), (middle, window[1]))
    ]
    for key in {*whole, *halves[0], *halves[1]}:
        assert is_near(sum(half.get(key, 0) for half in halves), whole.get(key, 0)), key


@given(pasts(), uses_of(), meters(), windows)
def test_parts_sum_to_the_node_and_generations_to_it(
    past: NodePast, uses: list[Use], metered: list[Metered], window: Window
) -> None:
    found = energy(past, uses, metered, window)
    rest = found.foreign_uj + found.idle_uj + found.boot_uj + found.off_uj
    assert found.containers_uj + rest == found.total_uj
    assert sum(found.by_generation.values()) == found.total_uj
    assert min(parts(found).values()) >= 0
    on = sum(
        max(0, min(END if r.off_us is None else r.off_us, window[1]) - max(r.on_us, window[0]))
        for r in past.intervals
    )
    assert found.on_us == on


@given(pasts(), uses_of(), windows)
def test_what_is_measured_is_the_sum(past: NodePast, uses: list[Use], window: Window) -> None:
    """A measurement of a time in which the node draws anything is met to the microjoule."""
    read = Metered("n", *window, 123 * W)
    found = energy(past, uses, [read], window)
    if found.metered_us == found.on_us > 0:
        assert is_near(found.total_uj - found.off_uj, 123 * W)
        assert found.source == "measured"


def test_worked_numbers() -> None:
    """Four cores, 100 W idle, 200 W full: 10 s boot, 90 s on, two containers half of it."""
    us = 1_000_000
    row = Interval("n@0", "n", Site.LOCAL, "young", 0, 0, 100 * us, 0)
    row = replace(row, boot_us=10 * us, idle_w=100.0, peak_w=200.0, cpu_m=4000)
    uses = [
        Use("n", "a", 10 * us, 60 * us, 100 * us, 3000 * 50 * us),  # two cores, reserves three
        Use("n", "b", 10 * us, 60 * us, 0, 1000 * 50 * us),
    ]
    past = NodePast("n", "young", [row], known_us=0, off_w=5.0)
    found = account(past, uses, [], (0, 160 * us))
    assert found.boot_uj == 10 * us * 200
    assert found.idle_uj == 40 * us * 100
    assert found.off_uj == 60 * us * 5
    assert found.shares == {
        "a": Share(50 * us * 50, 50 * us * 75),
        "b": Share(0, 50 * us * 25),
    }
    assert (found.source, found.on_us, found.boot_us) == ("modelled", 100 * us, 10 * us)


def test_no_use_takes_a_node_beyond_its_peak() -> None:
    """It states two cores of a machine of more: containers without a limit are busy on eight."""
    row = Interval("n@0", "n", Site.LOCAL, "young", 0, 0, None, idle_w=100.0, peak_w=200.0)
    past = NodePast("n", "young", [replace(row, cpu_m=2000)])
    uses = [Use("n", "a", 0, 90, 6 * 90, 90_000), Use("n", "b", 0, 90, 2 * 90, 90_000)]
    found = account(past, uses, [], (0, 90))
    assert found.total_uj == 200 * 90
    assert found.shares == {"a": Share(75 * 90, 50 * 90), "b": Share(25 * 90, 50 * 90)}


def test_a_node_without_stated_watts_is_unknown_until_it_is_measured() -> None:
    row = Interval("n@0", "n", Site.LOCAL, "young", 0, 0, None, cpu_m=1000)
    past = NodePast("n", "young", [row])
    use = [Use("n", "a", 0, 100, 0, 10_000)]
    bare = account(past, use, [], (0, 100))
    assert (bare.total_uj, bare.source) == (0, "unknown")
    read = account(past, use, [Metered("n", 0, 50, 7000)], (0, 100))
    assert (read.total_uj, read.source) == (7000, "mixed")
