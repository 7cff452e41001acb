"""What readers are not shown: values that submitters may have meant as secrets.

Roles below ``submit``, and submitters of other namespaces, see the names of environment variables
and not their values, also of those that are properties of Spark; likewise properties that Spark
itself hides, and the options of drivers of logs, volumes and networks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from tenure.api.requests.call import Call
from tenure.model.jsons import Json
from tenure.model.roles import Role, has_power_of

HIDDEN = "***"
#: Spark's own, of ``spark.redaction.regex``: it looks for it in the key and in the value.
_SPARK = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
#: ``spark.executorEnv.NAME`` and its kin for other masters are environments.
_SPARK_ENV = re.compile(r"env\.", re.IGNORECASE)
#: Of a create body, at any depth: ``LogConfig.Config``, ``DriverConfig.Options``, ``DriverOpts`` of
#: a network. As engines read keys: in any case.
_OPTIONS = ("config", "options", "driveropts")
V = TypeVar("V", bound=Mapping[str, object])


def _sees_secrets(call: Call, view: Mapping[str, object]) -> bool:
    """Whether who asks may see what the submitter wrote: its own namespace's, or an operator."""
    caller = call.caller
    is_own = caller.may_act_in(str(view["namespace"]))
    return is_own and has_power_of(caller.role, Role.SUBMIT)


def job_for(call: Call, view: V) -> V:
    """Return a job's view as who asks may see it."""
    if _sees_secrets(call, view):
        return view
    shown: Json = {**view}
    shown["env"] = _names(shown["env"])
    if shown["spark"] is not None:
        conf = shown["spark"]["conf"]
        hidden = {key: HIDDEN if _is_secret(key, conf[key]) else conf[key] for key in conf}
        shown["spark"] = {**shown["spark"], "conf": hidden}
    return cast("V", shown)


def _is_secret(key: str, value: str) -> bool:
    return bool(_SPARK.search(key) or _SPARK.search(value) or _SPARK_ENV.search(key))


def container_for(call: Call, view: V) -> V:
    """Return a container's view as who asks may see it."""
    if _sees_secrets(call, view):
        return view
    shown: Json = {**view}
    shown["body"] = _hidden_body(shown["body"])
    return cast("V", shown)


def _hidden_body(body: Json) -> Json:
    shown: Json = _without_options(body)
    return {
        key: _names(value) if key.casefold() == "env" and value else value
        for key, value in shown.items()
    }


def _without_options(value: object) -> Any:
    if isinstance(value, list):
        return [_without_options(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: dict.fromkeys(part, HIDDEN)
        if key.casefold() in _OPTIONS and isinstance(part, Mapping)
        else _without_options(part)
        for key, part in value.items()
    }


def _names(env: Iterable[str]) -> list[str]:
    """Return an environment without its values; a name alone unsets a variable."""
    return [f"{name}={HIDDEN}" if eq else name for name, eq, _ in (e.partition("=") for e in env)]
