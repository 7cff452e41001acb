"""What the processes of ``tenured`` log, and where to."""

from __future__ import annotations

import json
import logging


class TextFormatter(logging.Formatter):
    """One line a record, whatever a client put into what is told; tracebacks come below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_shown, line))


def _shown(char: str) -> str:
    return char if char.isprintable() else repr(char)[1:-1]


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row)


def log_to_stderr(level: str, *, is_json: bool) -> None:
    """Log to standard error, one line a record, as text or JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if is_json else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
