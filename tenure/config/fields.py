"""The kinds of values in the configuration files, each with its bounds, its words and its unit.

Numbers are strict: a quoted number or a boolean in place of one is a slip, not a number. What the
file says in seconds, hours, cores, mebibytes or dollars comes out in the model's units.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    GetPydanticSchema,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import core_schema

from tenure.config.urls import (
    Listener,
    check_agent_url,
    check_engine_url,
    check_host_name,
    check_influx_url,
    check_name_node_url,
    check_redis_url,
    parse_listener,
)
from tenure.model.node import Site
from tenure.model.roles import Role
from tenure.model.tier import TierKind
from tenure.model.units import HOUR_US, MIB, seconds_to_us, usd_to_nano

_YEAR_S = 366 * 24 * 3600
_MAX_BYTES = 1 << 60
_CYCLES = {"GenerationCycle": "generation", "ForecastCycle": "forecast"}
_BYTE_SIZE = TypeAdapter(ByteSize)


def _no_control(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError("holds control characters")
    return text


@dataclass(frozen=True, slots=True)
class Place:
    """Where relative paths count from, and the user's home folder; both absolute."""

    base: Path
    home: Path

    def path(self, text: str) -> str:
        """Return a path of the file as an absolute one; "" stays."""
        here = self.home / text[2:] if text.startswith("~/") else Path(text)
        return str(self.base / here) if text else ""


def _absolute(text: str, known: ValidationInfo) -> str:
    return known.context.path(text) if isinstance(known.context, Place) else text


