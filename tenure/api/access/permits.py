"""Whether a submission keeps to its submitter's policy: the one place where that is checked.

What is checked is the body that the engine will get. Engines are written in Go, whose decoder takes
keys in any case and the last of several that differ in case alone; so every spelling of a key is
looked at. What no rule knows is not permitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tenure.api.access.mounts import (
    Fault,
    bind_faults,
    folded,
    image_faults,
    members,
    mount_faults,
    parts,
    texts,
)
from tenure.api.requests.call import Call
from tenure.api.schemas.batches import BatchRequest
from tenure.api.schemas.jobs import JobRequest
from tenure.model.accesspolicy import AccessPolicy, allows
from tenure.model.errors import FieldError, Forbidden
from tenure.model.roles import Role

Faults = Iterator[Fault]
Rule = Callable[[AccessPolicy, object, str], Faults]
#: Of HostConfig: what gives no power over the host or another container.
_HARMLESS = (
    "NanoCpus CpuQuota CpuPeriod Memory MemoryReservation RestartPolicy AutoRemove CpusetCpus "
    "CpusetMems Isolation CpuShares BlkioWeight KernelMemory KernelMemoryTCP "
    "MemorySwap MemorySwappiness PidsLimit CpuCount CpuPercent IOMaximumIOps IOMaximumBandwidth "
    "ShmSize Init PublishAllPorts ReadonlyRootfs CapDrop Dns DnsOptions DnsSearch ExtraHosts "
    "BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps "
    "BlkioDeviceWriteIOps StorageOpt Tmpfs ConsoleSize"
)
HARMLESS = frozenset(_HARMLESS.casefold().split())
#: Takes power away, whatever it is written like.
_NO_NEW = frozenset(("no-new-privileges", "no-new-privileges=true", "no-new-privileges:true"))
_UNMASKED = "systempaths=unconfined"
_REALTIME = ("rtprio", "nice", "rttime")
#: A container's own namespaces. Some engines take more words, as Podman's ``ns:/proc/1/ns/pid``.
_OWN = frozenset(("", "private", "none", "shareable"))


# rules of HostConfig


def _flag(key: str, told: str) -> Rule:
    """Return the rule of what one flag allows, whatever its value."""

    def rule(policy: AccessPolicy, value: object, path: str) -> Faults:
        if value and not getattr(policy, key):
            yield Fault(path, key, told)

    return rule


def _negative(key: str, told: str) -> Rule:
    def rule(policy: AccessPolicy, value: object, path: str) -> Faults:
        if isinstance(value, int) and value < 0 and not getattr(policy, key):
            yield Fault(path, key, told)

    return rule


def _namespace(name: str) -> Rule:
    def rule(policy: AccessPolicy, value: object, path: str) -> Faults:
        word = str(value).strip().casefold()
        if word == "host" and name not in policy.host_namespaces:
            yield Fault(path, "host_namespaces", f"the host's {name} namespace", name)
        elif word.startswith("container") and not policy.join_containers:
            yield Fault(path, "join_containers", "a namespace of another container")
        elif name != "net" and word not in (*_OWN, "host") and not word.startswith("container"):
            yield Fault(path, "", f"the {name} namespace {word[:80]!r}")

    return rule


_net = _namespace("net")


def _network(policy: AccessPolicy, value: object, path: str) -> Faults:
    yield from _net(policy, value, path)
    word = str(value).strip() or "default"
    if word.casefold() == "host" or word.casefold().startswith("container"):
        return
    if not allows(policy.networks, word):
        yield Fault(path, "networks", f"the network {word}", word)


def _each(key: str, what: str, plain: Callable[[str], str] = str.strip) -> Rule:
    """Return the rule of a list of names, or of the names of a mapping."""

    def rule(policy: AccessPolicy, value: object, path: str) -> Faults:
        names = [value] if isinstance(value, str) else value
        for name in map(plain, texts(names)):
            if not allows(getattr(policy, key), name):
                yield Fault(path, key, f"{what} {name}", name)

    return rule


def _capability(name: str) -> str:
    return name.strip().upper().removeprefix("CAP_")


def _security(policy: AccessPolicy, value: object, path: str) -> Faults:
    for option in texts(value):
        plain = option.strip().replace(":", "=", 1) if "=" not in option else option.strip()
        if option.strip() not in _NO_NEW and not allows(policy.security_options, plain):
            yield Fault(path, "security_options", f"the option {plain}", plain)


def _paths(policy: AccessPolicy, value: object, path: str) -> Faults:
    """Any list takes the place of the engine's own, and so shows what that one hides."""
    if not allows(policy.security_options, _UNMASKED):
        yield Fault(path, "security_options", "other hidden paths than the engine's", _UNMASKED)


