"""What an engine needs beyond its URL: files for TLS, and what ssh takes to be started."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tenure.model.access import SshOptions, TlsFiles
from tenure.model.errors import TenureError


class Child(Protocol):
    """A child process that is killed when this process ends, however it ends."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: the signal), None while it runs."""

    def start(self) -> None:
        """Start it again after its end. Raises OSError."""

    def stop(self, timeout_s: float = ...) -> int | None:
        """End it, by force after ``timeout_s``; blocks until then."""


Spawn = Callable[[Sequence[str], Path], Child]
"""Makes the child of an argument vector, not started yet; its output is appended to a file."""


MakeContext = Callable[[TlsFiles], ssl.SSLContext]
"""Makes a client's context that checks the host name; raises InvalidInput naming a faulty file."""


@dataclass(frozen=True, slots=True)
class Access:
    """How an engine is reached: ``tls`` None means no TLS, else ``make_context`` is needed.

    ``folder`` is private to the daemon and holds the sockets that ssh makes; ``spawn`` starts ssh.
    Both are needed for ``ssh://`` only.
    """

    tls: TlsFiles | None = None
    make_context: MakeContext | None = None
    ssh: SshOptions | None = None
    folder: Path | None = None
    spawn: Spawn | None = None


def prepare_folder(folder: Path) -> None:
    """Make the folder of the tunnels' sockets, 0700, and empty it of a killed daemon's.

    Raises TenureError where it cannot be made, as where a file of its name lies there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        told = f"cannot make the folder {folder}: {error.strerror}; remove what lies there"
        raise TenureError(told) from None
    for leftover in folder.iterdir():
        with contextlib.suppress(OSError):
            leftover.unlink()
