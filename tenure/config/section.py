"""What all sections of the configuration files are made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


def stated(default: Any, description: str, *, shown: str = "") -> Any:
    """Return a key with its default and its meaning; ``shown`` stands for a default of its own."""
    return Field(default=default, description=description, json_schema_extra={"shown": shown})


def required(description: str) -> Any:
    """Return a key that must be given."""
    return Field(description=description)


class Section(BaseModel):
    """A mapping with known keys; an empty one (``power:`` and nothing below) means defaults.

    Only those that are validated by themselves have checks made, when they first are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return {} if value is None else value
