"""The command line of the studies: `python -m reproductions NAME`."""

from __future__ import annotations

import argparse
import importlib
import sys

#: Each is a folder whose module ``cli`` has ``main(argv)``.
NAMES = ("sla", "salamander", "trident", "forecasts")


def main() -> int:
    """Run a study; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m reproductions", description=__doc__)
    parser.add_argument("name", choices=NAMES, help="see reproductions/README.md")
    options = parser.parse_args(sys.argv[1:2])
    code: int = importlib.import_module(f"reproductions.{options.name}.cli").main(sys.argv[2:])
    return code


if __name__ == "__main__":
    sys.exit(main())
