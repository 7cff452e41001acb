"""Studies that hold the product against the papers behind it: `python -m reproductions NAME`."""

from pathlib import Path

#: The clone, whose `docs` hold the pages that studies write.
ROOT = Path(__file__).resolve().parents[1]
