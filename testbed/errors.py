"""The one error this package raises."""

from __future__ import annotations


class TestbedError(RuntimeError):
    """The testbed cannot do what was asked; the text says why and what to do."""

    __test__ = False  # pytest: not a test class despite its name
