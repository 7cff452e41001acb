"""Blocks of datasets in the tiers of a node, over the engine's API alone.

A block goes as a tar archive into a helper container that sees the tier's directory, under a name
of its own; then the helper's script compares it with its checksum right there, brings it to the
disk, and gives it its name in one step. So a file with a block's name is whole, whatever was cut
before. Within a node blocks are copied by the helper, and nothing passes the daemon.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tenure.engines.files.carrier import Piece, read_piece, require_unchanged
from tenure.engines.files.tarstream import ENDING, archive, folder, header, members, padding
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_BAD_REQUEST, EngineUnreachable
from tenure.engines.http.outcomes import outcome_of
from tenure.engines.tiers.helper import NO_FOLDER, Helpers, Mount
from tenure.model.effects import (
    CheckBlocks,
    CopyBlock,
    DropBlocks,
    MeasureTiers,
    SurveyTiers,
    TierEffect,
)
from tenure.model.errors import EngineError, EngineRefused
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.tier import TierSpec

#: Where a helper sees the one tier that it works in, where a block comes from, and several tiers.
TIER, FROM, TIERS = "/tier", "/from", "/tiers"
#: In the fleet's folder of a tier once a block was kept there: a disk that is not mounted lacks it.
MARKER = ".tier"
MEASURE_BYTES = 32 << 20
#: What the listing of a survey begins and ends with: an engine may keep less of it than was said.
BEGIN, END = "B tenure", "E tenure"
#: What a script says and ends with where a block is not what it should be.
WRONG = 4
_NAME = re.compile(r"tenure-[a-zA-Z0-9_.-]+(/[a-zA-Z0-9_.-]+){0,2}")
_READ = re.compile(r"^T (\d+) (\d+) (\d+)$", re.MULTILINE)

#: Arguments: fleet's folder, part, name, checksum ("": as the file beside the part says).
_FINISH = """
cd /tier || exit 5
want=$4; [ -n "$want" ] || want=$(cat "$2.sum")
rm -f "$2.sum"
got=$(sha256sum < "$2" | cut -d ' ' -f 1)
if [ "$got" != "$want" ]; then rm -f "$2"; echo "$got"; exit 4; fi
chmod 444 "$2"
dd if=/dev/null of="$2" conv=notrunc,fsync 2>/dev/null || { rm -f "$2"; exit 6; }
mv -f "$2" "$3" || exit 6
[ -e "$1/.tier" ] || : > "$1/.tier"
echo "$got"
"""
#: The same with a file of the node as the source, the fifth argument; the part is made here.
_LOCAL = """
cd /tier && mkdir -p "${2%/*}" || exit 5
cp "/from/$5" "$2" || { rm -f "$2"; exit 6; }
"""
#: Arguments: the part. Says how much room there is without it.
_ROOM = """
rm -f "/tier/$1" "/tier/$1.sum"
df -Pk /tier | tail -n 1 | awk '{print $4}'
"""
_DROP = 'cd /tier && rm -rf -- "$@"'
#: Arguments: the folder, then the kind of each tier. A file that goes meanwhile is no fault, a
#: folder that cannot be listed is: what lies there would be taken as gone.
_SURVEY = f"""
folder=$1; shift; i=0; seen=
line="
"
echo "{BEGIN}"
: > /find.err || exit 5
for kind in "$@"; do
  cd "/tiers/$i" || exit 5
  place=$(stat -c "%d:%i" .) || exit 5
  if case "$seen" in *" $place "*) true;; *) false;; esac; then
    echo "F $i is the directory of another tier too"
  elif [ "$kind" = memory ] && ! grep -q " /tiers/$i tmpfs " /proc/mounts; then
    echo "F $i is no mounted tmpfs"
  elif ! mkdir -p "$folder"; then
    echo "F $i cannot be written"
  else
    find "$folder" -type f ! -path "*$line*" -exec stat -c "S $i %s %n" {{}} + 2> /find.err
    why=$(grep -v "No such file" /find.err | head -n 1)
    [ -z "$why" ] || echo "F $i cannot be listed: $why"
  fi
  seen="$seen $place "
  i=$((i+1))
