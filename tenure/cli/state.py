"""``tenured backup``, ``restore``, ``check`` and ``discard``: the state as files."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenure import __version__
from tenure.cli.configured import settings_of
from tenure.model.errors import InvalidInput
from tenure.model.job import Job
from tenure.model.jsons import Json
from tenure.model.units import iso

if TYPE_CHECKING:  # the other commands of tenured must not pay for these
    from tenure.config.settings import Settings
    from tenure.model.aside import Aside
    from tenure.store.archive import Manifest
    from tenure.store.backup import Source
    from tenure.store.contents import Contents

#: Jobs in these states are over; the others are work that a restore takes up.
OVER = ("succeeded", "failed", "cancelled")


def add_verbs(verbs: Any) -> None:
    """Add the four commands to ``tenured``."""
    backup = verbs.add_parser("backup", help="write the state to one file; the daemon may run")
    backup.add_argument("file", type=Path, help="the backup to write")
    backup.add_argument("--force", action="store_true", help="replace the file if there is one")
    back = verbs.add_parser("restore", help="put a backup in place; the daemon must not run")
    back.add_argument("file", type=Path, help="a file that `tenured backup` wrote")
    back.add_argument("--only", metavar="ID", help="put back what is set aside of ID, nothing else")
    back.add_argument("--dry-run", action="store_true", help="check it and show what is inside")
    check = verbs.add_parser("check", help="check the state, or a backup, and show what it holds")
    check.add_argument("file", type=Path, nargs="?", help="a backup (default: the state itself)")
    discard = verbs.add_parser("discard", help="give up what is set aside; no daemon may run")
    discard.add_argument("id", help="what it is set aside of, as `tenured check` names it")
    discard.add_argument("--gone", action="store_true", help="its container runs nowhere any more")
    works = ((backup, _backup), (back, _restore), (check, _check), (discard, _discard))
    for parser, work in works:
        parser.add_argument("--config", type=Path, help="tenured.yml, as for `tenured run`")
        parser.add_argument("--json", action="store_true", dest="is_json", help="answer as JSON")
        parser.set_defaults(work=work)


def _source(settings: Settings) -> Source:
    from tenure.store.backup import Source

    files = tuple(path for path in (settings.path, settings.cycles_file) if path is not None)
    return Source(settings.state_dir, settings.token_file, files)


def _now_us() -> int:
    return time.time_ns() // 1000


def _backup(options: argparse.Namespace) -> int:
    from tenure.core.state.tables import KINDS
    from tenure.store.backup import take

    settings, target = settings_of(options.config), options.file.absolute()
    if target.exists() and not options.force:
        raise InvalidInput(f"{target} exists; name another file, or add --force to replace it")
    manifest = take(_source(settings), target, KINDS, stamp=(__version__, _now_us()))
    shown = _told(manifest) | {"file": str(target), "size_bytes": target.stat().st_size}
    text = f"{target}: {shown['size_bytes']} bytes, " + _sentence(manifest.records)
    return _answer(options, shown, [text])


def _restore(options: argparse.Namespace) -> int:
    from tenure.core.lifecycle import restore
    from tenure.core.state.tables import KINDS, Meta
    from tenure.store.backup import put_back

    settings, source = settings_of(options.config), options.file.absolute()
    if options.dry_run:
        return _show_backup(options, source)
    if options.only:
        return _put_back(options, source, settings)
    now_us = _now_us()

    def mark(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Json]:
        meta = records["meta"].get("meta") or Meta()
        return {"meta": {"meta": restore.marked(meta, now_us)}}

    stamp = (__version__, now_us)
    done = put_back(source, _source(settings), KINDS, mark=mark, stamp=stamp)
    shown = _told(done.manifest) | {
        "replaced": [str(path) for path in done.replaced],
        "kept": str(done.aside) if done.aside else None,
    }
    lines = [
        f"restored the state of {iso(done.manifest.created_us)}: "
        + _sentence(done.manifest.records),
        f"the files before are kept in {done.aside}" if done.aside else "there was no state before",
        "start tenured: it looks at every node before it begins anything (tenured's /readyz says "
        "which it waits for), adopts what runs, and begins anew what left no trace",
    ]
    return _answer(options, shown, lines)


def _put_back(options: argparse.Namespace, source: Path, settings: Settings) -> int:
    from tenure.core.lifecycle import restore
    from tenure.core.state import set_aside
    from tenure.core.state.tables import KINDS
    from tenure.store.backup import look, resolve

    root, now_us = options.only, _now_us()
    _, there = look(source, KINDS)

    def change(kept: list[Aside], records: Mapping[str, Mapping[str, Any]]) -> dict[str, Json]:
        found, why = set_aside.from_backup(kept, there.records, records)
        if why:
            raise InvalidInput(f"{source} cannot give {root} back: {why} (tenured discard {root})")
        found["stays"] = set_aside.ended_stays(root, records)
        if any(set_aside.RULES[one.kind].has_family for one in kept):
            found["meta"] = {"meta": restore.marked(records["meta"]["meta"], now_us)}
        return found

    kept = resolve(settings.state_dir, root, KINDS, change)
    shown: Json = {"id": root, "put_back": [[one.kind, one.key] for one in kept]}
    told = "start tenured: as after a restore, it looks at every node before it begins anything"
    return _answer(options, shown, [f"{root} is as {source.name} has it", told])


def _discard(options: argparse.Namespace) -> int:
    from tenure.core.state import set_aside
    from tenure.core.state.tables import KINDS
    from tenure.store.backup import resolve

    def change(_: list[Aside], records: Mapping[str, Mapping[str, Any]]) -> dict[str, Json]:
        holder = "" if options.gone else set_aside.holder(options.id, records)
        if holder:
            raise InvalidInput(
                f"{options.id} is of the service {holder}, which would begin another beside it: "
                "remove the container on its node, then add --gone"
            )
        return {"stays": set_aside.ended_stays(options.id, records)}

    kept = resolve(settings_of(options.config).state_dir, options.id, KINDS, change)
    shown: Json = {"id": options.id, "discarded": [[one.kind, one.key] for one in kept]}
    told = "its containers, if there are any, are left alone: remove them by hand"
    return _answer(options, shown, [f"{len(kept)} records of {options.id} are given up; {told}"])


def _check(options: argparse.Namespace) -> int:
    from tenure.core.state.tables import KINDS
    from tenure.store.backup import STATE
    from tenure.store.contents import inspect

    if options.file is not None:
        return _show_backup(options, options.file.absolute())
    settings = settings_of(options.config)
    path = settings.state_dir / STATE
    contents = inspect(path, KINDS)
    shown = {"file": str(path), "advice": list(settings.advice)} | _held(contents)
    lines = [f"{path} is whole: schema {contents.schema}, " + _sentence(contents.counts)]
    if shown["is_restoring"]:
        lines.append("it was restored, and the nodes are still to be looked at")
    for one in contents.aside:
        lines.append(f"set aside: {one.kind} {one.key} of {one.root}: {one.why}")
    if contents.aside:
        lines.append("put one back with `tenured restore FILE --only ID`, or `tenured discard ID`")
    lines += [f"  {iso(step.at_us)} {step.what}: {step.detail}" for step in contents.history]
    lines += [f"advice: {told}" for told in settings.advice]
    return _answer(options, shown, lines)


def _show_backup(options: argparse.Namespace, source: Path) -> int:
    from tenure.core.state.tables import KINDS
    from tenure.store.backup import look

    manifest, contents = look(source, KINDS)
    shown = _told(manifest) | {"file": str(source)} | _held(contents)
    members = ", ".join(member.name for member in manifest.members)
    lines = [
        f"{source} is whole: taken {iso(manifest.created_us)} by tenure {manifest.tenure}, "
        f"schema {manifest.schema}, " + _sentence(contents.counts),
        f"it holds {members}; nothing was changed",
    ]
    return _answer(options, shown, lines)


def _told(manifest: Manifest) -> Json:
    """Return a manifest as JSON data."""
    members = [asdict(member) for member in manifest.members]
    return {
        "tenure": manifest.tenure,
        "created": iso(manifest.created_us),
        "schema": manifest.schema,
        "last_event": manifest.last_seq,
        "records": manifest.records,
        "members": members,
    }


def _held(contents: Contents) -> Json:
    """Return what a database holds as JSON data, with the work that is not over."""
    from tenure.core.state.tables import Meta

    found = contents.records["meta"].get("meta")
    meta = found if isinstance(found, Meta) else Meta()
    jobs = [job for job in contents.records["jobs"].values() if isinstance(job, Job)]
    return {
        "schema": contents.schema,
        "records": contents.counts,
        "first_event": contents.first_seq,
        "last_event": contents.last_seq,
        "logs": contents.logs,
        "state_bytes": contents.size_bytes,
        "set_aside": [[one.kind, one.key, one.root, one.why] for one in contents.aside],
        "fleet": meta.fleet,
        "is_restoring": meta.is_restoring,
        "open_jobs": sorted(job.id for job in jobs if job.state not in OVER),
        "history": [asdict(s) | {"at": iso(s.at_us)} for s in contents.history],
    }


def _sentence(counts: Mapping[str, int]) -> str:
    kinds = (("nodes", "nodes"), ("jobs", "jobs"), ("services", "containers"))
    return ", ".join(f"{counts.get(kind, 0)} {word}" for kind, word in kinds)


def _answer(options: argparse.Namespace, shown: Json, lines: list[str]) -> int:
    print(json.dumps(shown, indent=1) if options.is_json else "\n".join(lines))
    return 0
