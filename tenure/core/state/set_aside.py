"""Which damaged records a fleet can do without, and what has to go with each of them (ours).

Theory of operation. A record is set aside only where its text confirms its key, so that it is
certain whose it is. With a record of a job, a batch or a container its whole family goes: what is
left of it could not be reviewed rightly. Nobody then places, starts, moves or removes anything of
the family: its containers are those of an unknown owner, which are left alone, keep their node on
and take room by their measured use. What everything else stands on is never set aside: the start is
refused. Owns nothing: the store keeps what is set aside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenure.model.aside import Aside, Damaged
from tenure.model.container import ContainerState
from tenure.model.deployment import Member, Phase

Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a damaged record of one kind.

    ``word`` is what people call it. ``mark`` is what its text holds if its key is what was written,
    with the parts of the key for ``{}``. Not ``may_go``: the start is refused, for the reason
    ``why``. ``has_family``: all of its family goes with it.
    """

    word: str
    why: str
    mark: str = '"id":{}'
    may_go: bool = True
    has_family: bool = False


def _family(word: str, why: str, mark: str = '"id":{}') -> Rule:
    return Rule(word, why, mark, has_family=True)


def _alone(word: str, why: str, mark: str) -> Rule:
    return Rule(word, why, mark)


def _never(word: str, why: str) -> Rule:
    return Rule(word, why, may_go=False)


_RUNS = "what of it may run is not known, so nothing of it may begin"
_ROOM = "what takes room, and who is to be billed for it, is not known without it"
_FILES = "without it files that are needed may be removed"
#: By kind: what becomes of a damaged record, and why.
RULES: dict[str, Rule] = {
    "jobs": _family("job", _RUNS),
    "executors": _family("executor", _RUNS, '"job":{},"index":{},'),
    "reservations": _family("reservation", "its job would be promised another time", '"job":{}'),
    "batches": _family("batch", _RUNS),
    "tasks": _family("task", _RUNS, '"batch":{},"index":{},'),
    "schedules": _family("schedule", "its batch would be planned anew", '"batch":{}'),
    "services": _family("container", _RUNS),
    "migrations": _family("migration", "which of two copies is to run is not known"),
    "tombstones": _family("tombstone", "a copy that must not run may still do"),
    "effects": _family("effect", "whether it happened is not known"),
    "deployments": _alone("service", "its containers stay as they are", '"name":{}'),
    "apps": _alone("run times", "they are learned anew", '"app":{}'),
    "answers": _alone("answer", "who asks again with its key is refused", '"key":{}'),
    "forecasts": _alone("forecast", "the next run makes another", '"node":{}'),
    "scores": _alone("score", "it is only told", '"node":{}'),
    "starts": _never("part of a schedule", "its text does not say of which batch it is"),
    "nodes": _never("node", "what its containers may do stands on it"),
    "runs": _never("run", "what it had moved would be moved again"),
    "drains": _never("drain", "work would begin on a node that is to be empty"),
    "harvests": _never("harvest mark", "reports of the controller would count twice"),
    "intervals": _never("interval", _ROOM),
    "stays": _never("stay", _ROOM),
    "datasets": _never("dataset", _FILES),
    "blocks": _never("block", _FILES),
    "tiers": _never("tier", _FILES),
    "meta": _never("fleet", "it alone says which containers are ours, and which numbers were used"),
}
_REMOVED = ContainerState.REMOVED
#: Bytes that a name can have.
READABLE = range(32, 127)
#: Readable bytes of a damaged name that may be wrong.
FLIPS = 2
#: What a family is named by.
HEADS = ("jobs", "batches", "services")
HOLDERS = ("executors", "tasks", "services", "migrations", "tombstones")


def spread(wrong: Sequence[Damaged], records: Records) -> tuple[list[Aside], list[str]]:
    """Return what is to be set aside for damaged records, and of which ones that cannot be.

    ``records`` are the whole ones by kind. Of the second a non-empty list refuses the start.
    """
    found: list[Aside] = []
    refused: list[str] = []
    families: dict[str, str] = {}
    for row in wrong:
        rule = RULES.get(row.kind)
        if rule is None or not rule.may_go:
            refused.append(f"{row.kind} {row.key} ({rule.why if rule else 'no kind of record'})")
            continue
        roots = _roots(row, records) if rule.has_family else []
        is_lost = row.kind == "effects" and not roots
        if is_lost or not _is_confirmed(row, rule):
            refused.append(f"{row.kind} {row.key} (whose it is is in doubt)")
            continue
        families |= {root: f"{rule.word} {row.key}" for root in roots}
        # alone: an app and a service may both be called web
        root = roots[0] if roots else f"{row.kind}/{row.key}"
        found.append(Aside(row.kind, row.key, root, f"{row.why}: {rule.why}"))
    known = {(one.kind, one.key) for one in found}
    found += [one for one in _rest(families, records) if (one.kind, one.key) not in known]
    return found, refused


def family(root: str, records: Records) -> list[tuple[str, str]]:
    """Return the kind and key of every record of a family."""
    return [(one.kind, one.key) for one in _rest({root: ""}, records)]


def ended_stays(root: str, records: Records) -> dict[str, Any]:
    """Return the open stays of a family, ended as of the last commit: nobody else would."""
    now_us = records["meta"]["meta"].clock_us
    stays = {key: one for key, one in records["stays"].items() if key.partition("/")[0] == root}
    return {k: replace(one, end_us=now_us) for k, one in stays.items() if one.end_us is None}


