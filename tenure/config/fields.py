"""The kinds of values in the configuration files, each with its bounds and its words.

Numbers are strict: a quoted number or a boolean in place of one is a slip, not a number.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from tenure.config.urls import (
    check_agent_url,
    check_engine_url,
    check_host_name,
    check_influx_url,
    check_name_node_url,
    check_redis_url,
    parse_listener,
)

_YEAR_S = 366 * 24 * 3600
_MAX_BYTES = 1 << 60
_BYTE_SIZE = TypeAdapter(ByteSize)


def _no_control(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError("holds control characters")
    return text


def _size(value: Any) -> int:
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


def _listener(text: str) -> str:
    return parse_listener(text).url


def _as_list(value: Any) -> Any:
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


Text = Annotated[str, Strict(), StringConstraints(max_length=4096), AfterValidator(_no_control)]
Word = Annotated[Text, StringConstraints(min_length=1)]
Name = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}\z"), _named("name")
]
CycleName = Annotated[
    str, Strict(), StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}\z"), _named("name")
]
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
Seconds = Annotated[
    float, Strict(), Field(ge=0, le=100 * _YEAR_S, allow_inf_nan=False), _named("seconds")
]
Interval = Annotated[
    float, Strict(), Field(ge=0.1, le=_YEAR_S, allow_inf_nan=False), _named("seconds")
]
CalmPeriods = Annotated[int, Strict(), Field(ge=1, le=600)]
PeriodMs = Annotated[int, Strict(), Field(ge=20, le=10_000)]
FloorCpus = Annotated[
    float, Strict(), Field(ge=0.01, le=1_000_000, allow_inf_nan=False), _named("cores")
]
Flag = Annotated[bool, Strict()]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0, le=_MAX_BYTES), _named("size")]
Cpus = Annotated[
    float, Strict(), Field(ge=0.001, le=1_000_000, allow_inf_nan=False), _named("cores")
]
Kept = Annotated[float, Strict(), Field(ge=0, le=1_000_000, allow_inf_nan=False), _named("cores")]
KeptSize = Annotated[int, BeforeValidator(_size), Field(ge=0, le=_MAX_BYTES), _named("size")]
FolderOrFile = Annotated[Word, _named("path")]
TierPath = Annotated[Word, AfterValidator(_tier_path), _named("path")]
TlsFile = Annotated[Text, _named("path")]
HostName = Annotated[Text, AfterValidator(check_host_name), _named("name")]
ListenUrl = Annotated[Word, AfterValidator(_listener), _named("URL")]
AgentUrl = Annotated[Word, AfterValidator(check_agent_url), _named("URL")]
EngineUrl = Annotated[Word, AfterValidator(check_engine_url), _named("URL")]
InfluxUrl = Annotated[Word, AfterValidator(check_influx_url), _named("URL")]
NameNodeUrl = Annotated[Word, AfterValidator(check_name_node_url), _named("URL")]
RedisUrl = Annotated[Word, AfterValidator(check_redis_url), _named("URL")]
Mac = Annotated[Text, AfterValidator(_mac), _named("MAC address")]
Ipv4 = Annotated[Word, AfterValidator(_ipv4), _named("IPv4 address")]
Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
Listeners = Annotated[list[ListenUrl], BeforeValidator(_as_list), Field(min_length=1)]
Command = Annotated[list[Text], Field(max_length=1000)]
