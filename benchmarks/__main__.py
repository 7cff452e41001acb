"""The command line of the benchmarks, and of the reproduction, which is of their kind."""

from __future__ import annotations

import sys

from benchmarks import cli
from benchmarks.reproduction import cli as reproduction
from benchmarks.reproduction import trident

if __name__ == "__main__":
    if sys.argv[1:2] == [reproduction.NAME]:
        sys.exit(reproduction.main(sys.argv[2:]))
    if sys.argv[1:2] == [trident.NAME]:
        sys.exit(trident.main(sys.argv[2:]))
    sys.exit(cli.main())