def holder(root: str, records: Records) -> str:
    """Return the replicated service that a container is of, "" for none."""
    rows = records.get("deployments", {}).values()
    names = (row.name for row in rows if root in (member.container for member in row.members))
    return next(names, "")


def from_backup(
    kept: Sequence[Aside], old: Records, now: Records
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return what to put in the place of a family that is set aside, and what stands against it.

    ``old`` are the records of a backup, ``now`` those of the state.
    """
    found: dict[str, dict[str, Any]] = {}
    rows = {(one.kind, one.key) for one in kept}
    for kind, key in sorted(rows | set(family(kept[0].root, old))):
        if key in old[kind]:
            found.setdefault(kind, {})[key] = old[kind][key]
    heads = {kind for kind, _ in rows} & set(HEADS)
    if not found or not heads <= set(found):
        return {}, "the backup does not know it"
    for key, row in found.get("deployments", {}).items():
        found["deployments"][key] = _with_present(row, now)
    live = (one for one in now["services"].values() if one.state is not _REMOVED)
    back = (one for one in found.get("services", {}).values() if one.state is not _REMOVED)
    taken = sorted({one.name for one in live} & {one.name for one in back})
    if taken:
        return {}, f"another container is called {taken[0]} by now"
    put = [row for part in found.values() for row in part.values()]
    spoken = {getattr(row, word, "") for row in put for word in ("node", "source", "target")}
    away = sorted(spoken - {"", *now["nodes"]})
    return found, f"nodes that are no more: {', '.join(away)}" if away else ""


def _with_present(row: Any, now: Records) -> Any:
    """Return a deployment of a backup with the containers that are there now as its members."""
    there = [s for s in now["services"].values() if s.deployment == row.name]
    of = {one.name: one for one in there if one.state is not _REMOVED}
    numbers = {int(name.rpartition("-")[2]): one for name, one in of.items()}
    revisions = {str(one.template.body): one.number for one in row.revisions}
    members = tuple(
        Member(number, revisions.get(str(one.body), 0), one.id)
        for number, one in sorted(numbers.items())
    )
    is_mixed = any(member.revision != row.revision.number for member in members)
    return replace(row, members=members, phase=Phase.ROLLING_BACK if is_mixed else row.phase)


def quarantined(kept: Sequence[Aside]) -> dict[tuple[str, str], str]:
    """Return what is told of what was set aside: damaged records, and the heads of families."""
    told = [one for one in kept if one.kind in HEADS or not one.is_whole]
    told.sort(key=lambda one: one.is_whole)
    return {(RULES[one.kind].word, one.key): f"set aside: {one.why}" for one in told}


def names(kept: Sequence[Aside]) -> list[bytes]:
    """Return the names of containers that are set aside, as their text has them."""
    texts = [one.body.partition(b'"name":"')[2] for one in kept if one.kind == "services"]
    return [name for text in texts if (name := text.partition(b'","app":')[0])]


def is_near(name: str, others: Sequence[bytes]) -> bool:
    """Whether a name may be that of another container, some bytes of which may be damaged."""
    raw = name.encode("utf-8", "surrogatepass")
    alike = (zip(raw, one, strict=True) for one in others if len(one) == len(raw))
    return any(sum(a != b and b in READABLE for a, b in pairs) <= FLIPS for pairs in alike)


def _rest(families: Mapping[str, str], records: Records) -> Iterator[Aside]:
    moves = records.get("migrations", {})
    for kind, rule in RULES.items():
        for key, record in records.get(kind, {}).items() if rule.has_family else ():
            root = _root_of(kind, key, record, moves)
            if root in families:
                yield Aside(kind, key, root, f"goes with {families[root]}", is_whole=True)


def _root_of(kind: str, key: str, record: Any, moves: Mapping[str, Any]) -> str:
    """Return the job, batch or container that a whole record is part of."""
    if kind == "effects":
        machine, _, key = record.owner.partition(":")
        kind, record = ("migrations", moves.get(key)) if machine == "migration" else ("", None)
    if kind == "migrations" and record is not None:
        return str(record.container)
    return key.partition("/")[0]


def _roots(row: Damaged, records: Records) -> list[str]:
    """Return the families that a damaged record may be part of."""
    moves = records.get("migrations", {})
    if row.kind == "effects":
        rows = ((kind, *one) for kind in HOLDERS for one in records.get(kind, {}).items())
        return [_root_of(*held, moves) for held in rows if held[-1].effect == row.key]
    if row.kind != "migrations":
        return [row.key.partition("/")[0]]
    open_ = {move.container for move in moves.values() if not move.is_over}
    services = records.get("services", {}).values()
    moving = (one.id for one in services if one.state is ContainerState.MOVING)
    return [key for key in moving if key not in open_]


def _is_confirmed(row: Damaged, rule: Rule) -> bool:
    """Whether the text of a record says that its key is what was written."""
    parts = row.key.split("/") if rule.mark.count("{}") > 1 else [row.key]
    if len(parts) != rule.mark.count("{}"):
        return False
    mark = rule.mark.format(json.dumps(parts[0], ensure_ascii=False), *parts[1:]).encode()
    # one of the two ways to write JSON has spaces
    return mark in row.body.replace(b'": ', b'":').replace(b', "', b',"')
