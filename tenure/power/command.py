"""The ``command`` power driver: an operator's programs switch the node.

Contract: ``on`` and ``off`` exit 0 once the node is so (the engine may still be starting after
``on``). ``status`` exits 0 for on, 3 for off; anything else means that it cannot tell.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US

STATUS_ON = 0
STATUS_OFF = 3

STATUS_TIMEOUT_S = 30.0
"""Longest wait for a status command, if the node's own time-out is not shorter."""

OUTPUT_BYTES = 4_096
"""How much of a command's output is kept: its end says why it failed."""

KILL_WAIT_S = 5.0
"""Wait for a killed command; one that survives this hangs in the kernel."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a command ended: ``exit_code`` None after a time-out, negative for a signal."""

    exit_code: int | None
    output: str


class CommandDriver:
    """Runs the argument vectors of a node's ``PowerSpec``, without a shell."""

    async def switch(self, spec: PowerSpec, to: str) -> Outcome:
        """Switch the node ``to`` "on" or "off" within ``spec.timeout_us``."""
        argv = {"on": spec.on, "off": spec.off}.get(to, ())
        if not argv:
            return Refused("power_failed", f"no command switches this node {to!r}")
        try:
            ended = await _run(argv, spec.timeout_us / US)
        except (OSError, ValueError) as error:
            return Refused("power_failed", f"{argv[0]}: {error}")
        if ended.exit_code is None:
            return Unknown(f"{argv[0]}: still running after {spec.timeout_us / US:g} s")
        if ended.exit_code != 0:
            said = ended.output or "it said nothing"
            return Refused("power_failed", f"{argv[0]}: exit code {ended.exit_code}: {said}")
        return Done(to)

    async def probe(self, spec: PowerSpec) -> Done | Unknown:
        """Ask the status command."""
        if not spec.status:
            return Unknown("no status command")
        try:
            ended = await _run(spec.status, min(STATUS_TIMEOUT_S, spec.timeout_us / US))
        except (OSError, ValueError) as error:
            return Unknown(f"{spec.status[0]}: {error}")
        if ended.exit_code == STATUS_ON:
            return Done("on")
        if ended.exit_code == STATUS_OFF:
            return Done("off")
        return Unknown(f"{spec.status[0]}: exit code {ended.exit_code}: {ended.output}")


async def _run(argv: Sequence[str], timeout_s: float) -> _Ended:
    """Run a command in a session of its own; raise OSError if it cannot be started.

    On a time-out, or if the caller is cancelled, the whole session's process group is killed. The
    output goes to an unnamed file, not to a pipe: what the command leaves running on purpose (an
    engine) may hold it open without delaying us, and is not killed by writing to it later.
    """
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                exit_code: int | None = await process.wait()
        except TimeoutError:
            exit_code = None
        finally:
            if process.returncode is None:
                await _kill(process)
        return _Ended(exit_code, _tail(output))


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the process group of a command that still runs."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(KILL_WAIT_S):
            await process.wait()
    except (ProcessLookupError, TimeoutError):
        return


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_BYTES))
    return output.read().decode(errors="replace").strip()
