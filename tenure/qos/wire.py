"""Parameters and actions as JSON data, between a node's agent, its disk, and the daemon."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise

from tenure.model.errors import FieldError, InvalidInput
from tenure.model.harvest import HarvestAction
from tenure.model.qos import QosParams, checked
from tenure.qos.laws import LAWS

VERSION = 1
#: No number of an action is longer than the kernel's own.
LARGEST = 1 << 63
_MAX_TEXT = 200
_MAX_NUMBERS = 32
_KINDS = {
    "str": (str,),
    "Mode": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}


@dataclass(frozen=True, slots=True)
class ActionsAnswer:
    """Actions that were asked for, oldest first; ``is_more``: ask again after the last.

    ``oldest_seq`` is the first that the journal still has (0: none): a gap before it is lost.
    ``status`` is how the controller is, by name.
    """

    actions: tuple[HarvestAction, ...]
    is_more: bool = False
    oldest_seq: int = 0
    status: Mapping[str, object] = field(default_factory=dict)


def encode_params(params: QosParams) -> dict[str, object]:
    """Return parameters as JSON data, every one of them."""
    return asdict(params)


def decode_params(raw: object) -> QosParams:
    """Return parameters; raises InvalidInput with every fault, unknown names included."""
    if not isinstance(raw, Mapping):
        raise InvalidInput("harvest: the parameters are not an object")
    kinds = {one.name: _KINDS[str(one.type)] for one in fields(QosParams)}
    faults = [FieldError(str(name), "is unknown") for name in raw if name not in kinds]
    for name, allowed in kinds.items():
        value = raw.get(name)
        if name in raw and (not isinstance(value, allowed) or _is_misplaced_bool(value, allowed)):
            faults.append(FieldError(name, f"must be of type {allowed[-1].__name__}"))
    if not faults and raw.get("controller", "salamander") not in LAWS:
        faults.append(FieldError("controller", f"must be one of {', '.join(LAWS)}"))
    if faults:
        told = "; ".join(f"{fault.path} {fault.message}" for fault in faults)
        raise InvalidInput(f"harvest: {told}", fields=tuple(faults))
    return checked(QosParams(**raw))


def revision_of(params: QosParams) -> str:
    """Return a name for exactly these parameters: equal ones have the same, always."""
    text = json.dumps(encode_params(params), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode_action(action: HarvestAction) -> dict[str, object]:
    """Return an action as JSON data; what is empty is left out."""
    needed = ("seq", "at_us", "kind", "reason", "is_done")
    row = asdict(action)
    return {name: value for name, value in row.items() if name in needed or value}


def decode_action(raw: object) -> HarvestAction:
    """Return an action; raises ValueError where ``raw`` is none."""
    if not isinstance(raw, Mapping):
        raise ValueError("an action is not an object")
    seq, at_us, kind = _count(raw.get("seq")), _count(raw.get("at_us")), raw.get("kind")
    if seq is None or at_us is None or not isinstance(kind, str):
        raise ValueError("an action lacks seq, at_us or kind")
    told = raw.get("numbers")
    pairs = told.items() if isinstance(told, Mapping) else ()
    numbers = {_text(k): n for k, n in list(pairs)[:_MAX_NUMBERS] if _is_number(n)}
    names = ("reason", "task", "resource", "error")
    reason, task, resource, error = (_text(raw.get(name, "")) for name in names)
    return HarvestAction(
        seq,
        at_us,
        kind[:_MAX_TEXT],
        reason,
        raw.get("is_done") is True,
        task=task,
        resource=resource,
        error=error,
        numbers=numbers,
    )


def decode_actions(raw: object) -> ActionsAnswer:
    """Return an agent's answer; raises ValueError, with words for people, where it is none."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("actions"), list):
        raise ValueError("the answer holds no actions")
    if raw.get("version") != VERSION:
        raise ValueError(f"the answer has version {_text(raw.get('version'))}, not {VERSION}")
    actions = tuple(map(decode_action, raw["actions"]))
    if any(older.seq >= newer.seq for older, newer in pairwise(actions)):
        raise ValueError("the actions are not in order")
    status = raw.get("status")
    return ActionsAnswer(
        actions,
        raw.get("is_more") is True,
        _count(raw.get("oldest_seq")) or 0,
        _sound(status) if isinstance(status, Mapping) else {},
    )


def _sound(status: Mapping[str, object]) -> dict[str, object]:
    """Return a status without numbers that are none, or that no controller has."""
    inner = {key: _sound(value) for key, value in status.items() if isinstance(value, Mapping)}
    numbers = {key: value for key, value in status.items() if isinstance(value, int | float)}
    wild = {key for key, value in numbers.items() if not abs(value) < LARGEST}
    return {key: inner.get(key, value) for key, value in status.items() if key not in wild}


def _is_misplaced_bool(value: object, allowed: tuple[type, ...]) -> bool:
    return isinstance(value, bool) and bool not in allowed


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST
    return value if is_count and isinstance(value, int) else None


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT]
