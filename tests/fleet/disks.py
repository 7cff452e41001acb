"""The storage tiers of a simulated host: what truly lies in each directory."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.model.effects import (
    CheckBlocks,
    CopyBlock,
    DropBlocks,
    MeasureTiers,
    SurveyTiers,
    TierEffect,
)
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.tier import TierKind

#: Bytes a second of a tier by its kind.
SPEEDS = {TierKind.MEMORY: 3_200_000_000, TierKind.SSD: 400_000_000, TierKind.HDD: 160_000_000}
MARKER = ".tier"
#: What a file turns into that rots.
ROTTEN = "rotten"


@dataclass(slots=True)
class Disks:
    """Files of one host by directory and name: checksum and size.

    ``volatile`` are the directories that lie in memory, as far as tenure has named them. ``drops``
    are the removals that were asked for, ``ended`` those whose helpers a survey has removed.
    """

    files: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    volatile: set[str] = field(default_factory=set)
    drops: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def expect(self, effect: TierEffect) -> None:
        """Take in that an effect is on its way."""
        if isinstance(effect, DropBlocks):
            self.drops.add(effect.id)

    def end_helpers(self) -> None:
        """Remove the helpers that are left: what they were asked for does not happen any more."""
        self.ended |= self.drops
        self.drops.clear()

    def forget_memory(self) -> None:
        """Lose what lies in memory: the host goes down."""
        for path in self.volatile:
            self.files.pop(path, None)

    def perform(self, effect: TierEffect, origin: Disks) -> Outcome:
        """Do what an effect asks for; ``origin`` are the disks of the host it copies from."""
        if isinstance(effect, CopyBlock):
            return self._copy(effect, origin)
        if isinstance(effect, SurveyTiers):
            return self._survey(effect)
        if isinstance(effect, MeasureTiers):
            return Done(counts=tuple((tier.name, SPEEDS[tier.kind]) for tier in effect.tiers))
        here = self.files.setdefault(effect.path, {})
        if isinstance(effect, CheckBlocks):
            rows = ((name, int(here.get(name, ("", 0))[0] == sha)) for name, sha in effect.sums)
            return Done(counts=tuple(rows))
        assert isinstance(effect, DropBlocks)
        if effect.id in self.ended:
            return Refused("engine_error", "its helper was removed")
        for name in list(here):
            if any(name == gone or name.startswith(f"{gone}/") for gone in effect.names):
                del here[name]
        return Done()

    def _copy(self, effect: CopyBlock, origin: Disks) -> Outcome:
        digest = digest_of(effect.name)
        if effect.origin is None:
            found = origin.find(effect.source_path)
            if found is None:
                return Refused("engine_error", f"no file {effect.source_path}")
            digest = found[0]
        if effect.sha256 and digest != effect.sha256:
            return Refused("corrupted", f"{effect.source_path} is not what was put")
        here = self.files.setdefault(effect.path, {})
        here[effect.name] = (digest, effect.length)
        here[f"{effect.name.partition('/')[0]}/{MARKER}"] = ("", 0)
        return Done(digest, moved_bytes=effect.length)

    def _survey(self, effect: SurveyTiers) -> Outcome:
        self.volatile |= {tier.path for tier in effect.tiers if tier.kind is TierKind.MEMORY}
        counts = tuple(
            (f"{tier.name}/{name}", size)
            for tier in effect.tiers
            for name, (_, size) in self.files.get(tier.path, {}).items()
        )
        return Done(counts=counts)

    def find(self, path: str) -> tuple[str, int] | None:
        """Return a file by its path on the host."""
        for folder, rows in self.files.items():
            found = rows.get(path.removeprefix(f"{folder}/"))
            if found is not None and path.startswith(f"{folder}/"):
                return found
        return None


def digest_of(name: str) -> str:
    """Return the checksum of the true content of a block by its name."""
    return f"sha {name.partition('/')[2]}"
