"""Units: integers everywhere, so that sums are exact.

Time is integer microseconds since the epoch in UTC (``_us``), money integer nano-dollars
(``_nano``), CPU integer thousandths of a core (``cpu_m``), memory bytes.
"""

from datetime import UTC, datetime

US = 1_000_000
HOUR_US = 3600 * US
NANO = 1_000_000_000
MIB = 1 << 20
FOREVER_US = 1 << 62


def seconds_to_us(seconds: float) -> int:
    """Return whole microseconds for a number of seconds."""
    return round(seconds * US)


def usd_to_nano(usd: float) -> int:
    """Return nano-dollars for dollars."""
    return round(usd * NANO)


def nano_to_usd(nano: int) -> float:
    """Return dollars for nano-dollars, for display only."""
    return nano / NANO


def cost_nano(price_nano_per_h: int, on_us: int) -> int:
    """Return the cost of ``on_us`` microseconds at an hourly price, rounded down.

    Differences of this function at the ends of adjoining intervals telescope, so shares cut from
    one interval always sum to the whole.
    """
    return price_nano_per_h * on_us // HOUR_US


def size_text(count: int) -> str:
    """Return bytes as people read them, with a binary unit: ``1.5GiB``."""
    amount, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(amount) >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.4g}{units[0]}"


def iso(at_us: int | None) -> str | None:
    """Return RFC 3339 UTC text with microseconds, or None for None."""
    if at_us is None:
        return None
    text = datetime.fromtimestamp(at_us / US, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")
