"""Which containers of a generation may move now, and why the others may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenure.cycles.snapshot import ServiceView, Snapshot
from tenure.model.container import Profile
from tenure.model.plan import CycleSpec, Kept
from tenure.model.resources import Resources, larger
from tenure.model.units import US


@dataclass(frozen=True, slots=True)
class Candidate:
    """A container that may move; ``need`` its profile x headroom, or its reservation if larger."""

    service: ServiceView
    profile: Profile
    need: Resources


def select(snapshot: Snapshot, spec: CycleSpec) -> tuple[list[Candidate], list[Kept]]:
    """Part the services of ``spec.source`` into candidates and kept ones, both by id."""
    profiles = {profile.container: profile for profile in snapshot.profiles}
    candidates: list[Candidate] = []
    kept: list[Kept] = []
    for service in sorted(snapshot.services, key=lambda row: row.id):
        if service.generation != spec.source:
            continue
        found = candidate_of(snapshot, spec, service, profiles.get(service.id))
        if isinstance(found, Kept):
            kept.append(found)
        else:
            candidates.append(found)
    return candidates, kept


def candidate_of(
    snapshot: Snapshot, spec: CycleSpec, service: ServiceView, profile: Profile | None
) -> Candidate | Kept:
    """Return the container as one that may move now, or why it may not.

    The age that is asked for counts in the source generation of ``spec`` alone.
    """
    reason = _bar(snapshot, spec, service) or _lack(spec, profile)
    if reason is not None or profile is None:
        return Kept(service.id, *(reason or ("too_few_samples", "no profile")))
    return Candidate(service, profile, need_of(service, profile, spec))


def need_of(service: ServiceView, profile: Profile, spec: CycleSpec) -> Resources:
    """Return what the container takes on its next node, in every dimension."""
    return larger(profile.p90.scaled(spec.headroom), service.reserved)


def _bar(snapshot: Snapshot, spec: CycleSpec, service: ServiceView) -> tuple[str, str] | None:
    """Return code and sentence of the first rule that keeps the container, or None."""
    if service.state != "running":
        return "not_running", f"it is {service.state}, not running"
    if service.barred_code:
        return service.barred_code, service.barred
    age_us = snapshot.now_us - service.since_us
    least_us = spec.min_age_us if service.min_age_us is None else service.min_age_us
    if service.generation == spec.source and age_us < least_us:
        return "too_young", (
            f"it has been in {spec.source} for {_s(age_us)} s of the {_s(least_us)} s required"
        )
    if service.moved_us is not None and snapshot.now_us < service.moved_us + snapshot.cooldown_us:
        since_us = snapshot.now_us - service.moved_us
        return "cooldown", (
            f"it was moved {_s(since_us)} s ago; {_s(snapshot.cooldown_us)} s must pass"
        )
    return None


def _lack(spec: CycleSpec, profile: Profile | None) -> tuple[str, str] | None:
    samples = profile.samples if profile else 0
    if profile is not None and samples >= spec.min_samples:
        return None
    return "too_few_samples", f"{samples} samples of the {spec.min_samples} required"


def by_arrival(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Order as they came into their generation, as classic binpack meets them."""
    return sorted(candidates, key=lambda row: (row.service.since_us, row.service.id))


def by_size(candidates: Iterable[Candidate], shape: Resources) -> list[Candidate]:
    """Order by decreasing size, then id: the largest while there is room for it.

    Size is the sum over the dimensions that ``shape`` states of the squared ratios of need to it
    (the norm of GENPACK section 5.1 without its root, which changes no order).
    """
    return sorted(candidates, key=lambda row: (-_size(row.need, shape), row.service.id))


def _size(need: Resources, shape: Resources) -> float:
    pairs = zip(need.values(), shape.values(), strict=True)
    return sum((want / have) ** 2 for want, have in pairs if have > 0)


def shape_of(capacities: Iterable[Resources]) -> Resources:
    """Return the largest amount of each dimension among ``capacities``."""
    shape = Resources()
    for capacity in capacities:
        shape = larger(shape, capacity)
    return shape


def _s(us: int) -> int:
    return us // US