def _device(policy: AccessPolicy, value: object, path: str) -> Faults:
    for number, device in enumerate(parts(value)):
        for source in texts(part for key, part in folded(device) if key == "pathonhost"):
            if ".." in source.split("/") or not allows(policy.devices, source):
                yield Fault(f"{path}.{number}", "devices", f"the device {source}", source)


def _any_device(policy: AccessPolicy, value: object, path: str) -> Faults:
    if value and "*" not in policy.devices:
        yield Fault(path, "devices", "rules for any device", "*")


def _nowhere(what: str) -> Rule:
    """Return the rule of what Docker passes over or refuses, and some engine takes for a file."""

    def rule(policy: AccessPolicy, value: object, path: str) -> Faults:
        if value:
            yield Fault(path, "", what)

    return rule


def _log(policy: AccessPolicy, value: object, path: str) -> Faults:
    options = [part for key, part in folded(value) if key == "config"]
    for target in (part for config in options for key, part in folded(config) if key == "path"):
        yield from _nowhere("a file of the host for its log")(policy, target, f"{path}.Config.path")
    for name in texts(part for key, part in folded(value) if key == "type"):
        if name and not allows(policy.log_drivers, name):
            yield Fault(path, "log_drivers", f"the log driver {name}", name)


def _ports(policy: AccessPolicy, value: object, path: str) -> Faults:
    for name, bindings in members(value):
        for port in (p for one in parts(bindings or ()) for k, p in folded(one) if k == "hostport"):
            text = port if isinstance(port, str) else repr(port)
            if port is not None and not policy.publishes(text):
                yield Fault(f"{path}.{name}", "ports", f"the port {text}", text)


def _ulimits(policy: AccessPolicy, value: object, path: str) -> Faults:
    for number, limit in enumerate(parts(value)):
        for name in texts(part for key, part in folded(limit) if key == "name"):
            if name.strip().casefold() in _REALTIME and not policy.realtime:
                yield Fault(f"{path}.{number}", "realtime", f"the limit {name}")


def _image(policy: AccessPolicy, value: object, path: str) -> Faults:
    for name in map(str.strip, texts([value])):
        yield from image_faults(policy, name, path)


def _named(key: str, what: str, usual: tuple[str, ...]) -> Rule:
    rule = _each(key, what)

    def named(policy: AccessPolicy, value: object, path: str) -> Faults:
        if str(value).strip() not in usual:
            yield from rule(policy, value, path)

    return named


RULES: dict[str, Rule] = {
    "binds": bind_faults,
    "mounts": mount_faults,
    "volumesfrom": _flag("join_containers", "volumes of another container"),
    "links": _flag("join_containers", "links to another container"),
    "cgroup": _flag("join_containers", "the control group of another container"),
    "privileged": _flag("privileged", "a privileged container"),
    "pidmode": _namespace("pid"),
    "ipcmode": _namespace("ipc"),
    "utsmode": _namespace("uts"),
    "usernsmode": _namespace("userns"),
    "cgroupnsmode": _namespace("cgroupns"),
    "networkmode": _network,
    "devices": _device,
    "devicerequests": _flag("gpus", "devices by request"),
    "devicecgrouprules": _any_device,
    "capadd": _each("capabilities", "the capability", _capability),
    "securityopt": _security,
    "maskedpaths": _paths,
    "readonlypaths": _paths,
    "sysctls": _each("sysctls", "the kernel parameter"),
    "cgroupparent": _flag("cgroup_parent", "a parent control group"),
    "runtime": _named("runtimes", "the runtime", ("",)),
    "annotations": _flag("annotations", "annotations, which runtimes heed"),
    "oomscoreadj": _negative("oom_score", "a score that spares it when memory runs out"),
    "oomkilldisable": _flag("oom_score", "memory that is never reclaimed"),
    "cpurealtimeperiod": _flag("realtime", "real-time CPU"),
    "cpurealtimeruntime": _flag("realtime", "real-time CPU"),
    "ulimits": _ulimits,
    "groupadd": _each("groups", "the group"),
    "volumedriver": _named("volume_drivers", "the volume driver", ("", "local")),
    "logconfig": _log,
    "portbindings": _ports,
    "containeridfile": _nowhere("a file of the host for its id"),
}


