"""Cluster files: Table 2, Table 3, own prices, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.model.errors import InvalidInput
from tenure.model.node import Site
from tenure.model.units import US
from tenure.simulation import Cluster, read_cluster
from tests.simulation.build import EXAMPLES, node, small


def test_table_2() -> None:
    for name, local, cloud in (("small", 1, 2), ("large", 10, 50)):
        cluster = read_cluster(EXAMPLES / f"{name}.yml", "1")
        sizes = [
            (n.kind, n.site.value, n.cpu_m // 1000, n.memory_bytes >> 30) for n in cluster.nodes
        ]
        for kind, cores, gib in (("m1.large", 4, 16), ("m1.xlarge", 8, 32), ("m2.xlarge", 12, 48)):
            assert sizes.count((kind, "local", cores, gib)) == local
            assert sizes.count((kind, "cloud", cores, gib)) == cloud
        assert len(sizes) == 3 * (local + cloud)


@pytest.mark.parametrize(
    ("pricing", "local", "cloud"),
    [("1", 3.6, 14.4), ("2", 3.6, 7.2), ("3", 0, 7.2), ("4", 7.2, 7.2), ("real", 0.12, 0.24)],
)
def test_table_3(pricing: str, local: float, cloud: float) -> None:
    factors = {"m1.large": 1, "m1.xlarge": 2, "m2.xlarge": 3}
    for one in small(pricing).nodes:
        per_h = factors[one.kind] * (local if one.site is Site.LOCAL else cloud)
        assert one.price_nano_per_h == round(per_h * 10**9)


def test_the_files_own_prices_options_and_default(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(
        """
        default_pricing: spot
        types: {big: {cpus: 2.5, memory: 1GiB}}
        pricing: {spot: {big: {local: 0.5, cloud: 0.25}}}
        nodes:
          - {type: big, site: cloud, count: 2, boot_s: 30, min_billing_s: 60}
          - {name: rack, cpus: 1, memory: 512MiB, price_per_hour: 9, always_on: true}
        """
    )
    cluster = read_cluster(path)
    assert (cluster.name, cluster.pricing) == ("mine", "spot")
    assert [n.name for n in cluster.nodes] == ["cloud-big-1", "cloud-big-2", "rack"]
    cloud, rack = cluster.nodes[0], cluster.nodes[2]
    assert (cloud.cpu_m, cloud.boot_us, cloud.min_billing_us) == (2500, 30 * US, 60 * US)
    assert (cloud.price_nano_per_h, rack.price_nano_per_h) == (250_000_000, 9_000_000_000)
    fleet = cluster.fleet()
    assert fleet.is_on.tolist() == [False, False, True]
    assert fleet.boot_us.tolist() == [30 * US, 30 * US, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a mapping"),
        ("nodes: []", "nodes: must not be empty"),
        ("nodes: [{cpus: 1, memory: 1GiB}]", "nodes.0: has no price: state price_per_hour"),
        ("nodes: [{cpus: 1, price_per_hour: 1}]", "nodes.0: needs a type, or cpus and memory"),
        ("nodes: [{type: x, price_per_hour: 1}]", "nodes.0.type: 'x' is not among types"),
        ("nodes: [{cpus: 1, memory: 1GiB, prize: 1}]", "prize: is not a known key"),
        ("nodes: [{cpus: 1, memory: 1GiB, count: 0, price_per_hour: 1}]", "must be at least 1"),
        ("nodes: [{cpus: 1, memory: 1GiB, price_per_hour: -1}]", "must be at least 0"),
        ("nodes: [{cpus: 1, memory: 1GiB, count: 200000, price_per_hour: 1}]", "more than 100000"),
        ("{nodes: [{cpus: 1, memory: 1GiB}], default_pricing: '7'}", "no pricing model '7'; known"),
        (
            "nodes: [{cpus: 1, memory: 1GiB, price_per_hour: 1},"
            " {cpus: 2, memory: 1GiB, price_per_hour: 1}]",
            "nodes.1: node group 0 is called 'local-node' too",
        ),
        ("nodes: [{cpus: 1, memory: 1GiB, price_per_hour: 10001}]", "must be at most 10000"),
        ("nodes: [{cpus: 1, memory: 2PiB, price_per_hour: 1}]", "must be at most"),
        ("nodes: [{cpus: .nan, memory: 1GiB, price_per_hour: 1}]", "nodes.0.cpus"),
        ("nodes: [", "is not YAML"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.yml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        read_cluster(path)
    assert words in caught.value.detail
    assert str(path) in caught.value.detail


def test_order_of_the_file_does_not_matter() -> None:
    a, b = node("a"), node("b")
    assert Cluster.of([b, a]) == Cluster.of([a, b])
    with pytest.raises(InvalidInput, match="two nodes named 'a'"):
        Cluster.of([a, a])
    with pytest.raises(InvalidInput, match="has no node"):
        Cluster.of([])
