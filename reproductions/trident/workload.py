"""What arrives: the Facebook day scaled to the paper's cluster, and a HiBench-like mix."""

from __future__ import annotations

import csv
import gzip
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reproductions.trident.cluster import GB, MB
from tenure.model.errors import InvalidInput

SIZES, PATHS = "fb2009_0.csv.gz", "fb2010_paths_0.csv.gz"
JOBS, SPAN_S, INPUT_BYTES, OUTPUT_BYTES = 1000, 6 * 3600.0, 92 * GB, 47 * GB
#: Files that exist, and files that jobs write for others: how many, of them read once and more than
#: five times, and by how many jobs in all (section 7.1).
EXISTING_BYTES, DRAWS = 32 * GB, 300
EXISTING, GENERATED = (380, 0.768, 0.045, 660), (63, 0.524, 0.254, 340)
#: Table 2: share of jobs and least and most data size of each bin.
BINS: dict[str, tuple[float, float, float]] = {
    "A": (0.744, 1 * MB, 128 * MB),
    "B": (0.162, 128 * MB, 512 * MB),
    "C": (0.040, 512 * MB, 1024 * MB),
    "D": (0.030, 1024 * MB, 2048 * MB),
    "E": (0.016, 2048 * MB, 5120 * MB),
    "F": (0.008, 5120 * MB, 10240 * MB),
}
#: Seconds of CPU a byte: 1 s for 64 MB, as in Figure 8.
CPU_S = 1 / (64 * MB)
#: Table 3: what dominates each application: seconds of CPU in units of CPU_S, share of the input
#: that is shuffled, passes over the input. Numbers are ours; the table only has marks.
HIBENCH: dict[str, tuple[float, float, int]] = {
    "TeraSort": (0.3, 1.0, 1),
    "WordCount": (2.0, 0.05, 1),
    "Aggregation": (0.3, 0.05, 1),
    "Join": (2.0, 0.1, 1),
    "Bayes": (2.0, 0.5, 2),
    "K-means": (1.0, 0.02, 3),
    "PageRank": (2.0, 0.5, 2),
    "NutchIndex": (0.5, 1.0, 1),
}
SCALES: dict[str, int] = {"small": 200 * MB, "large": 1500 * MB, "huge": 10_000 * MB}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job: when it comes, which file it reads, what it shuffles and writes, and its bin or app.

    ``is_generated``: the file is there no sooner than the first job that reads it. ``is_serial``:
    it is submitted when the job before it ended (HiBench runs one at a time).
    """

    name: str
    group: str
    at_s: float
    file: str
    input_bytes: int
    shuffle_bytes: int
    output_bytes: int
    cpu_s_per_byte: float = CPU_S
    is_serial: bool = False
    is_generated: bool = False


def facebook(folder: Path, seed: int, jobs: int = JOBS, *, draws: int = DRAWS) -> list[JobSpec]:
    """Return the Facebook workload scaled as section 7.1 describes it.

    Arrivals are those of a run of jobs of the 2009 day, stretched to six hours. A job's rank by
    bytes decides its bin by Table 2's shares and its size within it; input and output are the same
    part of it everywhere, so that they add up to 92 and 47 GB (the bins' sizes add up to more than
    twice that, so they must count the shuffle too). How many jobs read a file is section 7.1's, its
    tail that of the paths of the 2010 day. Jobs of neighbouring sizes share a file. Of ``draws``
    ways to share, that whose existing files are nearest to the paper's 32 GB is taken.
    """
    drawn = random.Random(seed)
    rows = _rows(folder / SIZES)
    begun = drawn.randrange(len(rows) - jobs + 1)
    chosen = rows[begun : begun + jobs]
    first, last = float(chosen[0]["submit_s"]), float(chosen[-1]["submit_s"])
    stretch = SPAN_S * (jobs / JOBS) / max(last - first, 1.0)
    order = sorted(range(jobs), key=lambda i: (_bytes(chosen[i]), i))
    sizes, bins = _sizes(jobs)
    files = dict(zip(order, _files(folder / PATHS, sizes, drawn, draws), strict=True))
    of_file: dict[str, float] = {}
    for i, size in zip(order, sizes, strict=True):
        of_file.setdefault(files[i], size)
    whole = sum(of_file[file] for file in files.values())
    read, written = (total * (jobs / JOBS) / whole for total in (INPUT_BYTES, OUTPUT_BYTES))
    found: dict[int, JobSpec] = {}
    for i, group in zip(order, bins, strict=True):
        shared = of_file[files[i]]
        has_shuffle = float(chosen[i]["shuffle_bytes"]) > 0
        found[i] = JobSpec(
            f"j{i}",
            group,
            (float(chosen[i]["submit_s"]) - first) * stretch,
            files[i],
            max(1, int(shared * read)),
            int(shared * (1 - read - written)) if has_shuffle else 0,
            int(shared * written),
            is_generated=files[i].startswith("g"),
        )
    return [found[i] for i in range(jobs)]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(path, "rt", newline="") as lines:
            return list(csv.DictReader(lines))
    except (OSError, EOFError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from None


def _bytes(row: dict[str, str]) -> float:
    return sum(float(row[k]) for k in ("map_input_bytes", "shuffle_bytes", "reduce_output_bytes"))


def _sizes(jobs: int) -> tuple[list[float], list[str]]:
    """Return the data size and the bin of each rank, smallest first."""
    sizes: list[float] = []
    bins: list[str] = []
    for name, (share, least, most) in BINS.items():
        count = round(share * jobs) if name != "F" else jobs - len(sizes)
        for k in range(count):
            part = (k + 0.5) / count
            sizes.append(math.exp(math.log(least) + part * (math.log(most) - math.log(least))))
            bins.append(name)
    return sizes[:jobs], bins[:jobs]


def _files(path: Path, sizes: Sequence[float], drawn: random.Random, draws: int) -> list[str]:
    """Return the file that the job of each rank reads: neighbours in size share one.

    Of many draws the one whose existing files are nearest to section 7.1's part of all input.
    """
    counts = list(Counter(row["input_path"] for row in _rows(path)).values())
    groups = [
        (f"{kind}{k}", readers)
        for kind, shape in (("f", EXISTING), ("g", GENERATED))
        for k, readers in enumerate(_readers(shape, counts, drawn))
    ]
    best: list[str] = []
    error = math.inf
    for _ in range(draws):
        drawn.shuffle(groups)
        every = [name for name, readers in groups for _ in range(readers)]
        files = [every[at * len(every) // len(sizes)] for at in range(len(sizes))]
        first: dict[str, float] = {}
        read = sum(first.setdefault(file, size) for file, size in zip(files, sizes, strict=True))
        existing = sum(size for file, size in first.items() if file.startswith("f"))
        if abs(existing / read - EXISTING_BYTES / INPUT_BYTES) < error:
            best, error = files, abs(existing / read - EXISTING_BYTES / INPUT_BYTES)
    return best


def _readers(
    shape: tuple[int, float, float, int], popular: Sequence[int], drawn: random.Random
) -> list[int]:
    """Return how many jobs read each file, by section 7.1's shares and the trace's tail."""
    files, once, often, total = shape
    few = [count for count in popular if 1 < count <= 5]
    many = [min(count, 40) for count in popular if count > 5]
    found = [1] * round(once * files)
    tail = round(often * files)
    found += [drawn.choice(few) for _ in range(files - len(found) - tail)]
    left = total - sum(found)
    weights = [drawn.choice(many) for _ in range(tail)]
    for k in range(tail):
        found.append(max(6, round(left * weights[k] / sum(weights[k:]))))
        left -= found[-1]
    return found


def hibench(scale: str) -> list[JobSpec]:
    """Return the eight applications of Table 3 at one scale, one after another."""
    found = []
    for app, (cpu, shuffled, passes) in HIBENCH.items():
        size = SCALES[scale]
        for k in range(passes):
            last = k == passes - 1
            output = size // 10 if last else 0
            row = (f"{app}-{k}", app, 0.0, app, size, int(size * shuffled), output, cpu * CPU_S)
            found.append(JobSpec(*row, is_serial=True, is_generated=True))
    return found
