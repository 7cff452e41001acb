"""What commands print: data on stdout, messages on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table

from tenure.model.errors import TenureError
from tenure.model.jsons import Json
from tenure.model.units import size_text

#: Wide enough that no table is folded where nobody looks at it.
PIPE_WIDTH = 1000
#: A time as the API tells it. People read seconds; programs take ``--json``.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z")
_ESCAPE, _PLAIN = "\x1b[", "\x1b[0m"
_PADDING = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")
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
        """Print a table for people."""
        self.whole(table_of(items, columns))

    def whole(self, shown: RenderableType) -> None:
        """Print tables that no terminal cuts: one that is too narrow folds their lines."""
        screen = console(is_whole=True)
        with screen.capture() as printed:
            screen.print(shown)
        for line in printed.get().splitlines():
            bare = _PADDING.sub("", line)  # which would be folded into empty lines
            self.write(bare if bare.count(_ESCAPE) == line.count(_ESCAPE) else bare + _PLAIN)

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one a line; empty values are left out."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value not in (None, "", [], {}):
                table.add_row(name, cell(value))
        console().print(table)

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


def table_of(
    items: Iterable[Json],
    columns: Sequence[Column],
    *,
    is_dim: Callable[[Json], object] | None = None,
) -> Table:
    """Return a table for people; rows of which ``is_dim`` holds stand back."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, _ in columns:
        table.add_column(name, no_wrap=True)
    for item in items:
        style = "dim" if is_dim is not None and is_dim(item) else None
        table.add_row(*(cell(of(item)) for _, of in columns), style=style)
    return table


def console(*, is_whole: bool = False) -> Console:
    """Return where tables are printed, as wide as they are (``is_whole``) or as the terminal."""
    width = None if sys.stdout.isatty() and not is_whole else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


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
