"""The interface of this room: ``load`` the settings, or ``validate`` and list every fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from tenure.config import defaults, environment
from tenure.config.cyclesfile import default_cycles, read_cycles
from tenure.config.faults import Faults, bounded
from tenure.config.fields import Place
from tenure.config.nodes import NodeSection
from tenure.config.settings import ConfigFile, Settings, unknown_generation
from tenure.config.yamlfile import Document, Loc, read_file
from tenure.model.errors import FieldError, InvalidInput


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
    variables, wrong = environment.apply(raw, env, ConfigFile.known_keys())
    place = Place(Path.cwd() if path is None else path.absolute().parent, defaults.home(env))
    defaults.fill(raw, place)
    faults = Faults(document, variables=variables)
    file, nodes = _shaped(raw, place, faults)
    cycles_file, is_stated = _cycles_file(raw, path, place)
    generations = _generations(file, faults)
    is_lending = any(node.is_lending for node in nodes)
    if cycles_file is not None and (is_stated or cycles_file.exists()):
        cycles, more = read_cycles(cycles_file, generations)
    else:
        cycles, more = default_cycles(generations or (), is_lending=is_lending), []
    every = bounded([*wrong, *faults.all(), *more])
    if every or file is None:
        return None, every
    used = cycles_file if cycles_file is not None and cycles_file.exists() else None
    own = {"path": path, "cycles_file": used, "cycles": cycles}
    specs = tuple(node.spec for node in nodes)
    return Settings.model_construct(**(dict(file) | own | {"nodes": specs})), []


def _cycles_file(
    raw: Mapping[str, object], path: Path | None, place: Place
) -> tuple[Path | None, bool]:
    """Return the file of the cycles, None for none, and whether ``tenured.yml`` names it."""
    stated = raw.get("cycles_file", "")
    if isinstance(stated, str) and stated:
        return Path(place.path(stated)), True
    if path is None or stated is None:
        return None, False
    return path.absolute().parent / defaults.CYCLES, False


def _shaped(
    raw: dict[str, object], place: Place, faults: Faults
) -> tuple[ConfigFile | None, list[NodeSection]]:
    """Check each part by itself, then against the others as far as they are well formed."""
    rest = {key: value for key, value in raw.items() if key != "nodes"}
    file = _parse(rest, place, faults)
    generations = _generations(file, faults)
    nodes = _nodes(raw["nodes"], generations, place, faults)
    if file is not None:
        for loc, message in (*file.fleet_faults(nodes), *file.all_faults()):
            if generations is not None or loc[0] not in ("power", "generations"):
                faults.add(loc, message)
    return file, nodes


def _parse(raw: dict[str, object], place: Place, faults: Faults) -> ConfigFile | None:
    """Return the file without its nodes; a faulty key is noted and its default used instead."""
    try:
        return ConfigFile.model_validate(raw, context=place)
    except ValidationError as error:
        faults.add_errors(error, (), ConfigFile)
        sound = _without(raw, [details["loc"] for details in error.errors()])
    try:
        return ConfigFile.model_validate(sound, context=place)
    except ValidationError:
        return None


def _without(raw: dict[str, object], locs: Iterable[Loc]) -> dict[str, object]:
    """Return a copy that lacks the faulty keys: in a section the key alone, not the section."""
    sound = {key: dict(value) if isinstance(value, dict) else value for key, value in raw.items()}
    for top, *inner in filter(None, locs):
        section = sound.get(str(top))
        if inner and isinstance(section, dict):
            section.pop(inner[0], None)
        else:
            sound.pop(str(top), None)
    return sound


def _generations(file: ConfigFile | None, faults: Faults) -> Sequence[str] | None:
    """Return the generations, None if they are faulty: then nothing is checked against them."""
    is_faulty = any(item.path.split(".")[0] == "generations" for _, _, item in faults.found)
    return None if file is None or is_faulty else file.generations


def _nodes(
    raw: object, generations: Sequence[str] | None, place: Place, faults: Faults
) -> list[NodeSection]:
    if not isinstance(raw, list) or not raw:
        remedy = "leave the key out to use the local engine alone"
        faults.add(("nodes",), "must be a list" if raw else f"must not be empty; {remedy}")
        return []
    nodes = []
    for index, value in enumerate(raw):
        here: Loc = ("nodes", index)
        try:
            node = NodeSection.model_validate(value, context=place)
        except ValidationError as error:
            faults.add_errors(error, here, NodeSection)
            continue
        nodes.append(node)
        if generations is not None and node.generation not in generations:
            faults.add((*here, "generation"), unknown_generation(generations))
        for loc, message in node.all_faults():
            faults.add((*here, *loc), message)
    _add_shared(raw, faults)
    return nodes


def _add_shared(raw_nodes: Iterable[object], faults: Faults) -> None:
    """Add names, engines and agents that two nodes share; ``raw_nodes`` as in the file.

    What an agent tells of its whole node would count for both.
    """
    for loc in (("name",), ("url",), ("agent", "url")):
        first: dict[str, int] = {}
        for index, node in enumerate(raw_nodes):
            value = node
            for key in loc:
                value = value.get(key) if isinstance(value, dict) else None
            if not isinstance(value, str):
                continue
            if value in first:
                told = f"is also the {' '.join(loc)} of nodes.{first[value]}"
                faults.add(("nodes", index, *loc), told)
            first.setdefault(value, index)
