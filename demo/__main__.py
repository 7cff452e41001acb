"""The command line of the demo."""

from __future__ import annotations

import sys

from demo.cli import main

if __name__ == "__main__":
    sys.exit(main())
