"""Real statistics servers from the distribution's packages, unpacked into the testbed's cache.

Nothing is installed. A server dies with the process that started it.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed import binaries, bounded, tied
from testbed.errors import TestbedError

START_S = 60.0
STOP_S = 30.0
#: The first and the last port of those that connections get.
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

CONFIG = """\
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
[monitor]
store-enabled = false
[http]
bind-address = "127.0.0.1:{port}"
auth-enabled = false
log-enabled = false
"""


def binary(package: str, program: str) -> Path:
    """Return a program of a package, fetched at the first call; TestbedError where it cannot be."""
    cache = binaries.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / "servers" / program
    with (cache / "servers.lock").open("w") as lock:
        bounded.lock(lock)
        if not target.exists():
            folder = cache / f"fetch-{program}"
            shutil.rmtree(folder, ignore_errors=True)
            for name in ("deb", "root"):
                (folder / name).mkdir(parents=True)
            try:
                binaries.download(folder, [package])
                target.parent.mkdir(exist_ok=True)
                # A rename, so that a call that was cut leaves no half of a program.
                (folder / "root/usr/bin" / program).rename(target)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return target


def free_port() -> int:
    """Return a loopback port that nobody has now, and that the kernel gives to no connection.

    Else one could have it before the server does, or while that is started again.
    """
    first = int(EPHEMERAL.read_text().split()[0])
    for port in random.sample(range(max(1024, first // 2), first), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise TestbedError("no loopback port is free")


class Server:
    """A process with an HTTP port that stays the same over restarts."""

    def __init__(self, folder: Path, argv: Callable[[int], list[str]], ready_path: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._argv = argv(self.port)
        self._ready_path = ready_path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers; TestbedError with the end of its log if it fails."""
        with (self.folder / "log").open("ab") as log:
            self._process = tied.start(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end_s = time.monotonic() + START_S
        while not self._is_ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > end_s:
                tail = (self.folder / "log").read_text(errors="replace")[-1000:]
                self.stop()
                raise TestbedError(f"{self._argv[0]} does not answer (exit code {code}): {tail}")
            time.sleep(0.01)

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(self.url + self._ready_path, timeout=1).close()
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            return False
        return True

    def signal(self, sign: signal.Signals) -> None:
        """Send it a signal; TestbedError if it does not run."""
        if self._process is None:
            raise TestbedError(f"{self._argv[0]} does not run")
        self._process.send_signal(sign)

    def kill(self) -> None:
        """Kill it at once (SIGKILL) and wait for its end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_S)
        self._process = None

    def stop(self) -> None:
        """Ask it to end, and kill it where it does not; fine where it has ended already."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            bounded.wait(self._process)
        self._process = None


class Influx(Server):
    """An InfluxDB 1.6; asked here by plain HTTP, apart from the code of tenure."""

    def __init__(self, folder: Path) -> None:
        program = str(binary("influxdb", "influxd"))
        folder.mkdir()
        config = folder / "influxdb.conf"
        super().__init__(folder, lambda _: [program, "-config", str(config)], "/ping")
        self.config = config
        config.write_text(CONFIG.format(folder=folder, port=self.port))
        self.login: dict[str, str] = {}

    def ask(self, statement: str, database: str = "") -> list[dict[str, Any]]:
        """Return the series that answer a statement."""
        query = urllib.parse.urlencode({"db": database, "epoch": "u", **self.login})
        form = urllib.parse.urlencode({"q": statement}).encode()
        request = urllib.request.Request(f"{self.url}/query?{query}", form, method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            result = json.loads(answer.read())["results"][0]
        if "error" in result:
            raise TestbedError(f"InfluxDB: {result['error']}")
        found: list[dict[str, Any]] = result.get("series", [])
        return found

    def put(self, lines: str, database: str) -> None:
        """Write lines as cAdvisor's client does: nanoseconds at /write."""
        request = urllib.request.Request(
            f"{self.url}/write?db={database}", lines.encode(), method="POST"
        )
        urllib.request.urlopen(request, timeout=10).close()

    def count(self, database: str, measurement: str, field: str = "value") -> int:
        """Return how many points a measurement holds."""
        found = self.ask(f'SELECT count("{field}") FROM "{measurement}"', database)
        return int(found[0]["values"][0][1]) if found else 0


class Victoria(Server):
    """A VictoriaMetrics, which takes influxdb-client's writes."""

    def __init__(self, folder: Path) -> None:
        program = str(binary("victoria-metrics", "victoria-metrics"))
        folder.mkdir()

        def argv(port: int) -> list[str]:
            storage = f"-storageDataPath={folder}/data"
            return [
                program,
                storage,
                f"-httpListenAddr=127.0.0.1:{port}",
                "-memory.allowedBytes=64MB",
            ]

        super().__init__(folder, argv, "/health")

    def export(self, selector: str) -> list[dict[str, Any]]:
        """Return the raw series of a selector."""
        query = urllib.parse.urlencode({"match[]": selector})
        with urllib.request.urlopen(f"{self.url}/api/v1/export?{query}", timeout=10) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def flush(self) -> None:
        """Make what was written visible."""
        urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=10).close()
