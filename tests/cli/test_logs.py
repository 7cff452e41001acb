"""What ``tenured`` logs is one line a record."""

from __future__ import annotations

import logging
import sys

from tenure.cli.logs import TextFormatter


def test_a_client_s_words_make_no_further_line() -> None:
    path = "/v1/uploads/x\n2026-11-28 00:00:00 INFO tenure: all is well\x1b[31m"
    record = logging.LogRecord("tenure", logging.ERROR, "", 0, "request: %s", (path,), None)
    line = TextFormatter().format(record)
    assert line.isprintable()
    assert "\\n2026-11-28" in line


def test_a_traceback_is_below_its_line() -> None:
    try:
        raise ValueError("wrong\nindeed")
    except ValueError:
        record = logging.LogRecord("t", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    first, *rest = TextFormatter().format(record).splitlines()
    assert first.endswith("t: failed")
    assert rest[0].startswith("Traceback")
