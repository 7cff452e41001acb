"""A bit that flips on the disk is found, and the row that it hit is named."""

import json
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.store import schema
from tenure.store.connection import connect_writer, create_private
from tenure.store.contents import inspect
from tenure.store.errors import StoreDamaged, StoreError
from tenure.store.store import Store
from tenure.store.sums import sum_of

FLIPS = 300


@dataclass(frozen=True)
class Thing:
    number: int
    text: str = ""


@dataclass(frozen=True)
class Told:
    seq: int
    at_us: int
    type: str
    subject: str
    data: dict[str, Any]


KINDS = {"things": Thing}


def filled(path: Path) -> Path:
    """Return a closed database of some rows of each table."""
    store = Store.open(path, KINDS)
    store.commit({"things": {f"t{i}": Thing(11111, f"text {i}") for i in range(20)}})
    store.commit({"things": {"t3": Thing(22222, "again")}}, [Told(1, 5, "a.b", "s", {"x": 33333})])
    store.save_logs([("log-1", b"line 44444\n")], 7)
    store.save_logs([("log-1", b"line 44444\nmore\n")], 8)
    store.close()
    inspect(path, KINDS)
    return path


def flip(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of the file, all of which are there once."""
    raw = path.read_bytes()
    assert raw.count(old) == 1
    path.write_bytes(raw.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'22222,"text":"again"', b'22232,"text":"again"', "1 records of .*: things t3"),
        (b'"text":"text 7"', b'"text":"text\x007"', "1 records of .*: things t7"),
        (b"text 12", b"text \xff2", "1 records of .*: things t12"),
        (b"33333", b"33332", "1 events of .*: 1"),
        (b"line 44444\nmore", b"line 44454\nmore", "1 logs of .*: log-1"),
    ],
)
def test_a_flipped_bit_is_found_and_its_row_is_named(
    tmp_path: Path, old: bytes, new: bytes, told: str
) -> None:
    path = filled(tmp_path / "state.db")
    flip(path, old, new)
    with pytest.raises(StoreDamaged, match=told):
        inspect(path, KINDS)
    if "things" in told:
        with pytest.raises(StoreDamaged, match=told), closing(Store.open(path, KINDS)) as store:
            store.load()


def _contents(path: Path) -> Any:
    found = inspect(path, KINDS)
    with closing(Store.open(path, KINDS)) as store:
        rows = store.load(), store.events_after(0, 10), store.read_log("log-1")
    return found.counts, found.records, rows


def test_no_flipped_bit_changes_anything_in_silence(tmp_path: Path) -> None:
    """Anywhere in the file: the start is refused, or all that was written is there."""
    whole = filled(tmp_path / "state.db")
    expected, raw = _contents(whole), whole.read_bytes()
    dice, found = random.Random(7), 0
    for number in range(FLIPS):
        place, bit = dice.randrange(len(raw)), dice.randrange(8)
        path = tmp_path / f"{number}" / "state.db"
        path.parent.mkdir()
        path.write_bytes(raw[:place] + bytes([raw[place] ^ (1 << bit)]) + raw[place + 1 :])
        try:
            assert _contents(path) == expected, (place, bit)
        except StoreError:
            found += 1
        shutil.rmtree(path.parent)
    assert found > 10


def test_rows_from_before_there_were_sums_get_them(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    create_private(path)
    with closing(connect_writer(path)) as db:
        schema.migrate(db, schema.STEPS[:2])
        body = json.dumps({"number": 5, "text": "ä"})
        db.execute("INSERT INTO records (kind, key, v, body) VALUES ('things', 'a', 1, ?)", (body,))
        db.execute("INSERT INTO events VALUES (1, 2, 'a.b', 's', '{\"x\": 1}')")
        db.execute("INSERT INTO logs VALUES ('l', 3, x'00ff')")
    assert inspect(path, KINDS).schema == 2  # read as it is, without sums
    with closing(Store.open(path, KINDS)) as store:
        assert store.load() == {"things": {"a": Thing(5, "ä")}}
    assert inspect(path, KINDS).schema == len(schema.STEPS)
    flip(path, b'"number": 5', b'"number": 4')
    with pytest.raises(StoreDamaged, match="things a"):
        inspect(path, KINDS)


def test_kinds_that_were_renamed_are_read_before_and_after_the_step(tmp_path: Path) -> None:
    path, kinds = tmp_path / "state.db", {"tombstones": Thing, "reservations": Thing}
    create_private(path)
    with closing(connect_writer(path)) as db:
        schema.migrate(db, schema.STEPS[:2])
        for kind in schema.RENAMED:
            db.execute(
                "INSERT INTO records (kind, key, v, body) VALUES (?, 'a', 1, ?)",
                (kind, json.dumps({"number": 5, "text": kind})),
            )
    told = {new: {"a": Thing(5, old)} for old, new in schema.RENAMED.items()}
    assert inspect(path, kinds).records == told
    with closing(Store.open(path, kinds)) as store:
        assert store.load() == told
    assert inspect(path, kinds).records == told


def test_damage_is_found_before_a_later_schema_sums_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path / "state.db")
    flip(path, b"33333", b"33332")
    later = ("UPDATE events SET crc = tenure_crc(seq, at_us, type, subject, body)",)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, later))
    with pytest.raises(StoreDamaged, match="1 events"):
        Store.open(path, KINDS)


def test_many_damaged_rows_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "state.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE records SET crc = crc + 1")
        db.commit()
    with pytest.raises(StoreDamaged, match=r"20 records .* and 10 more\.") as refused:
        inspect(path, KINDS)
    assert "tenured restore FILE" in refused.value.detail


@given(st.lists(st.text(max_size=3) | st.integers()), st.lists(st.text(max_size=3) | st.integers()))
def test_columns_do_not_run_into_each_other(one: list[Any], other: list[Any]) -> None:
    if [str(value) for value in one] != [str(value) for value in other]:
        assert sum_of(*one) != sum_of(*other)
    assert sum_of(*one) == sum_of(*(str(value).encode() for value in one))


def test_the_database_sums_as_we_do() -> None:
    from tenure.store.sums import register

    with closing(sqlite3.connect(":memory:")) as db:
        register(db)
        (found,) = db.execute("SELECT tenure_crc('k', 'ä', 1, x'00ff')").fetchone()
    assert found == sum_of("k", "ä", 1, b"\x00\xff")
