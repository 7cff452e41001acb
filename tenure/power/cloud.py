"""The ``libcloud`` power driver: the node is an instance at a cloud's provider.

Contract as of ``command``: done means that the provider says so. An instance is asked for its state
before it is told anything, so every order may be given again; what passes (throttling, an instance
that is still stopping, a provider that does not answer) is waited out within the node's time-out.
apache-libcloud is loaded by the first call, and its calls, which block, run in threads of their
own: in those of the event loop a provider that hangs would hold up the daemon's commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US

T = TypeVar("T")
#: One call of the provider's API.
CALL_S = 10.0
#: Calls under way at a time; the others wait.
CALLS = 8
_THREADS = ThreadPoolExecutor(CALLS, thread_name_prefix="cloud")
#: Between two looks at an instance that changes, doubled up to the second.
PAUSES_S = (0.5, 5.0)
PROBE_S = 30.0
"""Longest wait for an answer of a probe, if the node's own time-out is not shorter."""

#: Error codes of EC2 that pass; its HTTP status does not tell them from others.
_PASSING = frozenset(("RequestLimitExceeded", "Throttling", "IncorrectInstanceState"))
_DETAIL = 500
#: Terminated, or about to be: it never runs again.
GONE = "gone"


class _Fault(Exception):
    """A call that failed: for good, or ``is_passing``."""

    def __init__(self, detail: str, *, is_passing: bool = False) -> None:
        super().__init__(detail[:_DETAIL])
        self.is_passing = is_passing


class CloudDriver:
    """Switches the instance of a node's ``PowerSpec``."""

    async def switch(self, spec: PowerSpec, to: str) -> Outcome:
        """Switch the node ``to`` "on" or "off" within ``spec.timeout_us``."""
        due_s = time.monotonic() + spec.timeout_us / US
        is_sent, why, pause_s = False, "", PAUSES_S[0]
        while True:
            try:
                instance = await _in_thread(_find, spec)
                if instance.state in (to, GONE):
                    return _settled(spec, instance.state, to)
                why = f"it is {instance.word}"
                if instance.state in ("on", "off"):
                    is_sent = True
                    await _in_thread(instance.order, to)
            except _Fault as fault:
                why = str(fault)
                if not fault.is_passing:
                    return Refused("power_failed", f"{_name(spec)}: {why}")
            if time.monotonic() + pause_s > due_s:
                told = f"{_name(spec)}: not {to} within {spec.timeout_us / US:g} s: {why}"
                return Unknown(told) if is_sent else Refused("power_failed", told)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSES_S[1])

    async def probe(self, spec: PowerSpec) -> Done | Unknown:
        """Ask the provider; an instance that does not exist any more is off."""
        try:
            async with asyncio.timeout(min(PROBE_S, spec.timeout_us / US)):
                instance = await _in_thread(_find, spec)
        except (_Fault, TimeoutError) as error:
            return Unknown(f"{_name(spec)}: {str(error) or 'no answer in time'}")
        if instance.state in ("on", "off", GONE):
            return Done("on" if instance.state == "on" else "off")
        return Unknown(f"{_name(spec)}: it is {instance.word}")


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, function, *arguments)


def _settled(spec: PowerSpec, state: str, to: str) -> Outcome:
    if state == GONE and to == "on":
        return Refused("power_failed", f"{_name(spec)}: it was terminated; start another one")
    return Done(to)


def _name(spec: PowerSpec) -> str:
    return f"{spec.provider} instance {spec.instance}"


@dataclass(frozen=True, slots=True)
class _Instance:
    """An instance as last seen: ``state`` on, off, gone, or "" while it changes; ``word`` says it
    in the provider's terms.
    """

    driver: Any
    node: Any
    state: str
    word: str

    def order(self, to: str) -> None:
        """Tell it to start or stop."""
        act = self.driver.start_node if to == "on" else self.driver.stop_node
        _called(act, self.node)


