"""Run seeds: ``python -m tests.fleet --seed N -v``, or ``--seeds N`` with progress."""

import sys

from tests.fleet.seeds import main

if __name__ == "__main__":
    sys.exit(main())
