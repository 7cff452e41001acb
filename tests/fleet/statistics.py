"""Statistics of simulated services: what they use, and what sampler and store tell of it.

In every second run services are sampled: they have profiles once they were seen often enough in
their generation, and containers of an app that has one skip the nursery.
"""

from __future__ import annotations

from random import Random

from tenure.model.container import ContainerState, Profile, Service
from tenure.model.events import UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.fleet.shell import SimShell

SWEEP_US = 5 * US
#: As the sampler asks before it tells of a profile or an app.
MIN_SAMPLES = 3
#: For so long an app uses the same, then more or less.
PHASE_US = 90 * US
#: Used of what was asked for; the last need more than that.
SHARES = (0.1, 0.3, 0.6, 0.9, 1.2, 2.0)


class Statistics:
    """The sampler and its store, which outlive the daemon; dice of its own."""

    def __init__(self, shell: SimShell, seed: int) -> None:
        self._shell = shell
        self._seed = seed
        self._is_on = Random(f"statistics {seed}").random() < 0.5
        self._known: dict[str, Resources] = {}

    def begin(self, *, until_us: int) -> None:
        """Sample at the interval from now on."""
        if self._is_on:
            self._shell.around.timeline.after(SWEEP_US, lambda: self._sweep(until_us))

    def app_of(self, name: str) -> str:
        """Return the app of a container: without statistics nobody compares them."""
        return name.rstrip("0123456789") if self._is_on else name

    def known(self, app: str) -> Resources | None:
        """Return what an app used, None where nobody knows it."""
        return self._known.get(app)

    def _sweep(self, until_us: int) -> None:
        around = self._shell.around
        services: list[Service] = list(around.store.table("services").values())
        found = [self._profile(one, around.clocks.now_us) for one in services if _is_sampled(one)]
        profiles = tuple(row for row in found if row.samples >= MIN_SAMPLES)
        if profiles and self._shell.is_alive:
            self._known.update((row.labels["app"], row.p90) for row in profiles)
            self._shell.put(lambda at_us: UsageObserved(at_us=at_us, profiles=profiles))
        if around.timeline.now_us < until_us:
            self.begin(until_us=until_us)

    def _profile(self, service: Service, now_us: int) -> Profile:
        age_us = now_us - service.since_us
        labels = {"app": service.app}
        return Profile(service.id, self._use(service), age_us // SWEEP_US, age_us, labels=labels)

    def _use(self, service: Service) -> Resources:
        phase = self._shell.around.timeline.now_us // PHASE_US
        dice = Random(f"use {self._seed} {service.app} {phase}")
        return service.request.scaled(dice.choice(SHARES))


def _is_sampled(service: Service) -> bool:
    return service.state is ContainerState.RUNNING and service.started_us is not None
