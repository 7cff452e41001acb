"""Energy over REST: sums, labels, windows, cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.api.views.reports import energy_view
from tenure.daemon.answers import energy
from tenure.model.energy import TASKS, EnergyReport, Metered, NodeEnergy, Share, Use
from tenure.model.units import US
from tests.api.server import BATCH, Server

KWH_UJ = 3.6e12


def at(us: int) -> str:
    return datetime.fromtimestamp(us / US, UTC).isoformat().replace("+00:00", "Z")


def ask(server: Server, since_us: int, until_us: int) -> dict[str, Any]:
    answer = server.get(f"/v1/energy?since={at(since_us)}&until={at(until_us)}")
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found


def used(server: Server, span_us: int = 10_000) -> tuple[int, int]:
    """Have a container of n1 use one of its four cores for a while; return that while."""
    body = {"name": "web", "Image": "web:1", "tenure": {"generation": "nursery"}}
    assert server.post("/v1/containers", body).status == 201
    (service,) = server.backend.tables.services.values()
    assert service.node == "n1"
    begin = server.backend.now_us()
    while server.backend.now_us() < begin + span_us:
        pass  # the report ends now: the time has to come first
    use = Use("n1", service.id, begin, begin + span_us, span_us, 500 * span_us)
    server.backend.used.append(use)
    return begin, begin + span_us


def test_sums_and_labels(server: Server) -> None:
    since, until = used(server)
    span = until - since
    found = ask(server, since, until)
    total = found["total"]["energy_uj"]
    parts = ("containers", "foreign", "idle", "boot", "off")
    assert sum(found[part]["energy_uj"] for part in parts) == total > 0
    for key in ("by_node", "by_generation"):
        assert sum(amount["energy_uj"] for amount in found[key].values()) == total
    n1 = found["by_node"]["n1"]
    assert (n1["energy_uj"], n1["containers_uj"]) == (125 * span, 125 * span)
    assert (n1["source"], n1["mean_w"], n1["on_s"]) == ("modelled", 125, span / US)
    assert found["by_node"]["n2"]["idle_uj"] == 50 * span
    assert found["by_node"]["n3"]["off_uj"] == 5 * span
    assert found["unknown_nodes"] == ["n4"]
    assert found["by_node"]["n4"]["source"] == "unknown"
    (web,) = found["by_container"].values()
    assert (web["name"], web["kind"], web["source"]) == ("web", "container", "modelled")
    assert (web["active_uj"], web["idle_uj"]) == (25 * span, 100 * span)
    assert web["by_node"] == {"n1": 125 * span}
    assert found["price_usd_per_kwh"] == 0.3
    assert found["total"]["cost_usd"] == pytest.approx(0.3 * total / KWH_UJ)


def test_tasks_of_batches_have_the_name_of_their_batch(server: Server) -> None:
    batch = server.post("/v1/batches", BATCH).json["id"]
    since, until = used(server)
    server.backend.used.append(Use("n1", f"{batch}/0", since, until, until - since, 0))
    task = ask(server, since, until)["by_container"][f"{batch}/0"]
    assert (task["kind"], task["name"]) == ("task", f"{BATCH['name']}/0")
    assert task["active_uj"] > 0


def test_what_tasks_used_beside_their_samples_is_told_as_theirs(server: Server) -> None:
    since, until = used(server)
    server.backend.used.append(Use("n1", TASKS, since, until, until - since, 0))
    found = ask(server, since, until)
    row = found["by_container"][TASKS]
    assert (row["kind"], row["name"]) == ("tasks", "tasks that were not sampled")
    assert (row["active_uj"], row["idle_uj"]) == (25 * (until - since), 0)
    parts = ("containers", "foreign", "idle", "boot", "off")
    assert sum(found[part]["energy_uj"] for part in parts) == found["total"]["energy_uj"]


def test_it_is_the_same_however_many_nodes_are_read_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    since, until = used(server)
    server.backend.metered.append(Metered("n2", since, until, 7_000_000))
    whole = ask(server, since, until)
    for count in (1, 3):
        monkeypatch.setattr(energy, "NODES_AT_ONCE", count)
        assert ask(server, since, until) == whole


def test_windows_add_up(server: Server) -> None:
    since, until = used(server)
    middle = (since + until) // 2
    whole = ask(server, since, until)["total"]["energy_uj"]
    halves = [
        ask(server, *half)["total"]["energy_uj"] for half in ((since, middle), (middle, until))
    ]
    assert abs(sum(halves) - whole) <= 10


def test_measured_energy_is_the_sum(server: Server) -> None:
    since, until = used(server)
    server.backend.metered.append(Metered("n1", since, until, 7_000_000))
    node = ask(server, since, until)["by_node"]["n1"]
    assert (node["source"], node["energy_uj"]) == ("measured", 7_000_000)
    assert node["measured_uj"] == 7_000_000
    assert ask(server, since, until)["source"] == "mixed"


def test_nothing_is_told_of_the_future_or_of_before(server: Server) -> None:
    assert server.get("/v1/energy?since=2090-01-01T00:00:00Z&until=2091-01-01T00:00:00Z").json[
        "total"
    ] == {"energy_kwh": 0.0, "energy_uj": 0, "cost_usd": 0.0}
    before = server.get("/v1/energy?since=2001-01-01T00:00:00Z&until=2002-01-01T00:00:00Z").json
    assert (before["total"]["energy_uj"], before["by_node"]) == (0, {})


def test_the_last_day_is_the_default(server: Server) -> None:
    found = server.get("/v1/energy").json
    begin, end = (datetime.fromisoformat(found[key]) for key in ("since", "until"))
    assert (end - begin).total_seconds() == 86_400
    on_s = found["by_node"]["n1"]["on_s"]
    assert 0 < on_s < 60, "a node counts from when it was first known"


def test_what_is_long_is_summed_and_ordered_before_it_is_sent() -> None:
    """Sums of a large fleet take tenths of a second: not of the loop that sends them."""

    class Shares(dict[str, Share]):
        reads = 0

        def items(self) -> Any:
            Shares.reads += 1
            return super().items()

    nodes = [
        NodeEnergy("n1", Shares(a=Share(1, 2), b=Share(3, 4)), on_us=1),
        NodeEnergy("n2", Shares(c=Share(4, 1), b=Share(0, 1)), on_us=1),
    ]
    view = energy_view(EnergyReport(0, 1, nodes, {}))
    before = Shares.reads
    found = dict(view["by_container"].members)
    assert Shares.reads == before > 0
    assert list(found) == ["b", "c", "a"]
    assert found["b"]["by_node"] == {"n1": 7, "n2": 1}
    assert (found["b"]["active_uj"], found["b"]["idle_uj"], found["b"]["energy_uj"]) == (3, 5, 8)