def _find(spec: PowerSpec) -> _Instance:
    """Return the instance. Raises _Fault."""
    driver = _connect(spec)
    # EC2 looks one instance up; the others list all
    is_ec2 = spec.provider.startswith("ec2")
    nodes = _called(driver.list_nodes, **({"ex_node_ids": [spec.instance]} if is_ec2 else {}))
    found = [n for n in nodes if n.id == spec.instance]
    found = found or [n for n in nodes if n.name == spec.instance]
    if len(found) > 1:
        raise _Fault(f"{len(found)} instances have that name; state the id as power.instance")
    if not found:
        where = f" in {spec.region}" if spec.region else ""
        raise _Fault(f"there is no such instance{where}; check power.instance and power.region")
    node = found[0]
    # libcloud's own words know no instance of EC2 that is stopped; with other providers they alone
    # mean the same everywhere: "TERMINATED" is Google's for stopped
    word = str((is_ec2 and node.extra.get("status")) or node.state).lower()
    state = {"running": "on", "stopped": "off", "terminated": GONE}.get(word, "")
    return _Instance(driver, node, state, word)


def _connect(spec: PowerSpec) -> Any:
    """Return libcloud's driver for the provider. Raises _Fault."""
    try:
        from libcloud.compute.providers import get_driver
    except ImportError:
        needed = "driver libcloud needs apache-libcloud: pip install 'tenure[libcloud]'"
        raise _Fault(needed) from None
    try:
        make = get_driver(spec.provider)
    except AttributeError:
        raise _Fault(f"libcloud knows no provider {spec.provider!r}") from None
    except Exception as error:  # noqa: BLE001 - a name of old, or what the driver needs is missing
        raise _Fault(f"libcloud's driver {spec.provider} cannot be loaded: {error}") from None
    given = _credentials(Path(spec.credentials))
    key, secret = given.pop("key"), given.pop("secret", None)
    if spec.region:
        given["region"] = spec.region
    if spec.provider == "ec2":
        given.setdefault("signature_version", "4")  # libcloud's 2 of old regions names no region
    if spec.provider == "gce":
        given.setdefault("auth_type", "SA")  # a guess of libcloud's is to wait for a browser
    if spec.endpoint:
        url = urlsplit(spec.endpoint)
        is_secure = url.scheme == "https"
        port = url.port or (443 if is_secure else 80)
        given |= {"host": url.hostname, "port": port, "secure": is_secure}
    try:
        return _called(make, key, secret, **{"timeout": CALL_S, **given})
    except _Fault as fault:  # some sign in at once
        told = f"libcloud's driver {spec.provider} cannot be made so: {fault}"
        raise _Fault(told, is_passing=fault.is_passing) from None


def _credentials(path: Path) -> dict[str, object]:
    """Return what is in the file of credentials; its values are never in an error."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _Fault(f"credentials {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise _Fault(f"credentials {path}: neither YAML nor JSON") from None
    if not isinstance(found, dict) or not found.get("key"):
        raise _Fault(f"credentials {path}: must hold key and secret")
    return {str(name): value for name, value in found.items()}


def _called(function: Any, *arguments: object, **more: object) -> Any:
    """Call libcloud and translate what it raises."""
    from libcloud.common.exceptions import BaseHTTPError
    from libcloud.common.types import InvalidCredsError, MalformedResponseError

    try:
        return function(*arguments, **more)
    except InvalidCredsError:
        raise _Fault("the provider does not accept the credentials") from None
    except BaseHTTPError as error:
        raise _http_fault(error) from None
    except MalformedResponseError:
        raise _Fault("the answer is none of the provider's", is_passing=True) from None
    except OSError as error:  # of requests too: no route, cut, time-out, certificates
        raise _Fault(f"no answer: {type(error).__name__}", is_passing=True) from None
    except Exception as error:  # noqa: BLE001 - libcloud's drivers raise what they like
        raise _Fault(f"{type(error).__name__}: {error}") from None


def _http_fault(error: Any) -> _Fault:
    """Tell errors that pass from others: by HTTP status, and by the codes of EC2's API."""
    told = str(error.message) or "no reason is given; check power.instance and power.region"
    code = told.partition(":")[0].strip()
    status = int(error.code)
    is_passing = status == 429 or status >= 500 or code in _PASSING
    return _Fault(f"HTTP {status}: {told}", is_passing=is_passing)
