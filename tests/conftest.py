"""Options of the whole suite."""

import signal

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.timeouts import pytest_runtest_teardown, pytest_timeout_set_timer

__all__ = ["pytest_runtest_teardown", "pytest_timeout_set_timer"]  # pytest finds them here

#: Without "explain": once an example fails that traces every line of the tries to make it smaller,
#: which then take a test beyond its time-out, so that nobody is told what failed.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)
#: A busy machine fails no example, neither by the time that it takes nor by that to make it up.
BUSY = settings(deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy", BUSY)
#: What ``make test`` loads: the same examples in each run, so that what fails was changed. New ones
#: are looked for by ``make unit``, ``make prop`` and whoever runs a file.
settings.register_profile("same", BUSY, derandomize=True)
settings.load_profile("busy")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A suite in the background inherits "ignored", and so would the commands that it interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults",
        choices=("tenth", "rest", "all"),
        default="tenth",
        help="which part of the strikes in tests/faults: a seeded tenth, the rest, or all",
    )
    parser.addoption(
        "--faults-seed", type=int, default=20, help="the seed of strikes, delays and workload"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "strikes(name, word): its plan in tests/faults/plans.py, or what of it begins with a word",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave fault tests without a plan of strikes to the tenth: the rest need not repeat them."""
    if config.getoption("--faults") != "rest":
        return
    again = [i for i in items if i.get_closest_marker("faults") and not _is_split(i)]
    if again:
        config.hook.pytest_deselected(items=again)
        items[:] = [item for item in items if item not in again]


def _is_split(item: pytest.Item) -> bool:
    return "tests/faults/" in item.nodeid
