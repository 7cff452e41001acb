"""The worker process: RQ jobs that plan cycles over the daemon's REST API.

As a child of ``tenured run`` it reads its order from standard input, so that neither the token nor
the password of Redis shows in the list of processes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import replace

from tenure.client.client import Client
from tenure.client.gateway import PATIENCE_S, Gateway
from tenure.client.target import discover
from tenure.config.certificates import client_context
from tenure.cycles.io.jobs import use_runner
from tenure.cycles.io.tether import tie_to_parent
from tenure.cycles.io.worker import run_worker
from tenure.cycles.snapshot import Snapshot


def _forecast(daemon: Gateway, snapshot: Snapshot, run_id: str) -> dict[str, int]:
    """Make the forecasts of a run; what fits models is loaded by the first one."""
    from tenure.harvest.io.cycle import forecast_fleet

    names = [node.name for node in snapshot.nodes]
    return forecast_fleet(
        daemon, names, run_id=run_id, now_us=snapshot.now_us, options=snapshot.forecast
    )


def work(redis_url: str, host: str, token: str) -> int:
    """Take cycles until SIGTERM; returns the exit code."""
    use_runner("forecast", _forecast)
    target = replace(discover(host, env=os.environ, make_context=client_context), token=token)
    return run_worker(redis_url, lambda: Gateway(Client(target, patience_s=PATIENCE_S)))


def main() -> int:
    """Run as the daemon's child."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    order = json.load(sys.stdin)
    tie_to_parent(int(order["parent"]))
    return work(order["redis_url"], order["host"], order["token"])


if __name__ == "__main__":
    sys.exit(main())