def host_faults(policy: AccessPolicy, host: object, path: str = "HostConfig") -> Faults:
    """Find what of a HostConfig a policy does not permit."""
    for name, value in members(host):
        key, here = name.casefold(), f"{path}.{name}"
        if value is None or key in HARMLESS:
            continue
        rule = RULES.get(key)
        if rule is None:
            yield Fault(here, "", "what no policy knows")
        else:
            yield from rule(policy, value, here)


def container_faults(policy: AccessPolicy, body: object) -> Faults:
    """Find what of a create body a policy does not permit."""
    for name, value in members(body):
        key = name.casefold()
        if key == "image":
            yield from _image(policy, value, name)
        elif key == "hostconfig" and value is not None:
            yield from host_faults(policy, value, name)
        elif key == "volumes":  # Docker's are paths of the container; Podman takes binds
            yield from bind_faults(policy, value, name)
        elif key == "networkingconfig" and value is not None:
            yield from _endpoint_faults(policy, value, name)


def _endpoint_faults(policy: AccessPolicy, value: object, path: str) -> Faults:
    for key, endpoints in folded(value):
        if key != "endpointsconfig" or not isinstance(endpoints, Mapping):
            continue
        for network, settings in endpoints.items():
            here = f"{path}.EndpointsConfig.{network}"
            yield from _network(policy, network, here)
            for part in texts(value for key, value in folded(settings) if key == "networkid"):
                if part:
                    yield from _network(policy, part, here)


# submissions


@dataclass(frozen=True, slots=True)
class _Submitter:
    """``key`` is where its policy stands in the configuration."""

    key: str
    policy: AccessPolicy


def _submitter(call: Call) -> _Submitter | None:
    """Return who submits and what it may; None for an admin, who may do anything."""
    role, namespace = call.caller.role, call.owner.namespace
    if role is Role.ADMIN:
        return None
    return _Submitter(*call.options.permits.of(role, namespace))


def require_container(call: Call, body: object, generation: str | None) -> None:
    """Raise Forbidden ``not_permitted`` for a container that its submitter may not have."""
    who = _submitter(call)
    if who is not None:
        faults = [*container_faults(who.policy, body)]
        if generation and not allows(who.policy.generations, generation):
            told = f"the generation {generation}"
            faults.append(Fault("tenure.generation", "generations", told, generation))
        _refuse(who, faults)


def require_job(call: Call, job: JobRequest) -> None:
    """Raise Forbidden ``not_permitted`` for a job that its submitter may not have."""
    who = _submitter(call)
    if who is None:
        return
    faults = [*_image(who.policy, job.image, "image")]
    faults += bind_faults(who.policy, job.volumes, "volumes")
    most = who.policy.max_priority
    if most is not None and job.priority > most:
        faults.append(Fault("priority", "max_priority", f"more than priority {most}"))
    if job.kind == "spark":  # its containers use their node's network
        faults += _net(who.policy, "host", "kind")
    _refuse(who, faults)


def require_batch(call: Call, batch: BatchRequest) -> None:
    """Raise Forbidden ``not_permitted`` for a batch that its submitter may not have."""
    who = _submitter(call)
    if who is None:
        return
    faults = [*_image(who.policy, batch.image, "image")]
    for number, stage in enumerate(batch.stages):
        faults += _image(who.policy, stage.image, f"stages.{number}.image")
    if batch.submitter not in (None, call.caller.name):
        faults.append(Fault("submitter", "", f"another than you, {call.caller.name}"))
    _refuse(who, faults)


def submitter_of(call: Call, batch: BatchRequest) -> str:
    """Return whose a batch is: of who sends it; an admin may submit for another, or nobody."""
    return batch.submitter or ("" if _submitter(call) is None else call.caller.name)


def _refuse(who: _Submitter, faults: Iterable[Fault]) -> None:
    found = list(dict.fromkeys(faults))
    if not found:
        return
    fields = tuple(FieldError(f.field, _told(who.key, f)) for f in found)
    keys = list(dict.fromkeys(f"{who.key}.{f.key}" for f in found if f.key))
    detail = f"{fields[0].path}: {fields[0].message}"
    raise Forbidden(detail, code="not_permitted", fields=fields, extra={"policy_keys": keys})


def _told(key: str, fault: Fault) -> str:
    if not fault.key:
        return f"is {fault.what}: only an admin may use it"
    value = f" with {fault.value[:80]!r}" if fault.value else ""
    return f"{fault.what[:200]} is not permitted; {key}.{fault.key}{value} would allow it"
