"""What Docker's API says of a simulated machine and its containers: the JSON documents alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tenure.model.units import MIB, US
from tests.fleet.machine import Machine, SimContainer

API_VERSION = "1.41"
ZERO_TIME = "0001-01-01T00:00:00Z"
#: Every running container uses a twentieth of a core and 48 MiB.
CPU_NS_PER_US = 50
MEMORY_BYTES = 48 * MIB


def at(time_us: int | None) -> str:
    """Return a time as Docker writes it; None is its zero time."""
    if time_us is None:
        return ZERO_TIME
    return datetime.fromtimestamp(time_us / US, UTC).isoformat().replace("+00:00", "Z")


def info(machine: Machine) -> dict[str, Any]:
    """Return ``GET /info``."""
    return {
        "ID": machine.engine_id,
        "Name": machine.name,
        "NCPU": max(1, machine.size.cpu_m // 1000),
        "MemTotal": machine.size.memory_bytes,
        "SystemTime": at(machine.facts().clock_us),
    }


def image_rows(machine: Machine) -> list[dict[str, Any]]:
    """Return ``GET /images/json``."""
    return [{"Id": f"sha256:{name}", "RepoTags": [name]} for name in machine.images]


def row(machine: Machine, container: SimContainer) -> dict[str, Any]:
    """Return a container's entry of ``GET /containers/json``."""
    words = {"running": "Up 5 seconds", "exited": f"Exited ({container.exit_code}) 5 seconds ago"}
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": container.body["Image"],
        "State": machine.facts_of(container).state,
        "Status": words.get(container.state, container.state),
        "Labels": container.labels,
    }


def inspection(machine: Machine, container: SimContainer) -> dict[str, Any]:
    """Return ``GET /containers/{id}/json``."""
    facts = machine.facts_of(container)
    state: dict[str, Any] = {
        "Status": facts.state,
        "Running": facts.is_running,
        "ExitCode": container.exit_code or 0,
        "StartedAt": at(container.started_us),
        "FinishedAt": at(container.finished_us),
        "Error": "",
    }
    if facts.health != "none":
        state["Health"] = {"Status": facts.health}
    host = {**(container.body.get("HostConfig") or {}), "RestartPolicy": container.policy}
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "State": state,
        "Config": {"Image": container.body["Image"], "Labels": container.labels},
        "HostConfig": host,
    }


def statistics(container: SimContainer, now_us: int) -> dict[str, Any]:
    """Return ``GET /containers/{id}/stats``: zeros for one that does not run, as Docker does."""
    if not container.is_alive or container.started_us is None:
        return {"read": ZERO_TIME, "cpu_stats": {"cpu_usage": {"total_usage": 0}}}
    used_ns = (now_us - container.started_us) * CPU_NS_PER_US
    return {
        "read": at(now_us),
        "cpu_stats": {"cpu_usage": {"total_usage": used_ns}},
        "memory_stats": {"usage": MEMORY_BYTES, "stats": {"total_inactive_file": 0}},
        "blkio_stats": {"io_service_bytes_recursive": None},
        "networks": {"eth0": {"rx_bytes": used_ns >> 10, "tx_bytes": used_ns >> 12}},
    }


def event(container: SimContainer, action: str, now_us: int) -> dict[str, Any]:
    """Return an entry of ``GET /events``."""
    attributes = {**container.labels, "image": container.body["Image"], "name": container.name}
    return {
        "Type": "container",
        "Action": action,
        "Actor": {"ID": container.id, "Attributes": attributes},
        "time": now_us // US,
        "timeNano": now_us * 1000,
    }
