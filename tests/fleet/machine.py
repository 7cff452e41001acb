"""One simulated host: its power, its link, its engine with Docker's semantics, its containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.fleet.behaviour import behaviour_of
from tests.fleet.disks import Disks
from tests.fleet.story import LawBroken
from tests.fleet.timeline import Timeline

#: An engine waits this long before it restarts a container by its policy.
RESTART_US = US
KILLED, TERMINATED, UNKNOWN_END = 137, 143, 255


@dataclass(slots=True, eq=False)
class SimContainer:
    """A container as it truly is. ``is_alive``: a process of it exists, whatever is reported.

    ``life`` counts its processes, ``is_by_hand`` says that a person or tenure stopped it.
    ``checkpoints`` holds what was kept of its memory by name, ``memory`` tells one process's from
    another's: it goes on where a process is restored. ``has_input``: a task's input is in it.
    ``told_us`` is when it started and ended by the clock of its engine, ``is_shut`` that its engine
    ended it when the host was shut down.
    ``task`` is what the engine's death amid its start left of it, which the engine neither shows
    nor ends: "" nothing, ``shim`` nothing that could run, ``held`` a process that may run.
    """

    id: str
    name: str
    node: str
    body: dict[str, Any]
    policy: dict[str, Any]
    state: str = "created"
    is_alive: bool = False
    life: int = 0
    is_by_hand: bool = False
    is_shut: bool = False
    exit_code: int | None = None
    started_us: int | None = None
    finished_us: int | None = None
    told_us: tuple[int | None, int | None] = (None, None)
    labels: dict[str, str] = field(default_factory=dict)
    checkpoints: dict[str, str] = field(default_factory=dict)
    memory: str = ""
    task: str = ""
    has_input: bool = False

    def is_kept_up(self, code: int) -> bool:
        """Whether its engine starts it again after an end with ``code``."""
        name = self.policy.get("Name", "no")
        if name == "on-failure":
            return code != 0 and not self.is_by_hand
        return name in ("always", "unless-stopped") and not self.is_by_hand


class Witness(Protocol):
    """Who is told of the truth."""

    def started(self, container: SimContainer, *, how: str) -> None:
        """A process of the container began: how is asked, late (given up before) or revived."""

    def changed(self, container: SimContainer, what: str) -> None:
        """The engine would send an event."""

    def reach_changed(self, machine: Machine) -> None:
        """The engine began or ceased to answer."""


class Machine:
    """A host with one engine. Calls of the engine are methods that return outcomes."""

    def __init__(self, name: str, timeline: Timeline, witness: Witness, size: Resources) -> None:
        self.name = name
        self.timeline = timeline
        self.witness = witness
        self.size = size
        self.engine_id = f"engine-{name}"
        self.containers: dict[str, SimContainer] = {}
        self.images: tuple[str, ...] = ()
        self.is_powered = True
        self.is_up = True
        self.is_frozen = False
        self.is_cut = False
        self.is_dead = False
        self.keeps_alive = True
        self.held: list[Callable[[], None]] = []
        self.boots = 0
        self.apart_us = 0  # by how much its clock is ahead of the true time
        self.disks = Disks()
        self._made = 0

    @property
    def answers(self) -> bool:
        """Whether a request now would be served."""
        return self.is_powered and self.is_up and not self.is_frozen and not self.is_cut

    def facts(self) -> EngineFacts:
        """Return what the engine says of itself."""
        clock_us = self.timeline.now_us + self.apart_us
        return EngineFacts(self.engine_id, self.size, "1.41", self.images, clock_us=clock_us)

    # the engine's calls

    def find(self, target: str) -> SimContainer | None:
        """Return a container by id or name."""
        if target in self.containers:
            return self.containers[target]
        return next((c for c in self.containers.values() if c.name == target), None)

    def create(self, name: str, body: dict[str, Any], *, pull: bool) -> Outcome:
        """Create a container; an equal one of that name counts as done."""
        labels = dict(body.get("Labels") or {})
        there = self.find(name)
        if there is not None:
            is_equal = _identity(there.labels) == _identity(labels)
            return Done(there.id) if is_equal else Refused("name_taken", name)
        if body["Image"] not in self.images:
            if not pull:
                return Refused("no_image", body["Image"])
            self.images = tuple(sorted((*self.images, body["Image"])))
        missing = self._unmounted(body)
        if missing:
            return Refused("bad_request", f"bind source path does not exist: {missing}")
        self._made += 1
        key = f"{self.name}-{self._made}"
        policy = dict((body.get("HostConfig") or {}).get("RestartPolicy") or {"Name": "no"})
        made = SimContainer(key, name, self.name, body, policy, labels=labels)
        self.containers[key] = made
        self.witness.changed(made, "create")
        return Done(key)

    def _unmounted(self, body: dict[str, Any]) -> str:
        """Return a file that is to be mounted and is not there, "" for none."""
        mounts = (body.get("HostConfig") or {}).get("Mounts") or ()
        sources = (str(mount["Source"]) for mount in mounts)
        return next((source for source in sources if self.disks.find(source) is None), "")

    def start(self, key: str, *, how: str = "asked", checkpoint: str = "") -> Outcome:
        """Start a container, or restore it; one that runs counts as done."""
        container = self.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        if container.task:
            return _left(container)
        if container.is_alive:
            return Done()
        if behaviour_of(container.body).is_unstartable or self._unmounted(container.body):
            return Refused("start_failed", "no such file")
        if checkpoint and checkpoint not in container.checkpoints:
            return Refused("start_failed", f"no checkpoint {checkpoint}")
        container.is_by_hand = False
        self._begin(container, how, container.checkpoints.get(checkpoint, ""))
        return Done()

    def checkpoint(self, key: str, name: str) -> Outcome:
        """Keep a container's memory and end it; its policy starts it again, as engines do."""
        container = self.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        if not container.is_alive or container.task or name in container.checkpoints:
            return Refused("checkpoint_failed", f"{key} does not run, or {name} is there")
        if "tcp" in container.body.get("Cmd", ()):
            return Refused("checkpoint_failed", "connected TCP socket")
        container.checkpoints[name] = container.memory
        self.end(container, KILLED)
        return Done()

    def carry(self, source: Machine, key: str) -> Outcome:
        """Take over the image of a container on another host."""
        container = source.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        image = container.body["Image"]
        if image not in self.images:
            self.images = tuple(sorted((*self.images, image)))
        return Done(image, moved_bytes=1)

    def transfer(self, key: str, source: Machine, source_key: str, checkpoint: str) -> Outcome:
        """Take over a checkpoint of a container on another host into a created one."""
        container, origin = self.containers.get(key), source.containers.get(source_key)
        if container is None or origin is None:
            return Refused("no_such_container", key if container is None else source_key)
        if checkpoint:
            if checkpoint not in origin.checkpoints:
                return Refused("engine_error", f"no checkpoint {checkpoint}")
            container.checkpoints[checkpoint] = origin.checkpoints[checkpoint]
        return Done(moved_bytes=1)

    def take_input(self, key: str) -> Outcome:
        """Have the input of a task unpacked in a container, whatever that does at the moment."""
        container = self.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        if container.is_alive:
            raise LawBroken("L20", f"the input of {key} is written while it runs")
        container.has_input = True
        return Done(moved_bytes=1)

    def give_output(self, key: str) -> Outcome:
        """Hand over what a task put out."""
        container = self.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        return Done(moved_bytes=1)

    def stop(self, key: str) -> Outcome:
        """Stop a container by hand; stopped or absent counts as done."""
        container = self.containers.get(key)
        if container is None:
            return Done()
        container.is_by_hand = True
        if container.is_alive and not container.task:
            self.end(container, TERMINATED)
        elif container.state == "restarting":
            container.state = "exited"
        return Done()

    def retire(self, target: str) -> Outcome:
        """Stop and remove a container; absent counts as done."""
        container = self.find(target)
        if container is None:
            return Done()
        if container.task == "held":
            return _left(container)
        self.stop(container.id)
        del self.containers[container.id]
        container.state = "removed"
        self.witness.changed(container, "destroy")
        return Done()

    def set_policy(self, key: str, policy: dict[str, Any]) -> Outcome:
        """Set a restart policy."""
        container = self.containers.get(key)
        if container is None:
            return Refused("no_such_container", key)
        container.policy = dict(policy)
        return Done()

    def listing(self) -> tuple[ContainerFacts, ...]:
        """Return all containers as the engine shows them."""
        return tuple(self.facts_of(container) for container in self.containers.values())

    def facts_of(self, container: SimContainer) -> ContainerFacts:
        """Return one container as the engine shows it."""
        is_over = container.state == "exited"
        return ContainerFacts(
            engine_id=container.id,
            name=container.name,
            image=container.body["Image"],
            state=container.state,
            labels=container.labels,
            exit_code=container.exit_code if is_over else None,
            started_us=container.told_us[0],
            finished_us=container.told_us[1] if is_over else None,
            health=self._health(container),
            is_torn=container.state == "created" and container.task == "held",
        )

    def _health(self, container: SimContainer) -> str:
        after_us = behaviour_of(container.body).healthy_after_us
        if after_us is None or container.state != "running":
            return "none"
        since_us = self.timeline.now_us - (container.started_us or 0)
        return "healthy" if since_us >= after_us else "starting"

    # lives of containers

    def _begin(self, container: SimContainer, how: str, memory: str = "") -> None:
        container.state, container.is_alive, container.is_shut = "running", True, False
        container.life += 1
        container.memory = memory or f"{container.id}/{container.life}"
        container.started_us = self.timeline.now_us
        container.told_us = (container.started_us + self.apart_us, container.told_us[1])
        life = container.life
        run = behaviour_of(container.body)
        if run.run_us is not None:
            self.timeline.after(run.run_us, lambda: self._ran_out(container, life, run.exit_code))
        self.witness.started(container, how=how)
        self.witness.changed(container, "start")

    def _ran_out(self, container: SimContainer, life: int, code: int) -> None:
        if container.is_alive and container.life == life:
            self.end(container, code)

    def end(self, container: SimContainer, code: int) -> None:
        """Have a container's process end by itself; its policy may start it again."""
        container.is_alive = False
        if container.task:
            return  # the engine does not know that it ran
        container.exit_code, container.finished_us = code, self.timeline.now_us
        container.told_us = (container.told_us[0], container.finished_us + self.apart_us)
        if not self.is_up:
            return  # the engine learns of it when it is back
        container.state = "exited"
        self.witness.changed(container, "die")
        if container.is_kept_up(code) and not container.is_shut:
            container.state = "restarting"
            self.timeline.after(RESTART_US, lambda: self._restart(container))

    def _restart(self, container: SimContainer) -> None:
        if container.state == "restarting" and self.is_up:
            self._begin(container, "revived")

    # what befalls the host

    def crash(self, *, keeps_alive: bool) -> None:
        """The engine dies; containers live on, at least until it is back."""
        self.is_up, self.keeps_alive = False, keeps_alive
        self.held.clear()
        self.witness.reach_changed(self)

    def tear(self, key: str, what: str) -> None:
        """The engine dies while it starts a container: ``shim``, ``held``, or ``held`` and run."""
        container = self.containers.get(key)
        if container is not None and not container.is_alive and not container.task:
            if what == "run":
                state, finished_us = container.state, container.finished_us
                self._begin(container, "asked")
                container.state, container.finished_us = state, finished_us
            container.task = "shim" if what == "shim" else "held"
        self.crash(keeps_alive=True)

    def clear(self) -> None:
        """Somebody ends on the host what its engine neither shows nor ends."""
        for container in self.containers.values():
            container.is_alive &= not container.task
            container.task = ""

    def die(self) -> None:
        """The whole host dies, and every container with it."""
        self.is_dead = True
        self._go_down(UNKNOWN_END)

    def shut_down(self, code: int) -> None:
        """The engine is told to end: it ends its containers, and restarts none."""
        for container in self.containers.values():
            if container.is_alive and not container.task:
                container.is_shut = True
                self.end(container, code)

    def power_off(self) -> None:
        """The host is switched off."""
        self.is_powered = self.is_dead = False
        self._go_down(TERMINATED)

    def _go_down(self, code: int) -> None:
        self.is_up = self.is_frozen = False
        self.held.clear()
        self.disks.forget_memory()
        for container in self.containers.values():
            if container.is_alive:
                self.end(container, code)
        self.clear()
        self.witness.reach_changed(self)

    def come_up(self) -> None:
        """The engine starts; it revives what its policies say."""
        if self.is_up or not self.is_powered:
            return
        self.is_up, self.is_dead = True, False
        self.boots += 1
        for container in list(self.containers.values()):
            if container.is_alive and not container.task and not self.keeps_alive:
                self.end(container, TERMINATED)
            self._take_stock(container)
        self.witness.reach_changed(self)

    def _take_stock(self, container: SimContainer) -> None:
        """Learn what became of a container while the engine was away."""
        if container.is_alive or container.task or container.state == "created":
            return
        was_up = container.is_shut or container.state in ("running", "restarting")
        container.state = "exited"
        is_kept = was_up and container.is_kept_up(container.exit_code or 0)
        is_always = container.policy.get("Name") == "always" and not container.is_by_hand
        if is_kept or is_always:
            self._begin(container, "revived")

    def freeze(self) -> None:
        """The engine stops to react; requests are held and served when it thaws."""
        self.is_frozen = True
        self.witness.reach_changed(self)

    def thaw(self) -> None:
        """The engine reacts again, first to what it was asked meanwhile."""
        self.is_frozen = False
        held, self.held = self.held, []
        for request in held:
            request()
        self.witness.reach_changed(self)

    def cut(self, *, is_cut: bool) -> None:
        """Cut or mend the link to the host."""
        self.is_cut = is_cut
        self.witness.reach_changed(self)


def _identity(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith("tenure.")}


def _left(container: SimContainer) -> Refused:
    """Return what an engine says of a start or removal while something is left of a container."""
    if container.task == "held":
        return Refused("start_blocked", "held")
    return Refused("engine_error", f"task {container.id}: already exists")
