"""Defaults that depend on the user, on the file's place or on other values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCAL_ENGINE = "unix:///var/run/docker.sock"
SOCKET = "tenured.sock"
CYCLES = "cycles.yml"
_TCP = "tcp://127.0.0.1:7480"


def home(env: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    return Path(env.get("HOME") or Path.home())


def fill(raw: dict[str, Any], env: Mapping[str, str]) -> None:
    """Fill in what the file leaves out and only the surroundings can tell."""
    is_root = os.geteuid() == 0
    if raw.get("state_dir") is None:
        raw["state_dir"] = "/var/lib/tenure" if is_root else str(home(env) / ".local/state/tenure")
    stated_dir = raw["state_dir"]
    # a faulty one is reported by itself, not once more through what lies in it
    state_dir = stated_dir if isinstance(stated_dir, str) and stated_dir.isprintable() else "/"
    if raw.get("listen") is None:
        socket = Path("/run/tenure" if is_root else state_dir) / SOCKET
        raw["listen"] = [f"unix://{socket}", _TCP]
    if raw.get("token_file") is None:
        raw["token_file"] = str(Path(state_dir) / "token")
    if raw.get("nodes") is None:
        # one node can be one generation only: with more, jobs would find no node outside the first
        if raw.get("generations") is None:
            raw["generations"] = ["nursery"]
        stated = raw["generations"]
        first = stated[0] if isinstance(stated, list) and stated else "nursery"
        raw["nodes"] = [{"name": "local", "url": LOCAL_ENGINE, "generation": first}]
    if raw.get("generations") is None:
        raw.pop("generations", None)
