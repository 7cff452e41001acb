"""The parts that need no socket: sizes, pages, reservations, words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.api.handlers.logs import last_lines
from tenure.api.requests.body import MAX_DEPTH, faults, is_sound
from tenure.api.requests.pages import Listing, select
from tenure.api.requests.slices import Turns
from tenure.api.schemas.containers import reservation
from tenure.api.schemas.fields import memory_bytes
from tenure.api.schemas.queries import PageQuery
from tenure.model.resources import Resources
from tenure.placement.constraints import parse
from tests.api.server import options


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("256MiB", 256 << 20),
        ("1.5GiB", 3 << 29),
        ("1g", 1 << 30),
        ("512 kib", 512 << 10),
        ("2GB", 2 * 10**9),
        ("10000000", 10**7),
        ("10000000b", 10**7),
    ],
)
def test_memory(text: str, count: int) -> None:
    assert memory_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "MiB", "1 1", "-1", "1e9", "1.MiB", "0x10", "1 MiBs", "\u0661"]
)
def test_memory_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be bytes"):
        memory_bytes(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, Resources()),
        ({"NanoCpus": 1_500_000_000}, Resources(cpu_m=1500)),
        ({"CpuQuota": 50_000}, Resources(cpu_m=500)),
        ({"CpuQuota": 50_000, "CpuPeriod": 200_000}, Resources(cpu_m=250)),
        ({"CpuQuota": -1}, Resources()),
        ({"Memory": 100}, Resources(memory_bytes=100)),
        ({"Memory": 100, "MemoryReservation": 40}, Resources(memory_bytes=40)),
    ],
)
def test_reservation(host: dict[str, Any], expected: Resources) -> None:
    assert reservation({"HostConfig": host}) == expected
    assert reservation({"HostConfig": None}) == Resources()


@given(
    rows=st.sets(st.tuples(st.integers(0, 50), st.text("ab", max_size=3))),
    limit=st.integers(1, 7),
    is_newest_first=st.booleans(),
)
async def test_pages_show_every_row_once(
    rows: set[tuple[int, str]], limit: int, is_newest_first: bool
) -> None:
    found: list[tuple[int, str]] = []
    cursor = None
    while True:
        query = PageQuery(limit=limit, cursor=cursor)
        listing: Listing[tuple[int, str]] = Listing(
            lambda row: row, lambda row: row, is_newest_first=is_newest_first
        )
        part, cursor = await select(Turns(), rows, query, listing)
        assert len(part) <= limit
        found += part
        if cursor is None:
            break
    assert found == sorted(rows, reverse=is_newest_first)


@pytest.mark.parametrize("text", ["site==local", "label.a!=b", "rack in (a, b)"])
def test_constraints_are_shown_as_written(text: str) -> None:
    assert str(parse(text)) == text


def test_last_lines() -> None:
    assert last_lines(b"a\nb\nc", 2) == b"b\nc"
    assert last_lines(b"a\n", 5) == b"a\n"
    assert last_lines(b"", 1) == b""
    assert last_lines(b"a\nb\n", None) == b"a\nb\n"


@pytest.mark.parametrize(
    "change",
    [{"heartbeat_s": 0}, {"max_body_bytes": 0}],
)
def test_options_are_checked(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        options(**change)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from((2**63, -(2**63), 2**63 - 1, 1e308, float("inf"), float("nan")))
    | st.sampled_from(("a", "\0", "ä", "\ud800", "\udfff", "\ue000", ""))
)
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("k", "\0", "ä", "\ud800")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_DOCUMENTS, st.integers(MAX_DEPTH - 3, MAX_DEPTH + 1))
def test_a_document_is_sound_where_no_fault_is_found(document: Any, depth: int) -> None:
    assert is_sound(document, depth) == (not list(faults(document, "", depth)))
