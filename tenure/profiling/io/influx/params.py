"""What the InfluxDB statistics store is told, checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from tenure.model.units import HOUR_US, US
from tenure.profiling.io.influx.spool import SpoolBounds


@dataclass(frozen=True, slots=True)
class InfluxParams:
    """Where the server is and how it is used.

    ``database`` is the bucket in InfluxDB 2. Either ``token`` (2 and 3) or ``username`` and
    ``password`` (1), or none. ``source`` tenure: own samples are written and read; cadvisor: a
    database that cAdvisor fills is read and never written. ``interval_us`` is the time between two
    samples, ``retention_us`` that of a database made here, ``window_us`` the longest time that a
    profile looks back. ``timeout_s`` bounds one request,
    ``retry_min_s`` and ``retry_max_s`` the pause after a failed one.
    """

    url: str
    database: str = "tenure"
    org: str = ""
    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    is_verified: bool = True
    ca_file: str = ""
    source: Literal["tenure", "cadvisor"] = "tenure"
    interval_us: int = 30 * US
    retention_us: int = 21 * 24 * HOUR_US
    window_us: int = 6 * HOUR_US
    spool: SpoolBounds = field(default_factory=SpoolBounds)
    timeout_s: float = 10.0
    retry_min_s: float = 0.5
    retry_max_s: float = 30.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the URL must be http://host:8086 or https://host:8086")
        if not self.database:
            raise ValueError("the database needs a name")
        if self.token and self.username:
            raise ValueError("either a token or a username, not both")
        if min(self.interval_us, self.retention_us, self.window_us) <= 0:
            raise ValueError("interval, retention and window must be positive")
        if not 0 < self.retry_min_s <= self.retry_max_s or self.timeout_s <= 0:
            raise ValueError("time-out and pauses must be positive, the longest pause last")

    @property
    def base(self) -> str:
        """The URL without a slash at its end."""
        return self.url.rstrip("/")
