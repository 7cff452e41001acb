"""What all sections of the configuration files are made of.

One model is both: what a file may say, and what the daemon works with. A field has the name and the
unit that the code uses; where the file says it otherwise, ``key`` is how, and the field's type
converts (``grace_us: Seconds = stated(60, ..., key="grace_s")``). Its default is written in the
file's unit. Checks between the values of a section stand beside them, in ``faults``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tenure.config.yamlfile import Loc

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Found = Iterator[tuple[Loc, str]]
Made = TypeVar("Made", bound="DataclassInstance")


def stated(
    default: object,
    description: str,
    *,
    key: str | None = None,
    shown: str = "",
    is_secret: bool = False,
) -> Any:
    """Return a key with its default and its meaning.

    ``shown`` stands in the reference in place of the default. ``key`` is its name in the file,
    where that is not the field's.
    """
    return Field(
        default=default,
        alias=key,
        description=description,
        repr=not is_secret,
        json_schema_extra={"shown": shown},
    )


def derived(default: object, description: str, *, shown: str) -> Any:
    """Return a key that ``defaults.py`` fills in, so that its default here is never used."""
    return Field(
        default=default,
        validate_default=False,
        description=description,
        json_schema_extra={"shown": shown},
    )


def required(description: str, *, key: str | None = None) -> Any:
    """Return a key that must be given."""
    return Field(alias=key, description=description)


def part(section: type[Section], description: str) -> Any:
    """Return a section in a section, which may be left out."""
    return Field(default_factory=section, description=description)


class Section(BaseModel):
    """A mapping with known keys; an empty one (``power:`` and nothing below) means defaults.

    Only those that are validated by themselves have checks made, when they first are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        return {} if value is None else value

    @classmethod
    def known_keys(cls) -> frozenset[str]:
        """Return all keys, as the file spells them."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())

    @property
    def stated_keys(self) -> frozenset[str]:
        """Return the keys that the file has, as it spells them."""
        own = type(self).model_fields
        return frozenset(own[name].alias or name for name in self.model_fields_set)

    def faults(self) -> Found:
        """Find faults between the values of this section alone, each well formed by itself."""
        yield from ()

    def all_faults(self) -> Found:
        """Find the faults of this section and of those in it, with paths from here."""
        yield from self.faults()
        for name, field in type(self).model_fields.items():
            key, value = field.alias or name, getattr(self, name)
            parts: list[tuple[Loc, object]] = [((key,), value)]
            if isinstance(value, tuple):
                parts = [((key, index), one) for index, one in enumerate(value)]
            elif isinstance(value, Mapping):
                parts = [((key, str(name)), one) for name, one in value.items()]
            for here, one in parts:
                if isinstance(one, Section):
                    yield from ((here + loc, words) for loc, words in one.all_faults())


def filled(kind: type[Made], *sources: Section, **made: object) -> Made:
    """Return a dataclass with ``made`` and, by their names, what the sections have.

    A field that none has keeps its default. Raises TypeError where it has none, or where several
    sections have it.
    """
    values = dict(made)
    for field in fields(kind):
        if field.name not in made:
            found = [getattr(one, field.name) for one in sources if hasattr(one, field.name)]
            if len(found) > 1:
                raise TypeError(f"{field.name} stands in {len(found)} sections")
            if found:
                values[field.name] = found[0]
    return kind(**values)
