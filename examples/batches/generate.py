"""Write the input of an example batch beside this file: ``generate.py text|keys MEGABYTES [FILE]``.

The same arguments give the same bytes. ``text`` is lines of words, common ones more often than rare
ones; ``keys`` is lines of sixteen hexadecimal digits.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LINE_WORDS = 12
BLOCK_LINES = 2000
VOCABULARY = 20_000


def text(source: random.Random) -> Iterator[str]:
    """Yield blocks of lines of words, by Zipf's law."""
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 9)))
             for _ in range(VOCABULARY)]  # fmt: skip
    weights = [1 / rank for rank in range(1, VOCABULARY + 1)]
    summed = [weights[0]]
    for weight in weights[1:]:
        summed.append(summed[-1] + weight)
    while True:
        drawn = source.choices(words, cum_weights=summed, k=LINE_WORDS * BLOCK_LINES)
        lines = (drawn[i : i + LINE_WORDS] for i in range(0, len(drawn), LINE_WORDS))
        yield "".join(" ".join(line) + "\n" for line in lines)


def keys(source: random.Random) -> Iterator[str]:
    """Yield blocks of lines of hexadecimal keys."""
    while True:
        block = source.randbytes(8 * BLOCK_LINES).hex()
        yield "".join(block[i : i + 16] + "\n" for i in range(0, len(block), 16))


def write(kind: str, megabytes: float, path: Path) -> None:
    """Write at least so many megabytes of ``text`` or ``keys``, whole lines."""
    blocks = {"text": text, "keys": keys}[kind](random.Random(kind))
    left = int(megabytes * 1_000_000)
    with path.open("w", encoding="ascii") as file:
        while left > 0:
            block = next(blocks)
            file.write(block)
            left -= len(block)


def main(argv: list[str]) -> int:
    """Write the file that the arguments ask for."""
    if len(argv) not in (3, 4) or argv[1] not in ("text", "keys"):
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(argv[3]) if len(argv) == 4 else HERE / f"{argv[1]}.txt"
    write(argv[1], float(argv[2]), path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
