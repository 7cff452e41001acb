"""Show that a test fails for each kept mutation of the code (``make mutants``).

Every ``tests/mutants/*.patch`` begins with the law it breaks and the command that must notice:

    law: L2
    run: python -m tests.fleet --seeds 600
    says: broke L2

``says`` is a text that the command's output must hold, so that a mutant does not count as killed
by an accident. The tree is copied once; each patch is applied there, tried, and taken back.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "mutants"
#: Some tests import these too.
BESIDE = ("benchmarks", "reproductions", "tools")
COPIED = ("tenure", "tests", "testbed", *BESIDE, "pyproject.toml", "setup.cfg")
SKIPPED = shutil.ignore_patterns("__pycache__", ".mypy_cache", ".hypothesis")
#: A mutant that hangs is a mutant that was noticed late; none should need this.
TIMEOUT_S = 240
KILLED, SURVIVED, STALE, ODD = "killed", "SURVIVED", "DOES NOT APPLY", "FAILED OTHERWISE"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One patch with its header."""

    name: str
    path: Path
    law: str
    run: str
    says: str


def read(path: Path) -> Mutant:
    """Return the mutant of a patch file; ValueError without its header."""
    header: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("--- "):
            break
        key, colon, value = line.partition(": ")
        if colon:
            header[key] = value.strip()
    try:
        return Mutant(path.stem, path, header["law"], header["run"], header["says"])
    except KeyError as missing:
        raise ValueError(f"{path.name} has no line {missing} in its header") from None


def apply(mutant: Mutant, tree: Path, *, is_back: bool = False) -> bool:
    """Apply a patch to the copied tree, or take it back."""
    words = ["git", "apply", *(["--reverse"] if is_back else []), str(mutant.path)]
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


def attempt(mutant: Mutant, tree: Path) -> str:
    """Apply, run, take back; return the verdict."""
    if not apply(mutant, tree):
        return STALE
    words = shlex.split(mutant.run)
    if words[0] == "pytest":
        words = ["python", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words[1:]]
    words[0] = sys.executable
    env = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            words,
            cwd=tree,
            env=env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ODD
    finally:
        apply(mutant, tree, is_back=True)
    if done.returncode == 0:
        return SURVIVED
    is_right = mutant.says in done.stdout + done.stderr
    if not is_right:
        print((done.stdout + done.stderr)[-1500:], file=sys.stderr)
    return KILLED if is_right else ODD


def main() -> int:
    """Try all mutants, or those whose names hold a text; 1 unless every one is killed."""
    parser = argparse.ArgumentParser(prog="tools/mutants.py")
    parser.add_argument("only", nargs="?", default="", help="part of the names to try")
    only = parser.parse_args().only
    mutants = [read(path) for path in sorted(PATCHES.glob("*.patch")) if only in path.stem]
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=SKIPPED)
            else:
                shutil.copy(source, tree / name)
        for mutant in mutants:
            begun = time.monotonic()
            verdicts.append(attempt(mutant, tree))
            took_s = time.monotonic() - begun
            line = f"{mutant.law:4} {mutant.name:42} {verdicts[-1]:16} {took_s:6.1f} s"
            print(line, flush=True)
    killed = verdicts.count(KILLED)
    print(f"{killed} of {len(verdicts)} mutants killed")
    return int(killed < len(verdicts) or not verdicts)


if __name__ == "__main__":
    sys.exit(main())
