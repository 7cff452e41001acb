"""A child that compiles nothing and notes when it was at work: ``python -m ... FILE BUNDLE``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

if __name__ == "__main__":
    for word in ("begins", "ends"):
        with Path(sys.argv[1]).open("a") as file:
            file.write(f"{sys.argv[2]} {word}\n")
        time.sleep(0.1)
