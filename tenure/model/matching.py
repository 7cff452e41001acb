"""Whether a node satisfies a constraint of a job or container."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.model.job import Constraint
from tenure.model.node import NodeSpec

LABEL = "label."


def satisfies(spec: NodeSpec, constraint: Constraint) -> bool:
    """Return whether a node satisfies a constraint.

    A node without the label, or without a rack, has no value: ``==`` and ``in`` fail, ``!=`` holds.
    """
    is_member = value_of(constraint.key, spec) in constraint.values
    return not is_member if constraint.op == "!=" else is_member


def satisfies_all(spec: NodeSpec, constraints: Iterable[Constraint]) -> bool:
    """Return whether a node satisfies every constraint."""
    return all(satisfies(spec, constraint) for constraint in constraints)


def value_of(key: str, spec: NodeSpec) -> str | None:
    """Return what a node has for the key of a constraint, None for nothing."""
    if key.startswith(LABEL):
        return spec.labels.get(key.removeprefix(LABEL))
    return {
        "generation": spec.generation,
        "site": spec.site.value,
        "rack": spec.rack or None,
        "name": spec.name,
    }[key]
