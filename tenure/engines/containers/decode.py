"""Docker's JSON to our facts. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from tenure.model.document import Document, at, count, part, text, texts, time_us, words
from tenure.model.errors import EngineUnclear
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


def is_ours(labels: Mapping[str, str]) -> bool:
    """Return whether a tenure made the container (any fleet's)."""
    return bool(labels.get(LABEL_FLEET))


def identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must be equal for two containers to be the same copy; () if not ours."""
    return tuple(labels.get(key, "") for key in _IDENTITY) if is_ours(labels) else ()


def from_listing(row: Document) -> ContainerFacts:
    """Return what an entry of ``GET /containers/json`` tells: no times, no exit code, no health.

    Raises EngineUnclear where it is none.
    """
    return ContainerFacts(
        engine_id=_id_of(row),
        name=_own_name(words(row.get("Names"))),
        image=text(row.get("Image")),
        state=text(row.get("State")),
        labels=_labels(row.get("Labels")),
    )


def from_inspect(document: Document) -> ContainerFacts:
    """Return all that ``GET /containers/{id}/json`` tells.

    A container whose start failed stays ``created``: its exit code is the engine's invention and
    is left out, the reason is in ``error``. An engine can date the end of a very short run before
    its start (seen: 0.3 ms); the end is then the start. Raises EngineUnclear for what is none.
    """
    state, config = part(document.get("State")), part(document.get("Config"))
    word = text(state.get("Status"))
    is_over = word in _EXITED or word == "restarting"
    started_us = time_us(state.get("StartedAt"))
    finished_us = time_us(state.get("FinishedAt")) if is_over else None
    if started_us is not None and finished_us is not None:
        finished_us = max(started_us, finished_us)
    return ContainerFacts(
        engine_id=_id_of(document),
        name=text(document.get("Name")).lstrip("/"),
        image=text(config.get("Image")),
        state=word,
        labels=_labels(config.get("Labels")),
        exit_code=exit_code(document) if is_over else None,
        started_us=started_us,
        finished_us=finished_us,
        is_oom_killed=bool(state.get("OOMKilled")),
        health=text(state, "Health", "Status") or "none",
        error=text(state.get("Error")),
        is_torn=_is_torn(document, state),
        restarts=count(document, "RestartCount") or 0,
    )


def _id_of(found: Document) -> str:
    return text(found.get("Id")) or _unclear("Id")


def _labels(found: object) -> dict[str, str]:
    """Return the labels, which tell whose a container is: odd ones are not passed over."""
    return texts(found) if found is None or isinstance(found, dict) else _unclear("Labels")


def exit_code(document: Document) -> int:
    """Return the exit code of an inspected container; raises EngineUnclear for an odd one."""
    code = at(document, "State", "ExitCode") or 0
    return code if isinstance(code, int) else _unclear("ExitCode")


def _unclear(what: str) -> NoReturn:
    raise EngineUnclear(f"a container is told of in an unknown shape: its {what}")


def _is_torn(document: Document, state: Document) -> bool:
    """Return whether a container that is shown as never started has a log.

    An engine opens the log of what it is about to start, and forgets it when it dies. One that
    comes back (seen with Docker 20.10) opens it again only for what its containerd holds a task
    of, be it ready to run or running; a start that failed or came to its end left word of that.
    """
    is_fresh = state.get("Status") == "created" and not state.get("ExitCode")
    is_silent = not state.get("Error") and time_us(state, "FinishedAt") is None
    return bool(is_fresh and is_silent and document.get("LogPath"))


def is_telling(row: Document, known: ContainerFacts) -> bool:
    """Return whether an earlier inspect still describes a container of a listing.

    The listing has no finish time; state and exit code must agree. Health shows in the listing
    only as words, and then an inspect is due anyway.
    """
    status = text(row, "Status")
    if known.state != row.get("State"):
        return False
    if known.exit_code is not None:
        return f"({known.exit_code})" in status
    return known.health == "none" and "(" not in status


def image_names(rows: Iterable[Document]) -> tuple[str, ...]:
    """Return every name by which ``GET /images/json`` knows an image: tags, digests, ids."""
    names: set[str] = set()
    for row in rows:
        names.update((text(row.get("Id")), *words(row.get("RepoTags"))))
        names.update(words(row.get("RepoDigests")))
    return tuple(sorted(name for name in names if name and _NAMELESS not in name))


def engine_facts(document: Document, api_version: str, images: tuple[str, ...]) -> EngineFacts:
    """Return identity and size from ``GET /info``; capacity is the whole machine."""
    capacity = Resources((count(document, "NCPU") or 0) * 1000, count(document, "MemTotal") or 0)
    driver = text(document, "CgroupDriver") or "cgroupfs"
    clock_us = time_us(document, "SystemTime")
    return EngineFacts(text(document, "ID"), capacity, api_version, images, driver, clock_us)


def _own_name(names: Iterable[str]) -> str:
    """Return the container's own name: aliases by links have a second slash."""
    stripped = [name.removeprefix("/") for name in names]
    return next((name for name in stripped if "/" not in name), "")
