"""Where an answer leads: OpenAPI links, for people and for tools that follow them."""

from __future__ import annotations

from tenure.model.jsons import Json

ID = "$response.body#/id"
FIRST_NAME = "$response.body#/items/0/name"
FIRST_ID = "$response.body#/items/0/id"

_TABLE: dict[str, tuple[str, str, str]] = {
    "jobs_submit": ("id", ID, "jobs_inspect jobs_explain jobs_logs jobs_cancel jobs_cancel_delete"),
    "jobs_listing": ("id", FIRST_ID, "jobs_inspect jobs_explain"),
    "containers_create": (
        "id",
        ID,
        "containers_inspect containers_logs containers_stop containers_start "
        "containers_remove_delete",
    ),
    "containers_listing": ("id", FIRST_ID, "containers_inspect"),
    "containers_stop": ("id", ID, "containers_start containers_remove_delete"),
    "batches_submit": ("id", ID, "batches_inspect batches_explain batches_tasks"),
    "nodes_listing": (
        "name",
        FIRST_NAME,
        "nodes_inspect nodes_change_patch nodes_drain nodes_cancel_drain_delete nodes_power "
        "nodes_fence",
    ),
    "cycles_listing": ("name", FIRST_NAME, "cycles_run cycles_claim"),
    "cycles_run": ("id", ID, "cycles_inspect_run cycles_fail_run"),
    "cycles_runs": ("id", FIRST_ID, "cycles_inspect_run"),
}


#: Operation -> (parameter, expression, operations that take it).
LINKS = {name: (part, of, tuple(ops.split())) for name, (part, of, ops) in _TABLE.items()}


def links_of(operation: str) -> Json:
    """Return the links of an operation's answer as OpenAPI writes them; {} where it has none."""
    if operation not in LINKS:
        return {}
    parameter, expression, targets = LINKS[operation]
    return {
        target: {"operationId": target, "parameters": {parameter: expression}} for target in targets
    }
