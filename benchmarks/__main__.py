"""The command line of the benchmarks, and of what is of their kind."""

from __future__ import annotations

import sys

from benchmarks import cli
from benchmarks.forecast import cli as forecast
from benchmarks.reproduction import cli as reproduction
from benchmarks.reproduction import salamander, trident

if __name__ == "__main__":
    for part in (reproduction, trident, salamander, forecast):
        if sys.argv[1:2] == [part.NAME]:
            sys.exit(part.main(sys.argv[2:]))
    sys.exit(cli.main())
