"""Docker's JSON to our facts. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tenure.model.facts import (
    LABEL_ATTEMPT,
    LABEL_CONTAINER,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_INCARNATION,
    LABEL_JOB,
    ContainerFacts,
    EngineFacts,
)
from tenure.model.resources import Resources

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXITED = frozenset(("exited", "dead"))
_IDENTITY = (
    LABEL_FLEET,
    LABEL_JOB,
    LABEL_EXECUTOR,
    LABEL_ATTEMPT,
    LABEL_CONTAINER,
    LABEL_INCARNATION,
)
_NAMELESS = "<none>"


def time_us(text: str | None) -> int | None:
    """Return UTC microseconds for Docker's RFC 3339 time; None for its zero time or nonsense."""
    if not text or text.startswith("0001-"):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) if moment.tzinfo else None


def is_ours(labels: Mapping[str, str]) -> bool:
    """Return whether a tenure made the container (any fleet's)."""
    return bool(labels.get(LABEL_FLEET))


def identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must be equal for two containers to be the same copy; () if not ours."""
    return tuple(labels.get(key, "") for key in _IDENTITY) if is_ours(labels) else ()


def from_listing(row: Mapping[str, Any]) -> ContainerFacts:
    """Return what an entry of ``GET /containers/json`` tells: no times, no exit code, no health."""
    return ContainerFacts(
        engine_id=str(row["Id"]),
        name=_own_name(row.get("Names") or ()),
        image=str(row.get("Image") or ""),
        state=str(row.get("State") or ""),
        labels=dict(row.get("Labels") or {}),
    )


def from_inspect(document: Mapping[str, Any]) -> ContainerFacts:
    """Return all that ``GET /containers/{id}/json`` tells.

    A container whose start failed stays ``created``: its exit code is the engine's invention and
    is left out, the reason is in ``error``. An engine can date the end of a very short run before
    its start (seen: 0.3 ms); the end is then the start.
    """
    state = document.get("State") or {}
    config = document.get("Config") or {}
    word = str(state.get("Status") or "")
    is_over = word in _EXITED
    started_us = time_us(state.get("StartedAt"))
    finished_us = time_us(state.get("FinishedAt")) if is_over else None
    if started_us is not None and finished_us is not None:
        finished_us = max(started_us, finished_us)
    return ContainerFacts(
        engine_id=str(document["Id"]),
        name=str(document.get("Name") or "").lstrip("/"),
        image=str(config.get("Image") or ""),
        state=word,
        labels=dict(config.get("Labels") or {}),
        exit_code=int(state.get("ExitCode") or 0) if is_over else None,
        started_us=started_us,
        finished_us=finished_us,
        is_oom_killed=bool(state.get("OOMKilled")),
        health=str((state.get("Health") or {}).get("Status") or "none"),
        error=str(state.get("Error") or ""),
        is_torn=_is_torn(document, state),
    )


def _is_torn(document: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Return whether a container that is shown as never started has a log.

    An engine opens the log of what it is about to start, and forgets it when it dies. One that
    comes back (seen with Docker 20.10) opens it again only for what its containerd holds a task
    of, be it ready to run or running; a start that failed or came to its end left word of that.
    """
    is_fresh = state.get("Status") == "created" and not state.get("ExitCode")
    is_silent = not state.get("Error") and time_us(state.get("FinishedAt")) is None
    return bool(is_fresh and is_silent and document.get("LogPath"))


def is_telling(row: Mapping[str, Any], known: ContainerFacts) -> bool:
    """Return whether an earlier inspect still describes a container of a listing.

    The listing has no finish time; state and exit code must agree. Health shows in the listing
    only as words, and then an inspect is due anyway.
    """
    status = str(row.get("Status") or "")
    if known.state != row.get("State"):
        return False
    if known.exit_code is not None:
        return f"({known.exit_code})" in status
    return known.health == "none" and "(" not in status


def image_names(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return every name by which ``GET /images/json`` knows an image: tags, digests, ids."""
    names: set[str] = set()
    for row in rows:
        names.add(str(row.get("Id") or ""))
        names.update(row.get("RepoTags") or ())
        names.update(row.get("RepoDigests") or ())
    return tuple(sorted(name for name in names if name and _NAMELESS not in name))


def engine_facts(
    document: Mapping[str, Any], api_version: str, images: tuple[str, ...]
) -> EngineFacts:
    """Return identity and size from ``GET /info``; capacity is the whole machine."""
    capacity = Resources(
        cpu_m=int(document.get("NCPU") or 0) * 1000,
        memory_bytes=int(document.get("MemTotal") or 0),
    )
    driver = str(document.get("CgroupDriver") or "cgroupfs")
    clock_us = time_us(document.get("SystemTime"))
    own_id = str(document.get("ID") or "")
    return EngineFacts(own_id, capacity, api_version, images, driver, clock_us)


def _own_name(names: Iterable[str]) -> str:
    """Return the container's own name: aliases by links have a second slash."""
    stripped = [name.removeprefix("/") for name in names]
    return next((name for name in stripped if "/" not in name), "")
