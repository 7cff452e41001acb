"""The step plans of a restart migration, as tables.

``FORWARD[is_start_first][step]`` is the step after ``step`` is done. Invariants, checked after
every step by the tests: stop-first never has two copies that may run; start-first has two only
between START and the end; in every final step exactly one copy runs.
"""

from __future__ import annotations

from tenure.model.container import Step

_BACK = {
    Step.UNDO_TARGET: Step.UNDO_SOURCE,
    Step.UNDO_SOURCE: Step.UNDO_ARM,
    Step.UNDO_ARM: Step.ROLLED_BACK,
}
STOP_FIRST: dict[Step, Step] = {
    Step.QUEUED: Step.CREATE,
    Step.CREATE: Step.DISARM,
    Step.DISARM: Step.STOP,
    Step.STOP: Step.START,
    Step.START: Step.VERIFY,
    Step.VERIFY: Step.COMMIT,
    Step.COMMIT: Step.SWEEP,
    Step.SWEEP: Step.DONE,
    **_BACK,
}
START_FIRST: dict[Step, Step] = {
    Step.QUEUED: Step.CREATE,
    Step.CREATE: Step.START,
    Step.START: Step.VERIFY,
    Step.VERIFY: Step.COMMIT,
    Step.COMMIT: Step.SWEEP,
    Step.SWEEP: Step.DONE,
    **_BACK,
}
FORWARD: dict[bool, dict[Step, Step]] = {False: STOP_FIRST, True: START_FIRST}

#: What a service's ``migrate`` may say for a restart migration of it.
MOVABLE = frozenset(("", "restart"))

#: Steps in which the target copy may run.
TARGET_MAY_RUN = frozenset(
    (Step.START, Step.VERIFY, Step.COMMIT, Step.SWEEP, Step.DONE, Step.UNDO_TARGET)
)


def is_committed(step: Step) -> bool:
    """Whether the move can only go forward."""
    return step in (Step.COMMIT, Step.SWEEP, Step.DONE)


def may_be_start_first(body: dict[str, object], *, overlap: bool) -> bool:
    """Whether two copies may run for the time of the verification.

    Only without a writable volume or fixed address or published host port, or if the owner allows
    it by label ``tenure.overlap=allow``.
    """
    if overlap:
        return True
    host = body.get("HostConfig")
    host = host if isinstance(host, dict) else {}
    binds = [str(bind) for bind in host.get("Binds") or ()]
    has_writable_bind = any(not _is_read_only(bind) for bind in binds)
    mounts = [m for m in host.get("Mounts") or () if isinstance(m, dict)]
    has_writable_mount = any(m.get("Type") != "tmpfs" and not m.get("ReadOnly") for m in mounts)
    is_fixed = bool(host.get("PortBindings")) or bool(body.get("MacAddress"))
    is_fixed = is_fixed or str(host.get("NetworkMode", "")) == "host"
    has_volumes = bool(body.get("Volumes"))
    return not (has_writable_bind or has_writable_mount or has_volumes or is_fixed)


def _is_read_only(bind: str) -> bool:
    options = bind.split(":")[2:]
    return any("ro" in option.split(",") for option in options)
