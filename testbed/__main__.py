"""Start the command line, as `python -m testbed` or by this file's path from anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # By path: the folder above holds the package; this one must not be searched, or its
    # modules would hide the standard library's.
    here = Path(__file__).resolve().parent
    sys.path[:] = [str(here.parent), *(p for p in sys.path if Path(p).resolve() != here)]

from testbed.cli import main

if __name__ == "__main__":
    sys.exit(main())
