"""numpy as ``np``, imported when something of it is first used.

What the daemon is made of speaks of arrays and needs none until something is to be placed; numpy
takes a tenth of a daemon's start. Rooms that always compute with arrays import it as usual.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class Late:
    """A module that is imported when something of it is first used, by whichever thread."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Return it from the module, and keep it: the next use is that of an attribute."""
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    import numpy as np
else:
    np = Late("numpy")
