"""What a policy does not permit: folders of a host, in each way that engines have to mount them.

A volume may be one as well: of the driver ``local``, with options as mount(8) takes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tenure.model.accesspolicy import AccessPolicy, allows, is_guarded

#: Options of mount(8) that have it look at a path rather than at a file system.
_PATHS = frozenset(("bind", "rbind", "move", "remount"))
_OPTIONS = ("type", "o", "device")
_DIGEST = re.compile(r"(^|@)sha256:[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class Fault:
    """``what`` at ``field`` is not permitted; ``key`` of the policy would allow it with ``value``.

    ``key`` empty: none would. ``value`` empty: the key is a flag.
    """

    field: str
    key: str
    what: str
    value: str = ""


def folded(value: object) -> Iterator[tuple[str, object]]:
    """Yield the members of an object, their keys as engines compare them; none of what is none."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key).casefold(), part


def members(value: object) -> Iterable[tuple[str, object]]:
    """Return the members of an object. Raises TypeError for what the checks before let by."""
    if not isinstance(value, Mapping):
        raise TypeError(f"no object but {type(value).__name__}")
    return value.items()


def parts(value: object) -> Iterable[object]:
    """Return the parts of a list. Raises TypeError for what the checks before let by."""
    if not isinstance(value, Iterable):
        raise TypeError(f"no list but {type(value).__name__}")
    return value


def texts(values: object) -> Iterator[str]:
    """Yield values as text; what is none is a text that no pattern but ``*`` allows."""
    for value in parts(values or ()):
        if value is not None:
            yield value if isinstance(value, str) else repr(value)


def bind_faults(policy: AccessPolicy, value: object, path: str) -> Iterator[Fault]:
    """Find what of a list ``SOURCE:TARGET[:options]`` is not permitted; a bare name is a volume.

    No option of Docker has a value. Podman's ``upperdir=PATH`` lays a folder of the host over it.
    """
    for number, bind in enumerate(texts(value)):
        source, colon, rest = bind.partition(":")
        here = f"{path}.{number}"
        if colon:
            yield from source_faults(policy, source, here)
        if "=" in rest.partition(":")[2]:
            yield Fault(here, "", "an option with a value")


def _is_volume_name(source: str) -> bool:
    return bool(source) and not set(source) & set("/\\~") and not source.startswith(".")


def source_faults(policy: AccessPolicy, source: str, path: str) -> Iterator[Fault]:
    """Find out whether a volume, or a path of the host, may be mounted."""
    if not _is_volume_name(source):
        yield from path_faults(policy, source, path)
    elif not policy.mounts_volume(source):
        yield Fault(path, "volumes", f"the volume {source}", source)


def image_faults(policy: AccessPolicy, image: str, path: str) -> Iterator[Fault]:
    """Find out whether an image may be used."""
    if not allows(policy.images, image):
        yield Fault(path, "images", f"the image {image}", image)
    elif policy.images_by_digest and not _DIGEST.search(image):
        yield Fault(path, "", f"the image {image} without its digest ({image}@sha256:...)")


def path_faults(policy: AccessPolicy, source: str, path: str) -> Iterator[Fault]:
    """Find out whether a path of the host may be mounted."""
    if ".." in source.split("/"):
        yield Fault(path, "binds", f"a path with .. ({source})", _below(source))
    elif not policy.binds_path(source):
        yield Fault(path, "binds", f"the host's {source}", _below(source))
    elif is_guarded(source) and not policy.engine_socket:
        yield Fault(path, "engine_socket", f"{source}, which is or holds an engine's socket")


def _below(source: str) -> str:
    """Return the plain path that somebody may have meant."""
    names: list[str] = []
    for name in source.split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    return "/" + "/".join(names)


def mount_faults(policy: AccessPolicy, value: object, path: str) -> Iterator[Fault]:
    """Find what of a list of mounts is not permitted."""
    for number, mount in enumerate(parts(value)):
        yield from _mount(policy, mount, f"{path}.{number}")


def _mount(policy: AccessPolicy, mount: object, path: str) -> Iterator[Fault]:
    kinds = [kind.strip().casefold() for kind in texts(v for k, v in folded(mount) if k == "type")]
    sources = list(texts(value for key, value in folded(mount) if key == "source"))
    for kind in kinds or ["bind"]:
        yield from _sources(policy, kind, sources, path)
    yield from _driven(policy, mount, path)


def _sources(policy: AccessPolicy, kind: str, sources: list[str], path: str) -> Iterator[Fault]:
    """Find out whether a mount of a kind may have its sources; engines know other kinds than we."""
    if kind == "image":
        for source in sources:
            yield from image_faults(policy, source, path)
        return
    if kind not in ("bind", "volume", "tmpfs"):
        yield from _not_driven(policy, kind, path)
    for source in sources:
        if kind == "bind":
            yield from path_faults(policy, source, path)
        elif source:
            yield from source_faults(policy, source, path)


def _driven(policy: AccessPolicy, mount: object, path: str) -> Iterator[Fault]:
    """Find what of a volume's drivers and their options is not permitted.

    All of a mount at once: an engine puts together what keys say that differ in case alone.
    """
    options = [part for key, part in folded(mount) if key == "volumeoptions"]
    drivers = [d for part in options for key, d in folded(part) if key == "driverconfig"]
    for name in texts(v for driver in drivers for key, v in folded(driver) if key == "name"):
        if name not in ("", "local"):
            yield from _not_driven(policy, name, path)
    given = [o for driver in drivers for key, o in folded(driver) if key == "options"]
    yield from _mounted(policy, [pair for part in given for pair in folded(part)], path)


def _mounted(policy: AccessPolicy, options: list[tuple[str, object]], path: str) -> Iterator[Fault]:
    """Find what is not permitted of what the driver local is to mount."""
    if not options:
        return
    given = {wanted: list(texts(v for k, v in options if k == wanted)) for wanted in _OPTIONS}
    flags = {word.strip() for text in given["o"] for word in text.casefold().split(",")}
    kinds = {kind.strip().casefold() for kind in given["type"]}
    if flags & _PATHS or not kinds or kinds & {"", "none", "bind"}:
        for device in given["device"]:
            yield from path_faults(policy, device, path)
    for kind in sorted(kinds - {"", "none", "bind", "tmpfs"}):
        yield from _not_driven(policy, f"local/{kind}", path)


def _not_driven(policy: AccessPolicy, name: str, path: str) -> Iterator[Fault]:
    if not allows(policy.volume_drivers, name):
        yield Fault(path, "volume_drivers", f"a volume of {name}", name)
