"""`cycles.yml`: the paper's Listing 8.3, plus a few optional keys of ours.

``class: GenerationCycle``, ``args:`` the source generation, ``cron:`` five fields; the
underscores printed in the listing's strings are visible blanks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tenure.config.build import build_cycle
from tenure.config.checks import check_cycle
from tenure.config.cycleschema import CycleSection
from tenure.config.faults import Faults
from tenure.config.fields import CycleName
from tenure.config.yamlfile import read_file
from tenure.model.errors import FieldError
from tenure.model.plan import CycleSpec

_NAME: TypeAdapter[str] = TypeAdapter(CycleName)


def read_cycles(
    path: Path, generations: Sequence[str] | None
) -> tuple[tuple[CycleSpec, ...], list[FieldError]]:
    """Return the file's cycles and its faults; ``generations`` None: these are faulty themselves.

    An empty file means no cycles at all.
    """
    faults = Faults(read_file(path), root="cycles")
    raw = faults.document.value
    if faults.document.faults:
        return (), faults.all()
    if raw is not None and not isinstance(raw, dict):
        faults.add((), "must be a mapping of names to cycles")
        return (), faults.all()
    cycles = [_cycle(name, value, generations, faults) for name, value in (raw or {}).items()]
    return tuple(cycle for cycle in cycles if cycle is not None), faults.all()


def _cycle(
    name: Any, value: Any, generations: Sequence[str] | None, faults: Faults
) -> CycleSpec | None:
    try:
        _NAME.validate_python(name)
    except ValidationError:
        faults.add((str(name),), "is no name: lower-case letters, digits, '.', '_' and '-' only")
        return None
    try:
        section = CycleSection.model_validate(value)
    except ValidationError as error:
        faults.add_errors(error, (name,), CycleSection)
        return None
    found = list(check_cycle(name, section, generations))
    for loc, message in found:
        faults.add(loc, message)
    if found or generations is None:
        return None
    return build_cycle(name, section, generations)
