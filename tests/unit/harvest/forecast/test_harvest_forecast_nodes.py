"""A node's series follows its containers."""

import numpy as np
import pytest

from tenure.harvest.forecast.nodes import Part, node_panel
from tenure.model.errors import InvalidInput

NAN = np.nan


def series(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def test_a_node_is_the_sum_of_what_is_on_it_now_and_of_its_remainder() -> None:
    parts = [
        Part("a", series(1, 2, 3), app="web"),
        Part("a", series(1, 1, 1)),
        Part("b", series(4, 4, 4), app="db"),
    ]
    panel = node_panel(parts, {"b": 8.0, "a": 4.0}, 0)
    assert panel.names == ("a", "b")
    assert panel.values.tolist() == [[0.5, 0.75, 1.0], [0.5, 0.5, 0.5]]


def test_a_young_container_has_the_past_of_its_app() -> None:
    parts = [
        Part("a", series(NAN, NAN, 3), app="web"),
        Part("b", series(2, 4, 6), app="web"),
        Part("c", series(4, NAN, 6), app="web"),
    ]
    panel = node_panel(parts, {"a": 1.0, "b": 1.0, "c": 1.0}, 0)
    assert panel.values.tolist() == [[3, 4, 3], [2, 4, 6], [4, 4, 6]]


def test_an_unknown_past_is_assumed_or_leaves_the_node_unknown() -> None:
    parts = [
        Part("a", series(NAN, 1), app="new", assumed=2.0),
        Part("b", series(NAN, 1), app="newer"),
        Part("b", series(1, 1)),
    ]
    panel = node_panel(parts, {"a": 1.0, "b": 1.0, "empty": 1.0}, 0)
    assert panel.values[0].tolist() == [2, 1]
    assert np.isnan(panel.values[1, 0])
    assert panel.values[1, 1] == 2
    assert np.isnan(panel.values[2]).all()


def test_nodes_that_nobody_asked_for_are_left_out() -> None:
    assert node_panel([Part("gone", series(1))], {"a": 1.0}, 0).names == ("a",)
    assert node_panel([], {"a": 1.0}, 0).values.shape == (1, 0)


@pytest.mark.parametrize("capacity", [0.0, -1.0, NAN])
def test_a_capacity_that_is_none_is_refused(capacity: float) -> None:
    with pytest.raises(InvalidInput, match="capacity of a"):
        node_panel([Part("a", series(1))], {"a": capacity}, 0)


def test_series_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one length"):
        node_panel([Part("a", series(1)), Part("a", series(1, 2))], {"a": 1.0}, 0)
