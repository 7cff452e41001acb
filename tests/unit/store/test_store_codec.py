"""Every record of the model comes back from its JSON equal and of the same types."""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.core.state.tables import KINDS
from tenure.model.node import NodeSpec, Site
from tenure.store.codec import Codec, encode_event
from tenure.store.errors import StoreDamaged, StoreTooNew, Unstorable

CODEC = Codec(KINDS)

TEXT = st.text(max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def values_of(type_: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type as the model uses them; ``Any`` is JSON data."""
    origin, arguments = get_origin(type_), get_args(type_)
    if type_ in (Any, object):
        return JSON
    if origin in (Union, UnionType):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is tuple:
        many = st.lists(values_of(arguments[0]), max_size=3).map(tuple)
        return many if arguments[-1] is ... else st.tuples(*map(values_of, arguments))
    if origin is dict:
        return st.dictionaries(TEXT, values_of(arguments[1]), max_size=3)
    if isinstance(type_, type) and is_dataclass(type_):
        hints = get_type_hints(type_)
        return st.builds(
            type_, **{part.name: values_of(hints[part.name]) for part in fields(type_)}
        )
    plain = {str: TEXT, float: FLOATS, int: st.integers(), bool: st.booleans()}
    return plain[type_] if type_ in plain else st.from_type(type_)


def types_in(value: Any) -> Any:
    """Return the value with the type of every part beside it, so that 1 and True differ."""
    if hasattr(value, "__dataclass_fields__"):
        parts = {name: types_in(getattr(value, name)) for name in value.__dataclass_fields__}
        return type(value), parts
    if isinstance(value, dict):
        return dict, {key: types_in(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value), [types_in(part) for part in value]
    return type(value), value


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_record_comes_back_equal(kind: str) -> None:
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(values_of(KINDS[kind]))
    def check(record: Any) -> None:
        text = CODEC.encode(kind, "key", record)
        again = CODEC.decode(kind, "key", 1, text)
        assert again == record
        assert types_in(again) == types_in(record)

    check()


@dataclass(frozen=True, slots=True)
class Loose:
    body: dict[str, Any] = field(default_factory=dict)
    number: int = 0
    ratio: float = 0.0


LOOSE = Codec({"loose": Loose})


@pytest.mark.parametrize(
    "body",
    [
        {"lone surrogate": "\ud800"},
        {"\udfff": 1},
        {"nul\x00": "\x00"},
        {"big": 10**40, "tiny": 5e-324, "zero": -0.0},
        {"deep": [{"a": [None, True, 1, 1.5, ""]}]},
    ],
)
def test_odd_json_data_comes_back(body: dict[str, Any]) -> None:
    record = Loose(body)
    assert LOOSE.decode("loose", "k", 1, LOOSE.encode("loose", "k", record)) == record


@pytest.mark.parametrize(
    "record",
    [
        Loose({"x": math.nan}),
        Loose({"x": math.inf}),
        Loose(ratio=math.inf),
        Loose({"x": (1, 2)}),
        Loose({"x": object()}),
        Loose(number=None),  # type: ignore[arg-type]
        Loose({1: 2}),  # type: ignore[dict-item]
    ],
)
def test_a_record_that_would_not_come_back_is_refused(record: Any) -> None:
    with pytest.raises(Unstorable, match="loose 'k'"):
        LOOSE.encode("loose", "k", record)


def test_a_bare_word_in_place_of_its_enum_is_stored_as_the_enum() -> None:
    codec = Codec({"specs": NodeSpec})
    text = codec.encode("specs", "n", NodeSpec("n", "u", "g", site="cloud"))  # type: ignore[arg-type]
    found = codec.decode("specs", "n", 1, text)
    assert isinstance(found, NodeSpec)
    assert found.site is Site.CLOUD


def test_an_unknown_kind_is_refused_both_ways() -> None:
    with pytest.raises(Unstorable, match="'odd'"):
        LOOSE.encode("odd", "k", Loose())
    with pytest.raises(StoreTooNew, match="odd 'k'"):
        LOOSE.decode("odd", "k", 1, "{}")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": "many"}'])
def test_a_record_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(StoreDamaged, match="loose 'k'"):
        LOOSE.decode("loose", "k", 1, text)


def test_old_records_are_brought_forward_step_by_step() -> None:
    def rename(body: dict[str, Any]) -> dict[str, Any]:
        return {"number": body["count"]}

    def double(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "number": body["number"] * 2}

    codec = Codec({"loose": Loose}, {"loose": (rename, double)})
    assert codec.version("loose") == 3
    assert codec.decode("loose", "k", 1, '{"count": 4}') == Loose(number=8)
    assert codec.decode("loose", "k", 2, '{"number": 4}') == Loose(number=8)
    assert codec.decode("loose", "k", 3, '{"number": 4}') == Loose(number=4)
    with pytest.raises(StoreTooNew, match="version 4"):
        codec.decode("loose", "k", 4, "{}")
    with pytest.raises(StoreDamaged, match="loose 'k'"):
        codec.decode("loose", "k", 1, "{}")


def test_event_data_becomes_the_nearest_json() -> None:
    assert encode_event({"site": Site.CLOUD, "pair": (1, 2)}, 1) == '{"site":"cloud","pair":[1,2]}'
    assert encode_event({"text": "\ud800"}, 1) == '{"text": "\\ud800"}'
