"""Every strike of every test: the whole of which a run takes its part."""

from tests.faults.strikes import ANY, JOB_STEPS, MOVE_STEPS, POWER_STEPS, REPLY, RUN_STEPS

#: A scenario is one long story, so it runs as a whole or not at all.
WHOLE = ("whole",)

_ENGINE = (
    "executor.creating",
    "executor.starting",
    "executor.running",
    "migration.create",
    "migration.stop",
    "migration.start",
    "migration.verify",
    "migration.undo_source",
)
_SILENT = ("executor.creating", "executor.starting", "migration.stop", "migration.start")

#: Of a move that keeps memory, of one that keeps files, and of what does not run: each step is
#: struck three times for each of those that may die in it.
_MOVING = (
    *(
        f"live migration.{step}"
        for step in (
            *("prepare", "disarm", "checkpoint", "carry", "create"),
            *("transfer", "start", "verify", "commit", "sweep"),
        )
    ),
    *(f"snapshot migration.{step}" for step in ("prepare", "stop", "carry", "create", "start")),
    *(f"at-rest migration.{step}" for step in ("carry", "create", "commit")),
)
_THRICE = 3

PLANS: dict[str, tuple[str, ...]] = {
    "kill_moving": tuple(
        f"{who} {step}" for who in ("daemon", "source", "target") for step in _MOVING
    )
    * _THRICE,
    "kill_daemon": (*JOB_STEPS, *POWER_STEPS, *MOVE_STEPS, *RUN_STEPS, REPLY, REPLY, ANY, ANY, ANY),
    "kill_engine": (
        *(f"kill_engine {step}" for step in _ENGINE),
        *(f"freeze {step}" for step in _SILENT),
        *(f"cut {step}" for step in (*_SILENT, "executor.running")),
    ),
    "lose_containers": (
        *(f"kill_engine {step}" for step in ("executor.starting", "executor.running")),
        *(f"kill_engine {step}" for step in ("migration.disarm", "migration.verify")),
        *(f"kill_node {step}" for step in ("executor.starting", "executor.running")),
        *(f"kill_node {step}" for step in ("migration.stop", "migration.start")),
    ),
    "kill_redis": (*RUN_STEPS, "migration.create", ANY),
    "kill_worker": (*RUN_STEPS, ANY, ANY),
    "kill_draining": (
        "migration.queued",
        "migration.create",
        "migration.stop",
        "migration.start",
        "migration.verify",
        "migration.sweep",
    ),
    "sigterm": (
        "migration.create",
        "migration.stop",
        "migration.start",
        "migration.verify",
        "migration.undo_target",
        "executor.starting",
    ),
    "operator_redis": WHOLE,
    "full_disk": WHOLE,
    "reload": WHOLE,
}
