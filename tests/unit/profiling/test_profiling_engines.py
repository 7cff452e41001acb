"""The sampler over real engines: load generators of known use are measured as such."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.engines.engine import Engine
from tenure.model.events import UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.profiling.intake.intake import Target
from tenure.profiling.io.sampler import Sampler, SamplerParams, SamplerPorts, Sweep
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from testbed import IMAGE, NodeSpec, Testbed, check, docker_api

pytestmark = pytest.mark.engines

LOADS: dict[str, tuple[list[str], str]] = {
    "burn": (["burn", "0.3"], "default"),
    "hold": (["hold", "64"], "default"),
    "churn": (["churn", "2", "/data/churn"], "default"),
    "chatter": (["chatter", "200"], "default"),
    "host": (["sleep", "600"], "host"),
}


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    if missing := check():
        pytest.skip("; ".join(missing))
    specs = [NodeSpec("node1", "nursery", cpus=1.5), NodeSpec("node2", "young", cpus=0.5)]
    with Testbed(specs) as running:
        yield running


@pytest.fixture
async def engines(bed: Testbed) -> AsyncIterator[dict[str, Engine]]:
    async def save(key: str, content: bytes) -> None:
        raise AssertionError("no logs are kept here")

    made = {name: Engine(node.url, save) for name, node in bed.nodes.items()}
    yield made
    for engine in made.values():
        await engine.close()


def run(bed: Testbed, node: str, name: str) -> str:
    """Start a load and return its engine id."""
    command, network = LOADS[name]
    body = {
        "Image": IMAGE,
        "Cmd": command,
        "HostConfig": {"NetworkMode": network, "Init": True},
        "Volumes": {"/data": {}},
    }
    made = call(bed, node, "POST", f"/containers/create?name={name}-{node}", body)
    call(bed, node, "POST", f"/containers/{made['Id']}/start")
    return str(made["Id"])


def call(
    bed: Testbed, node: str, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    status, answer = docker_api.call(bed.nodes[node].socket, method, path, body)
    assert status < 300, answer
    return dict(json.loads(answer)) if answer else {}


def cpu_ns(bed: Testbed, engine_id: str) -> int:
    """Return the CPU time that the container's cgroup counts, v1 or v2."""
    group = f"{bed.nodes['node1'].cgroup_parent.strip('/')}/{engine_id}"
    one = Path("/sys/fs/cgroup/cpuacct") / group / "cpuacct.usage"
    if one.exists():
        return int(one.read_text())
    two = (Path("/sys/fs/cgroup") / group / "cpu.stat").read_text().split()
    return int(two[two.index("usage_usec") + 1]) * 1000


async def test_known_loads_are_measured(
    bed: Testbed, engines: dict[str, Engine], tmp_path: Path
) -> None:
    ids = {name: run(bed, "node1", name) for name in LOADS}
    stranger = run(bed, "node2", "burn")
    now_us = time.time_ns() // 1000
    targets = {
        "node1": [Target(ids[name], "service", name, name, now_us) for name in LOADS],
        "node2": [Target(stranger, "foreign")],
    }
    seen: list[UsageObserved] = []

    async def stats(node: str, refs: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return await engines[node].stats_once(refs)

    store = await EmbeddedStats.open(tmp_path / "stats.db")
    ports = SamplerPorts(stats, targets.items, seen.append, lambda: time.time_ns() // 1000)
    sampler = Sampler(store, ports, SamplerParams(interval_us=2 * US, min_samples=3))
    outer_begin_ns = cpu_ns(bed, ids["burn"])
    sweeps = [await sampler.sweep()]
    inner_begin_ns = cpu_ns(bed, ids["burn"])
    sweeps += [await _after(2.0, sampler) for _ in range(4)]
    inner_end_ns = cpu_ns(bed, ids["burn"])
    sweeps.append(await sampler.sweep())
    outer_end_ns = cpu_ns(bed, ids["burn"])
    call(bed, "node1", "POST", f"/containers/{ids['burn']}/restart?t=1")
    sweeps.append(await sampler.sweep())
    kept = await store.series("burn", 0, now_us + 3600 * US)
    await store.close()

    assert all(not sweep.failed and not sweep.store_error for sweep in sweeps)
    assert len(kept) == 5  # of seven readings: the first and the one after the restart give none
    made = {profile.container: profile for profile in seen[-2].profiles}
    assert set(made) == set(LOADS)
    # The kernel's own counter, read around the sweeps, brackets what the samples sum to.
    summed_ns = sum(sample.use.cpu_m * sample.span_us for sample in kept)
    rounding_ns = sum(sample.span_us for sample in kept)  # up to a thousandth of a core each
    assert inner_end_ns - inner_begin_ns <= summed_ns
    assert summed_ns <= outer_end_ns - outer_begin_ns + rounding_ns
    assert 0 < made["burn"].p90.cpu_m <= 1500
    assert 60 * MIB <= made["hold"].p90.memory_bytes <= 110 * MIB
    assert 150_000 <= made["chatter"].p90.net_bytes_per_s <= 300_000
    assert "net_bytes_per_s" not in made["host"].observed
    disk = "disk_bytes_per_s"  # a kernel may count none: then it says so
    assert disk not in made["churn"].observed or made["churn"].p90.disk_bytes_per_s > MIB
    assert 0 < seen[-1].foreign["node2"].cpu_m <= 600  # its node has half a core
    assert seen[-1].foreign["node1"] == Resources()


async def _after(seconds: float, sampler: Sampler) -> Sweep:
    await asyncio.sleep(seconds)  # the load itself is what passes here
    return await sampler.sweep()
