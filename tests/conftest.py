"""Options of the whole suite."""

import pytest


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
    config.addinivalue_line("markers", "strikes(name): its plan in tests/faults/plans.py")
