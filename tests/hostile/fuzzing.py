"""How the schemathesis command is run by all who run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testbed import bounded

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = (
    *("--generation-deterministic", "--request-timeout=20", "--continue-on-failure"),
    *("--no-shrink", "--no-color", "--warnings=off"),
)


def fuzz(
    target: tuple[int, str], folder: Path, *words: str, limit_s: float, hooks: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run schemathesis against a port, with an Authorization header, by the OpenAPI document there.

    ``hooks`` is the module of this package with its hooks; a configuration file lies beside it.
    """
    port, bearer = target
    env = {"SCHEMATHESIS_HOOKS": f"tests.hostile.{hooks}", "PYTHONPATH": str(ROOT), **env}
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        f"--config-file={Path(__file__).with_name('schemathesis.toml')}",
        *("run", f"http://127.0.0.1:{port}/openapi.json", f"--header=Authorization: {bearer}"),
        *ALWAYS,
        *words,
    ]
    return bounded.run(command, cwd=folder, env=os.environ | env, text=True, timeout_s=limit_s)
