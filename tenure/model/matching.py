"""Whether a node satisfies a constraint of a job."""

from __future__ import annotations

from tenure.model.job import Constraint
from tenure.model.node import NodeSpec

LABEL = "label."


def satisfies(spec: NodeSpec, constraint: Constraint) -> bool:
    """Return whether a node satisfies a constraint.

    A node without the label, or without a rack, has no value: ``==`` and ``in`` fail, ``!=`` holds.
    """
    is_member = _value(constraint.key, spec) in constraint.values
    return not is_member if constraint.op == "!=" else is_member


def _value(key: str, spec: NodeSpec) -> str | None:
    if key.startswith(LABEL):
        return spec.labels.get(key.removeprefix(LABEL))
    return {
        "generation": spec.generation,
        "site": spec.site.value,
        "rack": spec.rack or None,
        "name": spec.name,
    }[key]
