"""A child of the daemon that answers ``echo`` alone, and stands still at all else.

    python -m tests.unit.daemon.children.odd_child PID-OF-THE-DAEMON

``helper FILE`` has it start a process first that keeps its pipes; its pid is written to the file.
"""

import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    for line in sys.stdin:
        word, *rest = line.split()
        if rest:
            Path(rest[0]).write_text(str(subprocess.Popen(["sleep", "300"]).pid))
        if word != "echo":
            time.sleep(600)
        print("echo", flush=True)
