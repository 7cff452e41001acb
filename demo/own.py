"""The same run on the operator's engines: asked first, nothing switched, everything removed."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from demo.errors import DemoError
from demo.stage import write_yaml
from demo.tenured import Tenured, plain_environment
from demo.work import CYCLES, PACE, Terms, Work, work
from tenure.config.load import load
from tenure.config.settings import Settings
from tenure.model.errors import NotFound, TenureError

PREFIX = "demo-"
IMAGE = "busybox:1.36"
_CLEAN_S = 60.0
_OVER = ("succeeded", "failed", "cancelled")


class OwnStage:
    """A daemon of the demo's own, with a state folder of its own, on engines that exist."""

    is_own = True

    def __init__(self, config: Path, out: Path, image: str) -> None:
        """Read the configuration; raises InvalidInput with its faults."""
        self._config = config
        self._out = out
        self._settings = load(config, plain_environment())
        self._folder: Path | None = None
        biggest = max((n.capacity.cpu_m for n in self._settings.nodes if n.capacity), default=0)
        self.terms = Terms(
            image=image,
            prefix=PREFIX,
            is_testbed=False,
            # more than any machine has, where the engines have not said yet
            giant_cpus=biggest / 1000 + 4096,
            last=generations(self._settings)[-1],
        )
        self.names = [node.name for node in self._settings.nodes]
        self.tenured: Tenured

    @property
    def work(self) -> Work:
        """Return what would be submitted."""
        return work(self.terms)

    def announcement(self) -> str:
        """Return exactly what would be done, for the question whether to do it."""
        nodes = self._settings.nodes
        jobs = [job for job in self.work.jobs if not job.expects.startswith("refused")]
        executors = sum(int(job.body["executors"]) for job in jobs)
        lines = [f"The demo would run on the engines of {self._config}:", ""]
        lines += [f"  {n.name}: {n.url} ({n.generation}, {n.site.value})" for n in nodes]
        lines += ["", f"  image needed on each: {self.terms.image} (pulled where it is missing)"]
        names = ", ".join(box.name for box in self.work.containers)
        lines += [f"  containers, in turn in {' and '.join(generations(self._settings))}: {names}"]
        lines += [f"  jobs: {', '.join(job.name for job in jobs)}"]
        lines += [f"  their {executors} executors: containers named tenure-j-..., 32 MiB each"]
        lines += ["", "No node is switched on or off, and no container of anybody else is touched."]
        lines += ["At the end everything listed is removed; a pulled image stays."]
        return "\n".join(lines)

    def __enter__(self) -> OwnStage:
        self._folder = Path(tempfile.mkdtemp(prefix="tenure-demo-")).resolve()
        try:
            cycles = cycles_of(self._settings)
            write_yaml(self._folder / "cycles.yml", cycles)
            path = write_yaml(self._folder / "tenured.yml", self._stripped())
            socket = self._folder / "tenured.sock"
            self.tenured = Tenured(path, socket, self._out / "tenured.log")
            self.tenured.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _stripped(self) -> dict[str, Any]:
        """Return the configuration for the demo: no power drivers, a state of its own."""
        raw = yaml.safe_load(self._config.read_text()) or {}
        folder = self._folder
        kept = {key: raw[key] for key in ("generations",) if key in raw}
        nodes = [
            {key: value for key, value in node.items() if key != "power"}
            for node in raw.get("nodes", [])
        ]
        kept |= {"nodes": nodes} if nodes else {}
        own = {"state_dir": str(folder / "state"), "cycles_file": "cycles.yml"} if folder else {}
        return {**kept, **PACE, **own, "listen": [f"unix://{folder}/tenured.sock"]}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if hasattr(self, "tenured"):
                self._clean()
        finally:
            if hasattr(self, "tenured"):
                self.tenured.stop()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _clean(self) -> None:
        """Cancel and remove everything the demo made; raise DemoError for what stays."""
        client = self.tenured.client
        deadline = time.monotonic() + _CLEAN_S
        left: list[str] = []
        while time.monotonic() < deadline:
            try:
                left = left_of(client)
            except TenureError as error:
                raise DemoError(f"cannot remove what the demo made: {error.detail}") from error
            if not left:
                return
            time.sleep(0.5)
        raise DemoError(f"these could not be removed: {', '.join(left)}")

    def power_log(self) -> list[dict[str, object]]:
        """Return nothing: no power is switched here."""
        return []

    def copies(self) -> None:
        """Say that copies are not counted here."""


def left_of(client: Any) -> list[str]:
    """Ask for the end of everything that is left; return its names."""
    left = []
    for job in client.jobs():
        if job["state"] not in _OVER:
            client.cancel_job(job["id"])
            left.append(job["name"])
    for box in client.containers():
        if box["state"] != "removed":
            with suppress(NotFound):  # its removal ended since the list was made
                client.remove_container(box["id"])
            left.append(box["name"])
    # what was retired counts until its engine has shown it gone
    busy = [n["name"] for n in client.nodes() if n["executors"] or n["containers"]]
    return left or busy


def generations(settings: Settings) -> list[str]:
    """Return the generations that have nodes, youngest first."""
    having = {node.generation for node in settings.nodes}
    return [name for name in settings.generations if name in having]


def cycles_of(settings: Settings) -> dict[str, Any]:
    """Return the demo's cycles for the generations there are: ours first, then cron lines."""
    names = generations(settings)
    patterns = list(CYCLES.values())
    found = {}
    for index, (source, target) in enumerate(pairwise(names)):
        pattern = patterns[min(index, len(patterns) - 1)]
        described = {"description": f"Run a cycle on generation {source}"}
        cycle = {**pattern, **described, "args": source, "to": target}
        found[f"generation_{source}_cycle"] = cycle
    return found
