"""The interface of this room: ``load`` the settings, or ``validate`` and list every fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tenure.config import defaults, environment
from tenure.config.build import build_settings, default_cycles
from tenure.config.checks import check_file, check_hdfs, check_node, check_unique
from tenure.config.cyclesfile import read_cycles
from tenure.config.faults import Faults, bounded
from tenure.config.reach import check_ssh_folder
from tenure.config.schema import ConfigFile, NodeSection
from tenure.config.settings import Settings
from tenure.config.yamlfile import Document, Loc, read_file
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.plan import CycleSpec

_PATHS = ("state_dir", "token_file", "cycles_file")


def load(path: Path | None, env: Mapping[str, str]) -> Settings:
    """Return the settings of the file at ``path`` (None: defaults) with overrides from ``env``.

    Relative paths in the file count from its folder. Raises InvalidInput with every fault in
    ``fields``.
    """
    settings, faults = _read(path, env)
    if settings is None or faults:
        name = path.name if path is not None else "the configuration"
        count = "one fault" if len(faults) == 1 else f"{len(faults)} faults"
        first = f"{faults[0].path}: {faults[0].message}"
        raise InvalidInput(f"{name} has {count}; first {first}", fields=tuple(faults))
    return settings


def validate(path: Path | None, env: Mapping[str, str]) -> list[FieldError]:
    """Return every fault of the configuration, none if ``load`` would succeed."""
    return _read(path, env)[1]


def _read(path: Path | None, env: Mapping[str, str]) -> tuple[Settings | None, list[FieldError]]:
    document = Document("tenured.yml") if path is None else read_file(path)
    raw = {} if document.value is None else document.value
    if document.faults and document.value is None:
        return None, bounded(document.faults)
    if not isinstance(raw, dict):
        fault = FieldError(document.name, "must be a mapping of keys to values")
        return None, bounded([*document.faults, fault])
    variables, wrong = environment.apply(raw, env, ConfigFile.model_fields)
    is_cycles_file_stated = isinstance(raw.get("cycles_file"), str)
    is_cycles_file_off = "cycles_file" in raw and raw["cycles_file"] is None
    _resolve(raw, path, env)
    defaults.fill(raw, env)
    faults = Faults(document, variables=variables)
    file, nodes = _shaped(raw, faults)
    cycles_file = None if is_cycles_file_off else _cycles_path(raw, path)
    generations = _generations(file, faults)
    is_lending = any(node.harvest.mode != "off" for node in nodes)
    cycles, more = _cycles(
        cycles_file, generations, is_stated=is_cycles_file_stated, is_lending=is_lending
    )
    every = bounded([*wrong, *faults.all(), *more])
    if every or file is None:
        return None, every
    used = cycles_file if cycles_file is not None and cycles_file.exists() else None
    return build_settings(file, nodes, cycles, path=path, cycles_file=used), []


def _resolve(raw: dict[str, Any], path: Path | None, env: Mapping[str, str]) -> None:
    """Make the paths in the file absolute; what is not text is left for the schema to refuse."""
    base = Path.cwd() if path is None else path.absolute().parent
    stats = raw.get("stats")
    parts = [(raw, key) for key in _PATHS]
    parts += [(stats, "ca_file")] if isinstance(stats, dict) else []
    parts += _reach_paths(raw)
    for part, key in parts:
        text = part.get(key)
        if isinstance(text, str) and text:
            here = defaults.home(env) / text[2:] if text.startswith("~/") else Path(text)
            part[key] = str(base / here)


def _reach_paths(raw: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return where the paths of what reaches nodes stand: the mapping and the key in it."""
    found: list[tuple[Any, tuple[str, ...]]] = [(raw.get("tls"), ("cert", "key", "client_ca"))]
    datasets = raw.get("datasets")
    sources = datasets.get("hdfs") if isinstance(datasets, dict) else None
    found += [(one, ("token_file", "ca")) for one in sources or () if isinstance(sources, list)]
    nodes = raw.get("nodes")
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict):
            found.append((node.get("tls"), ("ca", "cert", "key")))
            found.append((node.get("ssh"), ("key", "known_hosts", "config")))
            found.append((node.get("agent"), ("token_file", "ca", "cert", "key")))
            found.append((node.get("power"), ("credentials",)))
    return [(part, key) for part, keys in found if isinstance(part, dict) for key in keys]


def _cycles_path(raw: dict[str, Any], path: Path | None) -> Path | None:
    stated = raw.get("cycles_file")
    if isinstance(stated, str) and stated:
        return Path(stated)
    return None if path is None else path.absolute().parent / defaults.CYCLES


def _shaped(raw: dict[str, Any], faults: Faults) -> tuple[ConfigFile | None, list[NodeSection]]:
    """Check each part by itself, then against the others as far as they are well formed."""
    rest = {key: value for key, value in raw.items() if key != "nodes"}
    file = _parse(rest, faults)
    generations = _generations(file, faults)
    nodes = _nodes(raw["nodes"], generations, faults)
    if file is not None:
        for loc, message in check_ssh_folder(file, nodes):
            faults.add(loc, message)
        for loc, message in check_hdfs(file, nodes):
            faults.add(loc, message)
        for loc, message in check_file(file):
            if generations is not None or loc[0] not in ("power", "generations"):
                faults.add(loc, message)
    return file, nodes


def _parse(raw: dict[str, Any], faults: Faults) -> ConfigFile | None:
    """Return the file without its nodes; a faulty key is noted and its default used instead."""
    try:
        return ConfigFile.model_validate(raw)
    except ValidationError as error:
        faults.add_errors(error, (), ConfigFile)
        sound = _without(raw, [details["loc"] for details in error.errors()])
    try:
        return ConfigFile.model_validate(sound)
    except ValidationError:
        return None


def _without(raw: dict[str, Any], locs: Iterable[Loc]) -> dict[str, Any]:
    """Return a copy that lacks the faulty keys: in a section the key alone, not the section."""
    sound = {key: dict(value) if isinstance(value, dict) else value for key, value in raw.items()}
    for top, *inner in filter(None, locs):
        section = sound.get(str(top))
        if inner and isinstance(section, dict):
            section.pop(inner[0], None)
        else:
            sound.pop(str(top), None)
    return sound


def _generations(file: ConfigFile | None, faults: Faults) -> list[str] | None:
    """Return the generations, None if they are faulty: then nothing is checked against them."""
    is_faulty = any(item.path.split(".")[0] == "generations" for _, _, item in faults.found)
    return None if file is None or is_faulty else file.generations


def _nodes(raw: Any, generations: list[str] | None, faults: Faults) -> list[NodeSection]:
    if not isinstance(raw, list) or not raw:
        remedy = "leave the key out to use the local engine alone"
        faults.add(("nodes",), "must be a list" if raw else f"must not be empty; {remedy}")
        return []
    nodes = []
    for index, value in enumerate(raw):
        node = _part(NodeSection, value, ("nodes", index), faults)
        if node is not None:
            nodes.append(node)
            for loc, message in check_node(index, node, generations):
                faults.add(loc, message)
    for loc, message in check_unique(raw):
        faults.add(loc, message)
    return nodes


def _part(schema: type[NodeSection], value: Any, loc: Loc, faults: Faults) -> NodeSection | None:
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        faults.add_errors(error, loc, schema)
        return None


def _cycles(
    path: Path | None, generations: list[str] | None, *, is_stated: bool, is_lending: bool
) -> tuple[tuple[CycleSpec, ...], list[FieldError]]:
    if path is not None and (is_stated or path.exists()):
        return read_cycles(path, generations)
    return default_cycles(generations or (), is_lending=is_lending), []