done
echo "{END}"
"""
#: Arguments: lines of checksum and name.
_CHECK = """
cd /tier || exit 5
echo "$1" | while read -r want name; do
  got=$( (sha256sum < "$name") 2>/dev/null | cut -d ' ' -f 1)
  if [ "$got" = "$want" ]; then echo "1 $name"; else echo "0 $name"; fi
done
"""
#: Arguments: the folder, MiB to read, the kind of each tier. Says how often so much was read in how
#: many hundredths of a second: past the page cache, and where that cannot be, of memory alone.
_MEASURE = """
folder=$1; size=$2; shift 2; i=0
now() { read -r up rest < /proc/uptime; echo "${up%.*}${up#*.}"; }
for kind in "$@"; do
  cd "/tiers/$i" && mkdir -p "$folder" || exit 5
  f="$folder/.measure"; flag=iflag=direct; n=0; took=0
  if dd if=/dev/urandom of="$f" bs=1048576 count="$size" conv=fsync 2>/dev/null; then
    dd if="$f" of=/dev/null bs=1048576 $flag 2>/dev/null || flag=
    if [ -n "$flag" ] || [ "$kind" = memory ]; then
      begun=$(now)
      while [ $took -lt 30 ] && [ $n -lt 500 ]; do
        dd if="$f" of=/dev/null bs=4194304 $flag 2>/dev/null || break
        n=$((n+1)); took=$(($(now) - begun))
      done
    fi
  fi
  rm -f "$f"
  echo "T $i $n $took"
  i=$((i+1))
