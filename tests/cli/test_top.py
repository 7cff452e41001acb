"""``tenure top``: once where nobody looks, over and over at a terminal."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.model.load import Load, Loads, NodeLoad
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.api.server import CONTAINER, Server
from tests.cli.conftest import Tenure
from tests.cli.test_drain_terminal import terminal


@pytest.fixture
def container(server: Server) -> str:
    """A container of n1, which uses a fifth of a core; n2 was not heard of for an hour."""
    found: str = server.post("/v1/containers", CONTAINER).json["id"]
    now_us = server.backend.now_us()
    load = Load(Resources(200, 30 * MIB), now_us, ("cpu_m", "memory_bytes"))
    server.backend.loaded = Loads(
        30 * US,
        {
            "n1": NodeLoad(now_us, Resources(1000, 700 * MIB), {found: load}, unsampled=2),
            "n2": NodeLoad(now_us - 3600 * US, Resources(500, 100 * MIB)),
        },
    )
    return found


def test_it_prints_once_where_nobody_looks(tenure: Tenure, container: str) -> None:
    ran = tenure("top")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0] == "4 nodes: 1 off, 3 ready"
    assert "CPU 1.50 used" in ran.lines[1]
    assert "of 12" in ran.lines[1]
    assert ran.lines[2] == (
        "use is known of 2 of 3 ready nodes; 2 containers without a sample yet; "
        "1 node not heard of for long (a sample comes every 30 s)"
    )
    rows = {line.split()[0]: line.split() for line in ran.lines if line}
    assert rows["n1"][1:5] == ["nursery", "ready", "1.00", "0.25"]
    assert "~125.0" in rows["n1"]
    assert rows["n2"][-1] == "stale"
    assert rows["n4"][3] == "-"  # nobody knows what it uses
    busiest = rows[CONTAINER["name"]]
    assert busiest[1:4] == ["container", "n1", "0.20"]
    assert busiest[7:9] == ["-", "-"]  # disk and network were not observed


def test_what_is_asked_for(tenure: Tenure, container: str) -> None:
    found = tenure("top", "--json", "--sort", "memory", "--nodes", "1").json
    assert [row["name"] for row in found["nodes"]] == ["n1"]
    assert found["containers"][0]["used"]["memory_bytes"] == 30 * MIB
    assert tenure("top", "-q").lines == [container]
    alone = tenure("top", "--once", "--node", "n2", "--containers", "0")
    assert "n1" not in alone.out
    assert alone.lines[0] == "1 node: 1 ready"
    assert "not shown: 3 nodes" in tenure("top", "--nodes", "1").out
    assert tenure("top", "--node", "n9").code == 1
    assert tenure("top", "--sort", "watts").code == 2
    assert tenure("top", "-n", "0").code == 2


def test_before_the_first_sample_it_says_so(tenure: Tenure, server: Server) -> None:
    ran = tenure("top")
    assert "CPU - used" in ran.lines[1]
    assert "use is known of 0 of 3 ready nodes" in ran.out
    assert "BUSIEST" not in ran.out


def test_at_a_terminal_it_goes_on_until_q(server: Server, container: str) -> None:
    with terminal(server, "top", "-n", "0.2") as person:
        person.read_until("0.20")
        person.read_until("q ends")
        load = Load(Resources(3333, 1), server.backend.now_us())
        used = NodeLoad(load.taken_us, load.use, {container: load})
        server.on_loop(setattr, server.backend, "loaded", Loads(30 * US, {"n1": used}))
        person.read_until("3.33")
        person.type("q")
        assert person.end() == 0
        assert "\x1b[?1049l" in person.text  # the screen of before is back


def test_at_a_terminal_keys_sort_and_ctrl_c_ends(server: Server, container: str) -> None:
    with terminal(server, "top", "-n", "30", "--nodes", "1") as person:
        person.read_until("q ends")
        assert "n1" in person.text
        busy = NodeLoad(server.backend.now_us(), Resources(1, 8000 * MIB))
        nodes = {**server.backend.loaded.nodes, "n4": busy}
        server.on_loop(setattr, server.backend, "loaded", Loads(30 * US, nodes))
        person.type("m")
        person.read_until("n4")  # at once, not at the next look
        person.process.send_signal(signal.SIGINT)
        assert person.end() == 0


def test_at_a_terminal_a_daemon_that_goes_is_told_of(folder: Path) -> None:
    with ExitStack() as until_gone:
        gone = Server(folder)
        until_gone.callback(gone.close)
        with terminal(gone, "top", "-n", "0.2") as person:
            person.read_until("q ends")
            until_gone.close()
            person.read_until("not up to date")
            person.type("q")
            assert person.end() == 0


def test_what_ends_it_at_once_is_an_error_not_a_screen(server: Server) -> None:
    with terminal(server, "top", "--node", "n9") as person:
        assert person.end() == 1
        assert "no node 'n9'" in person.text
        assert "\x1b[?1049h" not in person.text


@pytest.mark.parametrize("sort", ["cpu", "net"])
def test_a_narrow_screen_has_fewer_columns_and_cuts_no_figure(
    server: Server, container: str, sort: str
) -> None:
    with terminal(server, "top", "-n", "30", "--sort", sort, columns=60) as person:
        person.read_until("by name")
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", person.text)
        person.type("q")
        assert person.end() == 0
    assert "…" not in plain
    rows = [line.split() for line in plain.splitlines()]
    heads = [words for words in rows if {"NODE", "BUSIEST"} & set(words[:1])]
    assert heads[0][:2] == ["NODE", "STATE"]
    assert "GENERATION" not in heads[0]
    assert ("NET/S" in heads[1]) or sort == "cpu", "what they are sorted by is shown"
    assert ["n1", "ready", "1.00"] in [words[:3] for words in rows]


def test_a_table_is_whole_at_a_terminal_that_is_narrower(server: Server) -> None:
    with terminal(server, "node", "ls", columns=30) as person:
        assert person.end() == 0
    lines = person.text.splitlines()
    assert all(name in lines[0] for name in ("NAME", "GENERATION", "CONTAINERS", "REASON"))
    assert any(line.startswith("n1 ") and "nursery" in line for line in lines)
    assert "…" not in person.text
    assert not [line for line in lines if line.endswith(" ")], "padding would be empty lines"
