"""Whether a node's agent protects its owners: without it nothing is lent there.

Owns nothing, reads only.
"""

from __future__ import annotations

from tenure.core.state.context import Context
from tenure.model.harvest import guarded_parent
from tenure.model.node import Node


def objection(ctx: Context, node: Node) -> str:
    """Return why a node's agent does not protect its owners, "" where it does."""
    guard = ctx.learned.guards.get(node.name)
    if guard is None:
        return "its agent has not answered yet"
    if guard.fault:
        return f"its agent does not protect its owners: {guard.fault}"
    if guard.mode != "act":
        return f"its agent is in mode {guard.mode or 'unknown'} yet"
    wanted = guarded_parent(node.cgroup_driver, node.spec.cgroup)
    if guard.cgroup_parent != wanted:
        return (
            f"tasks would run below {wanted} by cgroup, and its agent reins in "
            f"{guard.cgroup_parent or 'an unknown group'}: have nodes[].cgroup and the agent's "
            "--node-cgroup name the same group"
        )
    return ""
