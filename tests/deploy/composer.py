"""The real docker-compose, from the distribution's packages: unpacked, not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from testbed import binaries, bounded
from testbed.errors import TestbedError

#: docker-compose 1.29 and the modules that it imports; the system's Python runs it.
_MODULES = (
    *("docker", "dockerpty", "docopt", "dotenv", "jsonschema", "texttable", "websocket", "yaml"),
    *("pyrsistent", "attr", "requests", "urllib3", "six", "distutils", "setuptools", "chardet"),
    *("pkg-resources", "certifi", "idna", "packaging", "distro", "paramiko"),
)
_PYTHON = "/usr/bin/python3"


def command() -> tuple[list[str], dict[str, str]]:
    """Return the command and what it needs in its environment; TestbedError where it cannot be."""
    if not Path(_PYTHON).exists():
        raise TestbedError(f"no {_PYTHON}, the distribution's Python, to run docker-compose with")
    cache = binaries.cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / "docker-compose"
    with (cache / "compose.lock").open("w") as lock:
        bounded.lock(lock)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for name in ("deb", "root"):
                (folder / name).mkdir(parents=True)
            packages = ["docker-compose", *(f"python3-{module}" for module in _MODULES)]
            binaries.download(folder, packages)
            (folder / "done").touch()
    modules = str(folder / "root/usr/lib/python3/dist-packages")
    return [_PYTHON, str(folder / "root/usr/bin/docker-compose")], {"PYTHONPATH": modules}


class Composer:
    """docker-compose on one project folder and one engine."""

    def __init__(self, folder: Path, socket: Path, settings: Mapping[str, str]) -> None:
        self._argv, env = command()
        self._folder = folder
        self._env = {"PATH": os.environ["PATH"], "HOME": str(folder), **env, **settings}
        self._env["DOCKER_HOST"] = f"unix://{socket}"

    def __call__(self, *words: str, timeout_s: float = 180.0) -> str:
        """Run a command; return its output, or fail with what it said."""
        done = bounded.run(
            [*self._argv, "--ansi", "never", *words],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout_s=timeout_s,
        )
        assert done.returncode == 0, f"docker-compose {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout
