"""What commands print: data on stdout, messages on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from tenure.model.errors import TenureError
from tenure.model.jsons import Json
from tenure.model.units import size_text

#: A time as the API tells it. People read seconds; programs take ``--json``.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z")
_GAP = "  "
#: A last column that has less room than this is not folded.
_NARROW = 20
Column = tuple[str, Callable[[Json], object]]

Spec = str | Column | tuple[str, str] | tuple[str, str, Callable[[Any], object]]


def columns(*specs: Spec) -> list[Column]:
    """Return the columns of a table.

    A text names members that stand in columns of their own name, in capitals. Else a column is its
    heading with a member, and how that is shown, or with a function of the whole record.
    """
    return [column for spec in specs for column in _columns(spec, str.upper)]


def lines(*specs: Spec) -> list[Column]:
    """Return the lines of one record; as ``columns``, but in small letters."""
    return [column for spec in specs for column in _columns(spec, str)]


def _columns(spec: Spec, heading: Callable[[str], str]) -> list[Column]:
    if isinstance(spec, str):
        return [(heading(key.replace("_", " ")), itemgetter(key)) for key in spec.split()]
    name, of, *shown = spec
    if not isinstance(of, str):
        return [(name, of)]
    if not shown:
        return [(name, itemgetter(of))]
    key, show = of, shown[0]
    return [(name, lambda record: show(record[key]))]


class Output:
    """The two streams of a command, in the form its flags ask for."""

    def __init__(self, *, is_json: bool, is_quiet: bool) -> None:
        self.is_json = is_json
        self.is_quiet = is_quiet

    def data(self, value: Any, render: Callable[[Any], None]) -> None:
        """Print ``value`` as JSON, or have it rendered for people."""
        if self.is_json:
            self.write(json.dumps(value, indent=2, ensure_ascii=False))
        else:
            render(value)

    def rows(self, items: Sequence[Json], columns: Sequence[Column], *, key: str = "id") -> None:
        """Print records as a table, as JSON, or only their keys where quiet."""
        if self.is_quiet and not self.is_json:
            for item in items:
                self.write(str(item[key]))
        else:
            self.data(list(items), lambda rows: self.table(rows, columns))

    def record(self, item: Json, lines: Sequence[Column], *, key: str = "id") -> None:
        """Print one record as a list of its fields, as JSON, or only its key where quiet."""
        if self.is_quiet and not self.is_json:
            self.write(str(item[key]))
            return
        self.data(item, lambda one: self.fields([(name, of(one)) for name, of in lines]))

    def line(self, value: Json, text: str) -> None:
        """Print one record of a stream: a line of JSON, or ``text``."""
        self.write(json.dumps(value, ensure_ascii=False) if self.is_json else printable(text))

    def table(self, items: Iterable[Json], columns: Sequence[Column]) -> None:
        """Print a table for people; a screen that is too narrow has its last column folded."""
        heads = [name for name, _ in columns]
        rows = [[cell(of(item)).replace("\n", " ") for _, of in columns] for item in items]
        widths = [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]
        lines = [_bold(line) for line in _folded(heads, widths)]
        for row in rows:
            lines += _folded(row, widths)
        self.write("\n".join(lines))

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one a line; empty values are left out."""
        rows = [(name, cell(value)) for name, value in pairs if value not in (None, "", [], {})]
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            first, *others = [part for line in value.split("\n") for part in _fold(line, width)]
            self.write(f"{_bold(name.ljust(width))}{_GAP}{first}".rstrip())
            for line in others:
                self.write(f"{' ' * width}{_GAP}{line}".rstrip())

    def write(self, text: str) -> None:
        """Print a line on stdout at once; a reader may be waiting for it."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def binary(self, part: bytes) -> None:
        """Print bytes as they are."""
        sys.stdout.flush()
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()

    def note(self, text: str) -> None:
        """Tell the person something, on stderr, unless quiet."""
        if not self.is_quiet:
            print(readable(text), file=sys.stderr)

    def error(self, error: TenureError) -> None:
        """Tell what went wrong, with every faulty field."""
        if self.is_json:
            fields = [{"field": f.path, "message": f.message} for f in error.fields]
            extra = error.extra or {}
            body = {**extra, "code": error.code, "detail": error.detail, "errors": fields}
            print(json.dumps(body, default=str), file=sys.stderr)
            return
        lines = [f"{fault.path}: {fault.message}" for fault in error.fields]
        if len(lines) < 2:
            lines = []
        told = f"{len(lines)} faults" if error.detail in lines[:1] else error.detail
        print(f"error: {readable(told)}", file=sys.stderr)
        for line in lines:
            print(f"  {readable(line)}", file=sys.stderr)


def is_plain() -> bool:
    """Whether nothing is set in bold: no person looks, or asked for none (NO_COLOR)."""
    return not sys.stdout.isatty() or "NO_COLOR" in os.environ


def _bold(text: str) -> str:
    return text if is_plain() else f"\x1b[1m{text}\x1b[0m"


def _width(text: str) -> int:
    """Return how many places of a screen a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fold(text: str, indent: int) -> list[str]:
    """Return a text in lines that fit the screen beside ``indent`` places and a gap."""
    room = shutil.get_terminal_size().columns - indent - len(_GAP) if sys.stdout.isatty() else 0
    if room < _NARROW or _width(text) <= room:
        return [text]
    return textwrap.wrap(text, room, break_on_hyphens=False)


