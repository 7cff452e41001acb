"""The errors of the demo."""

from __future__ import annotations


class DemoError(RuntimeError):
    """The demo cannot go on; the text says why."""
