"""The watchers: one per node, telling the daemon what its engine shows (hints and listings)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenure.model.events import ContainerSeen, Event, NodeConnected, NodeListed, NodeLost
from tests.fleet.clocks import SimClocks
from tests.fleet.faults import Faults
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.timeline import Timeline

Put = Callable[[Callable[[int], Event]], bool]
#: A watcher misses failures shorter than this (milliseconds).
NOTICE_MS = (200, 8000)


@dataclass(slots=True)
class Watch:
    """What one watcher believes.

    ``boots`` tells an engine from one that restarted unnoticed; ``turn`` and ``round`` void timers
    that are outdated.
    """

    machine: Machine
    is_connected: bool = False
    is_listing: bool = False
    boots: int = 0
    turn: int = 0
    round: int = 0


class Watchers:
    """All watchers of one daemon's life; a dead daemon's watchers say nothing."""

    def __init__(
        self, timeline: Timeline, faults: Faults, clocks: SimClocks, *, relist_us: int
    ) -> None:
        self._timeline = timeline
        self._clocks = clocks
        self._faults = faults
        self._relist_us = relist_us
        self._watches: dict[str, Watch] = {}
        self._put: Put | None = None
        self._epoch = 0

    def begin(self, machines: dict[str, Machine], put: Put) -> None:
        """Begin to watch on behalf of a daemon that just started."""
        self._epoch += 1
        self._put = put
        self._watches = {name: Watch(machine) for name, machine in machines.items()}
        for watch in self._watches.values():
            self.reach_changed(watch.machine)

    def renew(self, machine: Machine) -> None:
        """Begin anew to watch a host that the configuration names again."""
        if self._put is not None:
            self._watches[machine.name] = Watch(machine)
            self.reach_changed(machine)

    def end(self) -> None:
        """The daemon is dead."""
        self._epoch += 1
        self._put = None
        self._watches = {}

    def _later(self, delay_us: int, act: Callable[[], None]) -> None:
        epoch = self._epoch
        self._timeline.after(delay_us, lambda: act() if epoch == self._epoch else None)

    def _say(self, make: Callable[[int], Event]) -> None:
        if self._put is not None:
            self._put(make)

    # reach

    def reach_changed(self, machine: Machine) -> None:
        """Notice, after a while, that an engine answers or does not."""
        watch = self._watches.get(machine.name)
        if watch is None:
            return
        watch.turn += 1
        turn = watch.turn
        is_new = not watch.is_connected or watch.boots != machine.boots
        if machine.answers and is_new:
            self._later(self._faults.delay_us(10, 2000), lambda: self._connect(watch, turn))
        elif not machine.answers and watch.is_connected:
            self._later(self._faults.delay_us(*NOTICE_MS), lambda: self._lose(watch, turn))

    def _connect(self, watch: Watch, turn: int) -> None:
        if watch.turn != turn or not watch.machine.answers:
            return
        watch.is_connected, watch.boots = True, watch.machine.boots
        facts = watch.machine.facts()
        name = watch.machine.name
        self._say(lambda at_us: NodeConnected(at_us=at_us, node=name, facts=facts))
        watch.round += 1
        self._list(watch)
        current = watch.round
        self._later(self._relist_us, lambda: self._again(watch, current))

    def _lose(self, watch: Watch, turn: int) -> None:
        if watch.turn != turn or watch.machine.answers:
            return
        watch.is_connected = False
        name = watch.machine.name
        self._say(lambda at_us: NodeLost(at_us=at_us, node=name, why="no answer"))

    # listings

    def _again(self, watch: Watch, current: int) -> None:
        if watch.is_connected and watch.round == current:
            self._list(watch)
            self._later(self._relist_us, lambda: self._again(watch, current))

    def relist(self, node: str) -> None:
        """List a node soon because the core asks."""
        watch = self._watches.get(node)
        if watch is not None and watch.is_connected and not watch.is_listing:
            watch.is_listing = True
            self._later(self._faults.delay_us(1, 100) + 1, lambda: self._list(watch))

    def _list(self, watch: Watch) -> None:
        watch.is_listing = False
        started_us = self._clocks.now_us
        if self._faults.strikes("listing_failed"):
            return
        self._later(self._faults.delay_us(1, 50), lambda: self._read(watch, started_us))

    def _read(self, watch: Watch, started_us: int) -> None:
        if not watch.machine.answers:
            return
        containers, images = watch.machine.listing(), watch.machine.images
        name = watch.machine.name
        is_slow = self._faults.strikes("listing_slow")
        delay_us = self._faults.delay_us(500, 20_000) if is_slow else self._faults.delay_us(1, 50)

        def make(at_us: int) -> Event:
            return NodeListed(
                at_us=at_us,
                node=name,
                started_us=started_us,
                containers=containers,
                images=images,
            )

        self._later(delay_us, lambda: self._say(make))

    # hints

    def hint(self, container: SimContainer, what: str) -> None:
        """Look at a container of which an engine sent an event."""
        watch = self._watches.get(container.node)
        if watch is None or not watch.machine.answers or self._faults.strikes("hint_lost"):
            return
        if what == "destroy":
            self.relist(container.node)
            return
        delay_us = self._faults.delay_us(20, 300)
        self._later(delay_us + 1, lambda: self._inspect(watch, container))

    def _inspect(self, watch: Watch, container: SimContainer) -> None:
        started_us = self._clocks.now_us
        self._later(self._faults.delay_us(1, 50), lambda: self._seen(watch, container, started_us))

    def _seen(self, watch: Watch, container: SimContainer, started_us: int) -> None:
        if not watch.machine.answers or container.state == "removed":
            return
        facts, name = watch.machine.facts_of(container), watch.machine.name

        def make(at_us: int) -> Event:
            return ContainerSeen(at_us=at_us, node=name, started_us=started_us, facts=facts)

        self._later(self._faults.delay_us(1, 50), lambda: self._say(make))
