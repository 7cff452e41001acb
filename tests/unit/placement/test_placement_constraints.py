import pytest

from tenure.model.errors import InvalidInput
from tenure.model.job import Constraint
from tenure.model.matching import satisfies
from tenure.model.node import NodeSpec, Site
from tenure.placement.constraints import MAX_VALUES, parse

NODE = NodeSpec(
    "n1", "unix:///x", "young", site=Site.CLOUD, rack="r7", labels={"disk": "ssd", "a/b": "1"}
)
BARE = NodeSpec("n2", "unix:///y", "nursery")


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("generation==young", Constraint("generation", "==", ("young",))),
        ("  site != local ", Constraint("site", "!=", ("local",))),
        ("rack in (r1, r2)", Constraint("rack", "in", ("r1", "r2"))),
        ("name in(n1)", Constraint("name", "in", ("n1",))),
        ("label.disk == ssd", Constraint("label.disk", "==", ("ssd",))),
        ("label.a/b!=x:1.2@z-3", Constraint("label.a/b", "!=", ("x:1.2@z-3",))),
    ],
)
def test_parse(text: str, constraint: Constraint) -> None:
    assert parse(text) == constraint


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "none of"),
        ("generation", "none of"),
        ("generation=young", "none of"),
        ("==young", "none of"),
        ("generation==", "not a plain value"),
        ("generation==a b", "not a plain value"),
        ("generation===young", "not a plain value"),
        ("name==../etc", "not a plain value"),
        ("generation not in (a)", "none of"),
        ("rackin(a)", "none of"),
        ("rack in a", "parentheses"),
        ("rack in ()", "not a plain value"),
        ("rack in (a,,b)", "not a plain value"),
        ("colour==red", "unknown key"),
        ("label.==red", "unknown key"),
        ("label.-x==red", "unknown key"),
        ("site==moon", "local or cloud"),
        (f"rack in ({','.join('r' * (MAX_VALUES + 1))})", "at most"),
    ],
)
def test_faults_name_the_path(text: str, word: str) -> None:
    with pytest.raises(InvalidInput, match=word) as caught:
        parse(text, "constraints.3")
    assert caught.value.code == "invalid_constraint"
    assert [fault.path for fault in caught.value.fields] == ["constraints.3"]


@pytest.mark.parametrize(
    ("text", "on_node", "on_bare"),
    [
        ("generation==young", True, False),
        ("generation!=young", False, True),
        ("site==cloud", True, False),
        ("site in (local, cloud)", True, True),
        ("name==n2", False, True),
        ("rack==r7", True, False),
        ("rack!=r7", False, True),
        ("label.disk==ssd", True, False),
        ("label.disk!=ssd", False, True),
        ("label.disk in (hdd, ssd)", True, False),
    ],
)
def test_matches(text: str, on_node: bool, on_bare: bool) -> None:
    assert satisfies(NODE, parse(text)) is on_node
    assert satisfies(BARE, parse(text)) is on_bare
