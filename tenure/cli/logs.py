"""What the processes of ``tenured`` log, and where to."""

from __future__ import annotations

import json
import logging


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
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if is_json else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
