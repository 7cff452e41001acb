"""The policies for a daemon that starts: their code and numpy are imported with the first question.

Together they take a tenth of a second, which nobody should wait for who has nothing to place yet.
``load`` does it beforehand, in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tenure.placement.names import EVERY, TENURE

if TYPE_CHECKING:
    from tenure.placement.policies import Policies


class _Late:
    """Stands for ``Policies``; what does not need them is answered here."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._made: Policies | None = None

    def policies(self) -> tuple[str, ...]:
        return EVERY

    def is_planned(self, policy: str) -> bool:
        return policy == TENURE

    @property
    def has_placed(self) -> bool:
        return self._made is not None and self._made.has_placed

    @property
    def has_planned(self) -> bool:
        return self._made is not None and self._made.has_planned

    def __getattr__(self, name: str) -> Any:
        """Ask the policies themselves."""
        if self._made is None:
            from tenure.placement.policies import Policies

            self._made = Policies(patience=self._patience)
        return getattr(self._made, name)


def late(patience: float) -> Policies:
    """Return the policies, of which nothing is imported before one is asked."""
    return cast("Policies", _Late(patience))


def load() -> None:
    """Import what the first question would."""
    import tenure.placement.policies  # noqa: F401