done
"""


@dataclass(frozen=True, slots=True)
class TierWork:
    """Carries out what concerns the tiers of one engine's node."""

    helpers: Helpers

    async def perform(self, effect: TierEffect, origin: TierWork | None = None) -> Outcome:
        """Carry out ``effect``; every way it can go is an outcome.

        ``origin`` is the engine that a block is copied from, if that is another.
        """
        return await outcome_of(self._attempt(effect, origin), {HTTP_BAD_REQUEST: NO_FOLDER})

    async def _attempt(self, effect: TierEffect, origin: TierWork | None) -> Outcome:
        match effect:
            case CopyBlock():
                return await self._copy(effect, origin)
            case DropBlocks():
                return await self._drop(effect)
            case SurveyTiers():
                return await self._survey(effect)
            case CheckBlocks():
                return await self._check(effect)
            case MeasureTiers():
                return await self._measure(effect)

    # copies

    async def _copy(self, effect: CopyBlock, origin: TierWork | None) -> Outcome:
        part = f"{_sound(effect.name)}.{effect.id}.part"
        args = [effect.name.split("/", 1)[0], part, effect.name, effect.sha256]
        if effect.source == effect.node:
            return await self._local(effect, args)
        if effect.origin is not None:
            await asyncio.to_thread(require_unchanged, effect.origin)
            piece = Piece(part, Path(effect.origin.path), effect.offset, effect.length, True)
            return await self._sent(effect, args, read_piece(piece))
        if origin is None:
            return Refused("unreachable", f"node {effect.source} is not configured any more")
        return await self._sent(effect, args, origin.read(effect.image, effect.source_path))

    async def _local(self, effect: CopyBlock, args: list[str]) -> Outcome:
        """Copy within the node."""
        source = PurePosixPath(effect.source_path)
        mounts = [Mount(effect.path, TIER), Mount(str(source.parent), FROM, is_read_only=True)]
        script = _LOCAL + _FINISH
        async with self.helpers.opened(
            effect.image, mounts, script, [*args, source.name]
        ) as helper:
            code, said = await helper.run()
        if code == 0:
            return Done(said.split()[-1], moved_bytes=effect.length)
        if code == WRONG:
            return Refused("corrupted", f"{effect.source_path} is not what was put")
        return await self._not_kept(effect, args[1], said.strip()[-200:])

    async def _sent(
        self, effect: CopyBlock, args: list[str], content: AsyncGenerator[bytes, None]
    ) -> Outcome:
        """Send a block that comes over the daemon."""
        packing = BlockPacking(args[1], effect.length, content)
        mounts = [Mount(effect.path, TIER)]
        async with (
            aclosing(content),
            self.helpers.opened(effect.image, mounts, _FINISH, args) as helper,
        ):
            path = paths.container(helper.id, "/archive")
            try:
                await self.helpers.transport.upload("PUT", path, {"path": TIER}, packing)
            except EngineError as error:
                if isinstance(error, EngineUnreachable) or packing.is_cut:
                    raise
                return await self._not_kept(effect, args[1], error.detail)
            if effect.origin is not None:
                await asyncio.to_thread(require_unchanged, effect.origin)
            if effect.sha256 and packing.sha256 != effect.sha256:
                code = "corrupted" if effect.origin is None else "input_changed"
                return Refused(code, f"block {effect.name} is not what was put before")
            code_, said = await helper.run()
        if code_ == 0:
            return Done(said.split()[-1], moved_bytes=effect.length)
        if code_ == WRONG:
            return Refused("engine_error", "a block did not arrive as it was sent")
        return await self._not_kept(effect, args[1], said.strip()[-200:])

    async def _not_kept(self, effect: CopyBlock, part: str, why: str) -> Outcome:
        """Return why a tier did not keep a block: it is full, or something else."""
        mounts = [Mount(effect.path, TIER)]
        async with self.helpers.opened(effect.image, mounts, _ROOM, [part]) as helper:
            _, said = await helper.run()
        words = said.split()
        if words and words[-1].isdigit() and int(words[-1]) * 1024 < effect.length:
            told = f"{effect.path} has only {int(words[-1])} KiB left on its disk"
            return Refused("tier_full", told)
        return Refused("engine_error", why)

    async def read(self, image: str, path: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file of the node. Raises EngineError."""
        file = PurePosixPath(path)
        mounts = [Mount(str(file.parent), FROM, is_read_only=True)]
        async with self.helpers.opened(image, mounts) as helper:
            source = archive(self.helpers.transport, helper.id, f"{FROM}/{file.name}")
            async with aclosing(source) as chunks:
                async for member in members(chunks):
                    if member.is_file:
                        async for piece in member.content:
                            yield piece

    # what else is done with tiers

    async def _drop(self, effect: DropBlocks) -> Outcome:
        names = [name for name in effect.names if _is_sound(name)]  # what else was asked for once
        mounts = [Mount(effect.path, TIER)]
        async with self.helpers.opened(effect.image, mounts, _DROP, names) as helper:
            code, said = await helper.run()
        return Done() if code == 0 else Refused("engine_error", said.strip()[-200:])

    async def _survey(self, effect: SurveyTiers) -> Outcome:
        await self.helpers.clear()
        there, missing = await self._present(effect)
        faults = [f"{tier.name} there is no directory {tier.path} on the node" for tier in missing]
        if not there:
            return Done("\n".join(faults))
        args = [_sound(effect.folder), *(tier.kind.value for tier in there)]
        async with self.helpers.opened(effect.image, _mounts(there), _SURVEY, args) as helper:
            code, said = await helper.run()
        if code != 0:
            return Refused("engine_error", said.strip()[-200:])
        return await asyncio.to_thread(surveyed, said, there, faults)

    async def _present(self, effect: SurveyTiers) -> tuple[list[TierSpec], list[TierSpec]]:
        """Return the tiers whose directories are there, and those whose are not."""
        there, missing = [], []
        try:
            async with self.helpers.opened(effect.image, _mounts(effect.tiers)):
                return list(effect.tiers), []
        except EngineRefused as refused:
            if refused.code != NO_FOLDER:
                raise
        for tier in effect.tiers:  # Docker names one at most
            try:
                async with self.helpers.opened(effect.image, _mounts((tier,))):
                    there.append(tier)
            except EngineRefused as refused:
                if refused.code != NO_FOLDER:
                    raise
                missing.append(tier)
        return there, missing

    async def _check(self, effect: CheckBlocks) -> Outcome:
        lines = "\n".join(f"{digest} {_sound(name)}" for name, digest in effect.sums)
        mounts = [Mount(effect.path, TIER, is_read_only=True)]
        async with self.helpers.opened(effect.image, mounts, _CHECK, [lines]) as helper:
            code, said = await helper.run()
        rows = [line.split(" ", 1) for line in said.splitlines()]
        if code != 0 or len(rows) != len(effect.sums):
            return Refused("engine_error", said.strip()[-200:])
        return Done(counts=tuple((name, int(right)) for right, name in rows))

    async def _measure(self, effect: MeasureTiers) -> Outcome:
        least = min(tier.capacity_bytes for tier in effect.tiers)
        size = max(1, min(MEASURE_BYTES, least // 2) >> 20)
        args = [_sound(effect.folder), str(size), *(tier.kind.value for tier in effect.tiers)]
        mounts = _mounts(effect.tiers)
        async with self.helpers.opened(effect.image, mounts, _MEASURE, args) as helper:
            code, said = await helper.run()
        if code != 0:
            return Refused("engine_error", said.strip()[-200:])
        counts = []
        for number, times, took in _READ.findall(said):
            if int(took) and int(times):
                speed = (size << 20) * int(times) * 100 // int(took)
                counts.append((effect.tiers[int(number)].name, speed))
        return Done(counts=tuple(counts))


def surveyed(said: str, there: Sequence[TierSpec], faults: Sequence[str]) -> Outcome:
    """Return what a survey of the tiers ``there`` has said, after the ``faults`` of others.

    Files whose names are none of tenure's are left out: they are not its own to remove.
    """
    found = [*faults]
    lines = said.split("\n")
    if BEGIN not in lines or END not in lines:
        told = "the list of a tier's files came back cut: does the engine bound its logs?"
        return Refused("engine_error", told)
    counts = []
    for line in lines:
        word, _, rest = line.partition(" ")
        number, _, rest = rest.partition(" ")
        tier = there[int(number)] if number.isdigit() and int(number) < len(there) else None
        if word == "F" and tier is not None:
            found.append(f"{tier.name} {tier.path} {rest}")
        elif word == "S" and tier is not None:
            size, _, name = rest.partition(" ")
            if size.isdecimal() and _is_sound(name):
                counts.append((f"{tier.name}/{name}", int(size)))
    return Done("\n".join(found), counts=tuple(counts))


def _mounts(tiers: list[TierSpec] | tuple[TierSpec, ...]) -> list[Mount]:
    return [Mount(tier.path, f"{TIERS}/{number}") for number, tier in enumerate(tiers)]


def _sound(name: str) -> str:
    """Return a name within a tier; raise EngineRefused for one that leads out of it."""
    if not _is_sound(name):
        raise EngineRefused(f"{name!r} is no name of a block", code="bad_request")
    return name


def _is_sound(name: str) -> bool:
    parts = name.split("/")
    return _NAME.fullmatch(name) is not None and not {".", ".."} & {*parts}


class BlockPacking:
    """A tar archive of one block, with its checksum behind it; ``is_cut``: the source failed."""

    def __init__(self, name: str, length: int, content: AsyncIterator[bytes]) -> None:
        self._name, self._length, self._content = name, length, content
        self.sha256 = ""
        self.is_cut = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        folders = list(PurePosixPath(self._name).parents)[-2::-1]
        yield b"".join(folder(str(name), 0o755) for name in folders)
        yield header(self._name, self._length, 0o444)
        digest, left = hashlib.sha256(), self._length
        try:
            async for block in self._content:
                left -= len(block)
                if left < 0:
                    break
                digest.update(block)
                yield block
        except EngineError:
            self.is_cut = True
            raise
        if left:
            self.is_cut = True
            raise EngineRefused(
                f"{self._name}: its source is not as long as it was", code="corrupted"
            )
        yield padding(self._length)
        self.sha256 = digest.hexdigest()
        text = self.sha256.encode()
        yield header(f"{self._name}.sum", len(text), 0o444) + text
        yield padding(len(text)) + ENDING
