"""Wait for things to end, with a word on every change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tenure.cli.output import Output
from tenure.client.client import Client
from tenure.model.jsons import Json

JOB_OVER = frozenset(("succeeded", "failed", "cancelled"))
RUN_OVER = frozenset(("done", "advised", "failed", "missed", "skipped"))
#: Between two looks: quick at first for short jobs, then gentle on the daemon.
POLL_S = (0.1, 1.0)


@contextmanager
def goes_on(out: Output, told: str) -> Iterator[None]:
    """Say what goes on, and what ends it, when a person ends the waiting with Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        out.note(told)
        raise


def looks(timeout_s: float | None) -> Iterator[None]:
    """Yield whenever it is time to look, the last time after ``timeout_s``, with pauses between.

    None: for ever.
    """
    until = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s, longest_s = POLL_S
    while True:
        is_last = until is not None and time.monotonic() >= until
        yield
        if is_last:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, longest_s)


def wait_until_over(
    client: Client, refs: Sequence[str], timeout_s: float | None, out: Output
) -> dict[str, Json]:
    """Return the jobs that are over within ``timeout_s`` (None: all, however long)."""
    over: dict[str, Json] = {}
    seen: dict[str, str] = {}
    for _ in looks(timeout_s):
        for ref in refs:
            if ref not in over:
                job = client.job(ref)
                _tell(out, seen, ref, job)
                if job["state"] in JOB_OVER:
                    over[ref] = job
        if len(over) == len(set(refs)):
            break
    return over


def _tell(out: Output, seen: dict[str, str], ref: str, job: Json) -> None:
    if seen.get(ref) != job["state"]:
        reason = f": {job['reason']}" if job["reason"] else ""
        out.note(f"{job['name']} {job['state']}{reason}")
        seen[ref] = job["state"]


def wait_for_run(client: Client, run_id: str, timeout_s: float | None) -> Json:
    """Return a cycle's run once it is over, or as it is after ``timeout_s``."""
    run: Json = {}
    for _ in looks(timeout_s):
        run = client.run(run_id)
        if run["state"] in RUN_OVER:
            break
    return run
