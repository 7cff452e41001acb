"""Wait for things to end, with a word on every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from tenure.cli.output import Output
from tenure.client.client import Client
from tenure.model.errors import TenureError
from tenure.model.jsons import Json

#: A container that a person stopped, that ended, or that is no more.
CONTAINER_OVER = frozenset(("stopped", "exited", "failed", "removed"))
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
    get: Callable[[str], Json],
    ends: Collection[str],
    refs: Sequence[str],
    timeout_s: float | None,
    out: Output,
) -> dict[str, Json]:
    """Return what came to a state of ``ends`` within ``timeout_s`` (None: all, however long).

    ``require_over`` tells of those that did not.
    """
    over: dict[str, Json] = {}
    seen: dict[str, str] = {}
    for _ in looks(timeout_s):
        for ref in refs:
            if ref not in over:
                found = get(ref)
                _tell(out, seen, ref, found)
                if found["state"] in ends:
                    over[ref] = found
        if len(over) == len(set(refs)):
            break
    return over


def require_over(refs: Sequence[str], over: Collection[str]) -> None:
    """Raise TenureError ``timeout`` for those that are not over."""
    missing = [ref for ref in refs if ref not in over]
    if missing:
        raise TenureError(f"not over in time: {', '.join(missing)}", code="timeout")


def _tell(out: Output, seen: dict[str, str], ref: str, found: Json) -> None:
    if seen.get(ref) != found["state"]:
        reason = f": {found['reason']}" if found["reason"] else ""
        out.note(f"{found['name']} {found['state']}{reason}")
        seen[ref] = found["state"]


def wait_for_run(client: Client, run_id: str, timeout_s: float | None) -> Json:
    """Return a cycle's run once it is over, or as it is after ``timeout_s``."""
    run: Json = {}
    for _ in looks(timeout_s):
        run = client.run(run_id)
        if run["state"] in RUN_OVER:
            break
    return run