def _folded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return a row of a table as lines: what does not fit of the last column goes below it."""
    pads = (part + " " * (width - _width(part)) for part, width in zip(cells, widths, strict=True))
    *begin, _ = pads
    left = _GAP.join(begin)
    first, *others = _fold(cells[-1], _width(left))
    lines = [f"{left}{_GAP}{first}" if begin else first]
    lines += [" " * _width(left) + _GAP + line for line in others]
    return [line.rstrip() for line in lines]


def printable(text: str) -> str:
    """Return text that cannot drive the terminal: control characters become visible."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def readable(text: str) -> str:
    """Return printable text whose times are told to the second."""
    return printable(_TIME.sub(r"\1Z", text))


def cell(value: object) -> str:
    """Return a value as people read it in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(part) for part in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{k}={cell(v)}" for k, v in value.items()) or "-"
    return readable(str(value))


def size(count: int | None) -> str:
    """Return bytes with a binary unit."""
    return "-" if count is None else size_text(count)


def usd(amount: float | None) -> str:
    """Return dollars with as many digits as small prices need."""
    if not amount:
        return "-" if amount is None else "$0"
    return f"${amount:.6f}" if abs(amount) < 1 else f"${amount:.2f}"


def ago(text: str | None, now: datetime | None = None) -> str:
    """Return how long ago (or in how long) an ISO time is."""
    if not text:
        return "-"
    span_s = ((now or datetime.now(UTC)) - datetime.fromisoformat(text)).total_seconds()
    return f"in {span(-span_s)}" if span_s < 0 else f"{span(span_s)} ago"


def seconds_between(start: str, end: str) -> float:
    """Return the time from one ISO time to another, negative where the other is earlier."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def between(start: str | None, end: str | None, now: datetime | None = None) -> str:
    """Return the time from one ISO time to another, or so far where that has not come."""
    if not start:
        return "-"
    until = datetime.fromisoformat(end) if end else now or datetime.now(UTC)
    span_s = (until - datetime.fromisoformat(start)).total_seconds()
    return span(span_s) if end else f"{span(max(0.0, span_s))} so far"


def span(span_s: float) -> str:
    """Return a duration in its two largest units."""
    if span_s < 60:
        return f"{span_s:.1f}s" if span_s < 10 else f"{span_s:.0f}s"
    whole = int(span_s)
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}{whole % length // part}{smaller}"
    return f"{whole // 60}m{whole % 60}s"
