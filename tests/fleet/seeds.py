"""Run seeds of the fleet simulator: ``python -m tests.fleet --seed N [-v]``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from tenure.placement.policies import Policies
from tests.fleet.restored import RestoredWorld
from tests.fleet.story import LawBroken
from tests.fleet.world import Report, World

TAIL_LINES = 60
#: Seeds handed to a process at a time: small enough for a smooth progress line.
CHUNK = 50


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed that broke a law, with the end of its story."""

    seed: int
    law: str
    text: str
    tail: str

    def __str__(self) -> str:
        replay = f"python -m tests.fleet --seed {self.seed} -v"
        return f"{self.tail}\nseed {self.seed} broke {self.law}: {self.text}\nreplay: {replay}"


def run_seed(
    seed: int,
    *,
    is_loud: bool = False,
    placer: Policies | None = None,
    world: type[World] = World,
) -> Report:
    """Run one seed; raises LawBroken, or what the core raised."""
    return world(seed, placer or Policies(), is_loud=is_loud).run()


def try_seed(
    seed: int, *, placer: Policies | None = None, world: type[World] = World
) -> Report | Failure:
    """Run one seed; a broken law or a crash of the core comes back as a failure."""
    made = world(seed, placer or Policies())
    try:
        return made.run()
    except LawBroken as broken:
        return Failure(seed, broken.law, broken.text, made.story.tail(TAIL_LINES))
    except Exception as error:  # noqa: BLE001 - any crash of the core is a finding
        place = traceback.format_exc(limit=-6)
        return Failure(seed, type(error).__name__, place, made.story.tail(TAIL_LINES))


def _try_all(seeds: range, world: type[World]) -> list[Report | Failure]:
    placer = Policies()
    return [try_seed(seed, placer=placer, world=world) for seed in seeds]


def run_seeds(
    seeds: range, *, jobs: int = 1, world: type[World] = World
) -> Iterator[Report | Failure]:
    """Run many seeds, in order, on ``jobs`` processes."""
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from _try_all(chunk, world)
        return
    with get_context("spawn").Pool(jobs) as pool:
        for results in pool.imap(partial(_try_all, world=world), chunks):
            yield from results


def main(argv: list[str] | None = None) -> int:
    """Run one seed loudly, or many with progress; 1 if any broke a law."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--seeds", type=int, default=2000, help="run this many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most", type=int, default=1, help="stop after this many failures")
    parser.add_argument("--restore", action="store_true", help="restore a backup amid each run")
    parser.add_argument("-v", action="store_true", help="tell the whole story")
    args = parser.parse_args(argv)
    world = RestoredWorld if args.restore else World
    if args.seed is not None:
        return _run_one(args.seed, world, is_loud=args.v)
    seeds = range(args.start, args.start + args.seeds)
    return _run_many(run_seeds(seeds, jobs=args.jobs, world=world), len(seeds), args.most)


def _run_one(seed: int, world: type[World], *, is_loud: bool) -> int:
    if is_loud:
        try:
            run_seed(seed, is_loud=True, world=world)
        except LawBroken as broken:
            print(f"seed {seed} broke {broken}")
            return 1
        return 0
    result = try_seed(seed, world=world)
    print(result)
    return int(isinstance(result, Failure))


def _run_many(results: Iterator[Report | Failure], seeds: int, most: int) -> int:
    begun = time.monotonic()
    struck: Counter[str] = Counter()
    failures: list[Failure] = []
    for count, result in enumerate(results, start=1):
        if isinstance(result, Failure):
            failures.append(result)
            print(result, flush=True)
            if len(failures) >= most:
                break
        else:
            struck.update(result.struck)
        if count % 1000 == 0:
            rate = count / (time.monotonic() - begun)
            print(f"{count}/{seeds} seeds, {rate:.0f}/s", file=sys.stderr, flush=True)
    print(f"{len(failures)} failures; struck: {dict(sorted(struck.items()))}")
    print(f"{time.monotonic() - begun:.1f} s")
    return int(bool(failures))