def _size(value: object) -> int:
    """Return bytes for a whole number of bytes or text such as ``512MiB``."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("must be a size such as 512MiB or 2GiB, or a whole number of bytes")
    if isinstance(value, int):
        return value
    try:
        return int(_BYTE_SIZE.validate_python(value))
    except (ValidationError, OverflowError):
        raise ValueError(
            "is not a size: write 512MiB or 2GiB, or a whole number of bytes"
        ) from None


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _mac(text: str) -> str:
    if text and not re.fullmatch(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}", text):
        raise ValueError("must be six bytes in hexadecimal digits, as 00:11:22:33:44:55")
    return text.lower().replace("-", ":")


def _ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError("must be an IPv4 address, as 10.0.0.255") from None


def _tier_path(text: str) -> str:
    if not text.startswith("/") or text.rstrip("/") == "":
        raise ValueError("must be an absolute path below /, as /mnt/ssd")
    path = text.rstrip("/")
    if any(part in ("", ".", "..") for part in path[1:].split("/")) or ":" in path:
        raise ValueError("must be a plain path without . or .. or : in it")
    return path


def _named(word: str) -> WithJsonSchema:
    """Name the type in the reference."""
    return WithJsonSchema({"type": word})


def _made(convert: Callable[[object], object], stated: object) -> GetPydanticSchema:
    """Validate and document as ``stated``, then convert."""
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_after_validator_function(
            convert, handler.generate_schema(stated)
        )
    )


def _times(unit: float) -> Callable[[float], int]:
    return lambda number: round(number * unit)


Text = Annotated[str, Strict(), StringConstraints(max_length=4096), AfterValidator(_no_control)]
Word = Annotated[Text, StringConstraints(min_length=1)]
Name = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}\z"), _named("name")
]
CycleName = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\z"), _named("name")
]
Namespace = CycleName
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000_000)]
Positive = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000)]
Number = Annotated[float, Strict(), Field(ge=0, le=1e12, allow_inf_nan=False)]
Lent = Annotated[float, Strict(), Field(ge=0, le=0.9, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
Quantile = Annotated[float, Strict(), Field(gt=0.5, lt=1, allow_inf_nan=False)]
#: Models need a day to learn from, and look back on seven.
HistoryDays = Annotated[float, Strict(), Field(ge=1, le=7, allow_inf_nan=False)]
Factor = Annotated[float, Strict(), Field(ge=1, le=1000, allow_inf_nan=False)]
Weight = Annotated[float, Strict(), Field(ge=0.001, le=1000, allow_inf_nan=False)]
Speed = Annotated[float, Strict(), Field(gt=0, le=1000, allow_inf_nan=False)]
SecondsNumber = Annotated[
    float, Strict(), Field(ge=0, le=100 * _YEAR_S, allow_inf_nan=False), _named("seconds")
]
IntervalNumber = Annotated[
    float, Strict(), Field(ge=0.1, le=_YEAR_S, allow_inf_nan=False), _named("seconds")
]
#: Times: microseconds.
Seconds = Annotated[int, _made(seconds_to_us, SecondsNumber)]
Interval = Annotated[int, _made(seconds_to_us, IntervalNumber)]
Hours = Annotated[int, _made(_times(HOUR_US), Positive)]
Days = Annotated[int, _made(_times(24 * HOUR_US), Positive)]
PeriodMs = Annotated[int, _made(_times(1000), Annotated[int, Strict(), Field(ge=20, le=10_000)])]
CalmPeriods = Annotated[int, Strict(), Field(ge=1, le=600)]
#: Money: nano-dollars.
Dollars = Annotated[int, _made(usd_to_nano, Number)]
Flag = Annotated[bool, Strict()]
#: Sizes: bytes.
Size = Annotated[int, BeforeValidator(_size), Field(gt=0, le=_MAX_BYTES), _named("size")]
KeptSize = Annotated[int, BeforeValidator(_size), Field(ge=0, le=_MAX_BYTES), _named("size")]
Mebibytes = Annotated[int, _made(_times(MIB), Positive)]
KeptMebibytes = Annotated[int, _made(_times(MIB), Count)]
CpusNumber = Annotated[
    float, Strict(), Field(ge=0.001, le=1_000_000, allow_inf_nan=False), _named("cores")
]
_KeptNumber = Annotated[
    float, Strict(), Field(ge=0, le=1_000_000, allow_inf_nan=False), _named("cores")
]
_FloorNumber = Annotated[
    float, Strict(), Field(ge=0.01, le=1_000_000, allow_inf_nan=False), _named("cores")
]
#: CPU: thousandths of a core. ``FreeCpus`` have no bound of their own but that of any number.
Cpus = Annotated[int, _made(_times(1000), CpusNumber)]
KeptCpus = Annotated[int, _made(_times(1000), _KeptNumber)]
FloorCpus = Annotated[int, _made(_times(1000), _FloorNumber)]
FreeCpus = Annotated[int, _made(_times(1000), Number)]
#: Paths, made absolute by a ``Place`` in the context: as text, and as a path.
FilePath = Annotated[Word, AfterValidator(_absolute), _named("path")]
TlsFile = Annotated[Text, AfterValidator(_absolute), _named("path")]
AnyPath = Annotated[Path, _made(Path, FilePath)]
#: A folder of this machine that is stated as an absolute path.
Folder = Annotated[Path, _made(Path, Annotated[Word, _named("path")])]
TierPath = Annotated[Word, AfterValidator(_tier_path), _named("path")]
HostName = Annotated[Text, AfterValidator(check_host_name), _named("name")]
ListenUrl = Annotated[Listener, _made(parse_listener, Annotated[Word, _named("URL")])]
AgentUrl = Annotated[Word, AfterValidator(check_agent_url), _named("URL")]
EngineUrl = Annotated[Word, AfterValidator(check_engine_url), _named("URL")]
InfluxUrl = Annotated[Word, AfterValidator(check_influx_url), _named("URL")]
NameNodeUrl = Annotated[Word, AfterValidator(check_name_node_url), _named("URL")]
RedisUrl = Annotated[Word, AfterValidator(check_redis_url), _named("URL")]
Mac = Annotated[Text, AfterValidator(_mac), _named("MAC address")]
Ipv4 = Annotated[Word, AfterValidator(_ipv4), _named("IPv4 address")]
Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
#: Lists that are not empty; as tuples pydantic would not count their faulty entries.
Listeners = Annotated[
    tuple[ListenUrl, ...],
    _made(tuple, Annotated[list[ListenUrl], Field(min_length=1)]),
    BeforeValidator(_as_list),
]
NameNodes = Annotated[
    tuple[NameNodeUrl, ...],
    _made(tuple, Annotated[list[NameNodeUrl], Field(min_length=1, max_length=16)]),
]
Names = Annotated[tuple[Name, ...], _made(tuple, Annotated[list[Name], Field(min_length=1)])]
Command = Annotated[tuple[Text, ...], Field(max_length=1000)]
RoleName = Literal["metrics", "read", "submit", "operate", "admin", "worker"]
RoleKind = Annotated[Role, _made(Role, RoleName)]
SiteKind = Annotated[Site, _made(Site, Literal["local", "cloud"])]
TierWord = Annotated[TierKind, _made(TierKind, Literal["memory", "ssd", "hdd"])]
CycleKind = Annotated[
    Literal["generation", "forecast"],
    _made(_CYCLES.__getitem__, Literal["GenerationCycle", "ForecastCycle"]),
]
