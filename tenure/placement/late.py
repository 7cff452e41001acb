"""The policies for a daemon that starts: their code and numpy are imported with the first question.

Together they take a tenth of a second, which nobody should wait for who has nothing to place yet.
``load`` does it beforehand, in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.placement.policies import Policies


class LatePolicies:
    """Makes the policies when it is first called; ``made`` is None until then."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.made: Policies | None = None

    def __call__(self) -> Policies:
        """Return the policies, the same each time."""
        if self.made is None:
            from tenure.placement.policies import Policies

            self.made = Policies(patience=self._patience)
        return self.made


def load() -> None:
    """Import what the first question would."""
    import tenure.placement.policies  # noqa: F401
