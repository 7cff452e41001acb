"""How the run time of an app follows from its job's size (ours; the SLA paper has one size an app).

Of one size the mean of the last ``RUNS`` runs counts, as in section 3 of the paper. For a size that
was never run, time is taken for a power of computing power (executors x cores, exponent -1 to 0)
times a power of the bytes read (0 to 1). Of all pairs of exponents that explain the runs nearly as
well as the best does, the one that tells the longest time is believed. So whatever the runs leave
open is taken at its worst, and the answer is monotone: no longer for more power, no shorter for
more bytes. Owns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import exp, log

from tenure.model.estimate import JobSize, RunTime
from tenure.model.units import US

#: Runs of one size that are remembered, and of all sizes together.
RUNS, ALL_RUNS = 10, 40
#: Inputs that differ by less than this part are of one size.
ALIKE = 0.1
#: Exponents that are tried, without their signs.
EXPONENTS = [step / 10 for step in range(11)]
#: The least relative noise of run times that is believed, and how much worse than the best a pair
#: may explain the runs, in variances (95 % of chi square with one degree of freedom).
NOISE, WORSE = 0.05, 3.84
#: No time that is worked out from other sizes is longer.
MOST_US = 30 * 86_400 * US


def is_alike(run: RunTime, asked: JobSize) -> bool:
    """Whether a run was of the size that is asked for; one stored without a size counts as it."""
    size = run.size
    if size is None:
        return True
    is_one_shape = (size.executors, size.cpu_m) == (asked.executors, asked.cpu_m)
    return is_one_shape and abs(_bytes(size) - _bytes(asked)) <= ALIKE


def with_run(runs: Sequence[RunTime], run: RunTime, size: JobSize) -> tuple[RunTime, ...]:
    """Return the runs to remember with one more: ``RUNS`` of its size, ``ALL_RUNS`` in all."""
    alike = [index for index, one in enumerate(runs) if is_alike(one, size)]
    dropped = alike[0] if len(alike) >= RUNS else None
    kept = [one for index, one in enumerate(runs) if index != dropped]
    return (*kept, run)[-ALL_RUNS:]


def expected_us(runs: Sequence[RunTime], asked: JobSize) -> float:
    """Return how long a job of a size is expected to run (us), 0 where nothing is known.

    Runs that read nothing say nothing of those that read, nor these of them.
    """
    alike = [run.taken_us for run in runs if is_alike(run, asked)]
    if alike:
        return sum(alike) / len(alike)
    does_read = asked.input_bytes > 0
    told = [run for run in runs if run.size and (run.size.input_bytes > 0) is does_read]
    return exp(min(log(MOST_US), _longest_log(told, asked))) if told else 0.0


def _longest_log(runs: Sequence[RunTime], asked: JobSize) -> float:
    """Return the logarithm of the longest time that runs of other sizes leave likely."""
    sizes = [run.size for run in runs if run.size is not None]
    power, powers = _centred([_power(size) for size in sizes])
    read, reads = _centred([_bytes(size) for size in sizes])
    time, times = _centred([log(run.taken_us) for run in runs])
    squares = [_product(one, one) for one in (powers, reads, times)]
    mixed = _product(powers, reads)
    by_power, by_read = _product(powers, times), _product(reads, times)

    def error(a: float, b: float) -> float:
        """Return the squared error of time = power^-a x bytes^b."""
        own = a * a * squares[0] + b * b * squares[1] + squares[2]
        return own + 2 * (a * by_power - b * by_read - a * b * mixed)

    errors = {pair: error(*pair) for pair in product(EXPONENTS, repeat=2)}
    least = max(0.0, min(errors.values()))
    bound = least + WORSE * max(least / max(1, len(sizes) - 3), NOISE * NOISE)
    likely = [pair for pair, found in errors.items() if found <= bound]
    more_power, more_read = _power(asked) - power, _bytes(asked) - read
    return time + max(b * more_read - a * more_power for a, b in likely)


def _centred(values: list[float]) -> tuple[float, list[float]]:
    """Return the mean and how far each value is from it."""
    mean = sum(values) / len(values)
    return mean, [value - mean for value in values]


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _power(size: JobSize) -> float:
    return log(max(1, size.executors * size.cpu_m))


def _bytes(size: JobSize) -> float:
    return log(max(1, size.input_bytes))
