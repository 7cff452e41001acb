"""SIGHUP has a running daemon take over who may do what, without a restart."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tenure.client.client import Client
from tenure.client.target import Target
from tenure.model.errors import TenureError
from testbed.daemon import DaemonProcess

WAIT_S = 30.0
BODY = {"Image": "app:1", "HostConfig": {"Binds": ["/srv/a:/a"]}}


class Reloaded:
    """A daemon whose file is written anew, and a submitter's client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "tenured.yml"
        self.write()
        argv = [sys.executable, "-m", "tenure.cli.daemon", "run", "--config", str(self._file)]
        self.process = DaemonProcess(argv, folder / "state", folder / "log")

    def write(self, **more: Any) -> None:
        """Write the configuration, and have it read where the daemon runs."""
        node = {"name": "n", "url": f"unix://{self._folder}/away.sock", "generation": "nursery"}
        base = {
            "state_dir": str(self._folder / "state"),
            "nodes": [node],
            "listen": [f"unix://{self._folder}/t.sock"],
            "redis": {"url": "redis://[::1]:9"},
        }
        self._file.write_text(json.dumps(base | more))

    def reload(self, **more: Any) -> None:
        self.write(**more)
        self.process.signal(signal.SIGHUP)

    def client(self, token: str = "") -> Client:
        return Client(Target(str(self._folder / "t.sock"), token=token))

    def told(self, client: Client, code: str) -> None:
        """Wait until a submission is refused with this code."""
        deadline, found = time.monotonic() + WAIT_S, ""
        while found != code:
            assert time.monotonic() < deadline, f"{found}:\n{self.process.tail()}"
            with pytest.raises(TenureError) as refused:
                client.create_container({**BODY, "name": "web"})
            found = refused.value.code
            time.sleep(0.05)


def test_policies_and_quotas_are_taken_over_and_a_faulty_file_is_not(tmp_path: Path) -> None:
    reloaded = Reloaded(tmp_path)
    reloaded.process.start()
    try:
        made = reloaded.client().make_token("ann", "submit")
        ann = reloaded.client(made["token"])
        reloaded.told(ann, "not_permitted")
        may = {"policy": {"submit": {"binds": ["/srv/a"]}}}
        reloaded.reload(**may)
        reloaded.told(ann, "unknown_image")
        reloaded.reload(namespaces={"default": {"policy": {"binds": []}}}, **may)
        reloaded.told(ann, "not_permitted")
        reloaded.reload(namespaces={"default": {"containers": -1}}, **may)
        log = reloaded.process.log
        deadline = time.monotonic() + WAIT_S
        while "the configuration was not taken over" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        reloaded.told(ann, "not_permitted")
        acts = [row for row in reloaded.client().audit() if row["act"]]
        assert acts[0]["act"] == "daemon.started"
        assert [a["who"] for a in acts if a["subject"] == "n"] == ["configuration"]
        told = [a["detail"]["faults"] for a in acts if a["act"] == "configuration.reloaded"]
        assert told == [[], [], ["the configuration is faulty"]]
    finally:
        assert reloaded.process.stop() == 0, reloaded.process.tail()
