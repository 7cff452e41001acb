"""The command line of the benchmarks."""

from __future__ import annotations

import sys

from benchmarks import cli

if __name__ == "__main__":
    sys.exit(cli.main())
