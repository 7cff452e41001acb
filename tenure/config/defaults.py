"""Defaults that depend on the user, on the file's place or on other values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tenure.config.fields import Place

LOCAL_ENGINE = "unix:///var/run/docker.sock"
SOCKET = "tenured.sock"
CYCLES = "cycles.yml"
_TCP = "tcp://127.0.0.1:7480"


def home(env: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    return Path(env.get("HOME") or Path.home())


def fill(raw: dict[str, object], place: Place) -> None:
    """Fill in what the file leaves out and only the surroundings or other values can tell."""
    is_root = os.geteuid() == 0
    if raw.get("state_dir") is None:
        raw["state_dir"] = "/var/lib/tenure" if is_root else str(place.home / ".local/state/tenure")
    stated_dir = raw["state_dir"]
    # a faulty one is reported by itself, not once more through what lies in it
    state_dir = "/"
    if isinstance(stated_dir, str) and stated_dir.isprintable():
        state_dir = place.path(stated_dir)
    if raw.get("listen") is None:
        socket = Path("/run/tenure" if is_root else state_dir) / SOCKET
        raw["listen"] = [f"unix://{socket}", _TCP]
    if raw.get("token_file") is None:
        raw["token_file"] = str(Path(state_dir) / "token")
    generations = raw.get("generations")
    first = generations[0] if isinstance(generations, list) and generations else "nursery"
    if raw.get("nodes") is None:
        # one node can be one generation only: with more, jobs would find no node outside the first
        raw["generations"] = [first] if generations is None else generations
        raw["nodes"] = [{"name": "local", "url": LOCAL_ENGINE, "generation": first}]
    elif generations is None:
        raw.pop("generations", None)
    if isinstance(first, str):
        _keep_on(raw, first)


def _keep_on(raw: dict[str, object], first: str) -> None:
    """Have the first generation keep a node on, where the file does not say how many."""
    power = raw["power"] = {} if raw.get("power") is None else raw["power"]
    if not isinstance(power, dict):
        return
    kept = power.get("min_on")
    if kept is None or isinstance(kept, dict):
        power["min_on"] = {first: 1, **(kept or {})}
