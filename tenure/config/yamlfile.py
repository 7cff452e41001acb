"""Reading YAML with the line of every value, duplicate keys found, and YAML 1.2's booleans.

In YAML 1.1, which PyYAML reads, ``on:`` and ``off:`` are booleans, ``010`` is eight and ``1:30``
is ninety. Here ``true`` and ``false`` alone are booleans, and numbers are decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tenure.model.errors import FieldError

Loc = tuple[str | int, ...]

#: A fleet of 1,000 nodes is half of this; more is not a configuration.
MAX_FILE_BYTES = 4 << 20
#: Deeper than any configuration; keeps the parser's recursion away from Python's bound.
_MAX_DEPTH = 40


@dataclass(slots=True)
class Document:
    """A file's value, the line of each part (by its path) and what was wrong with the text."""

    name: str
    value: object = None
    lines: dict[Loc, int] = field(default_factory=dict)
    faults: list[FieldError] = field(default_factory=list)

    def line(self, loc: Loc) -> int | None:
        """Return the line of the part at ``loc``, or of the nearest part around it."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    text = str(loader.construct_scalar(node))
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(loader.construct_yaml_float(node))
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


def _boolean(loader: _Loader, node: yaml.ScalarNode) -> bool:
    return str(loader.construct_scalar(node)).lower() == "true"


_Loader.add_implicit_resolver("!bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), None)
_Loader.add_implicit_resolver(
    "!number",
    re.compile(r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
               r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+.0123456789"),
)  # fmt: skip
_Loader.add_constructor("!number", _number)
_Loader.add_constructor("!bool", _boolean)


def read_file(path: Path) -> Document:
    """Return the document in the file; every problem with file or text is among its faults."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"is larger than {MAX_FILE_BYTES >> 20} MiB")
        text = content.decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        fault = FieldError(str(path), f"cannot be read: {why}")
        return Document(path.name, faults=[fault])
    return read_text(text, path.name)


def read_text(text: str, name: str) -> Document:
    """Return the document in ``text``; ``name`` stands in the faults."""
    document = Document(name)
    try:
        loader = _Loader(text)
        try:
            _read(loader, document)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        words = ", ".join(part for part in (error.context, error.problem) if part)
        if "alias" in words:
            words += "; put text that begins with * in quotes"
        document.faults.append(FieldError(where, f"is not YAML: {words}"))
    except yaml.YAMLError as error:
        document.faults.append(FieldError(name, f"is not YAML: {' '.join(str(error).split())}"))
    except (RecursionError, ValueError) as error:
        document.faults.append(FieldError(name, f"cannot be used: {error}"))
    return document


def _read(loader: _Loader, document: Document) -> None:
    node = loader.get_single_node()
    if node is None:
        return
    seen: set[int] = set()
    stack: list[tuple[yaml.Node, Loc]] = [(node, ())]
    while stack:
        part, loc = stack.pop()
        document.lines.setdefault(loc, part.start_mark.line + 1)
        if id(part) in seen:
            continue  # an alias: walked where it was first met
        seen.add(id(part))
        if len(loc) > _MAX_DEPTH:
            raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
        stack.extend(_parts(part, loc, document))
    document.value = loader.construct_document(node)


def _parts(node: yaml.Node, loc: Loc, document: Document) -> Iterator[tuple[yaml.Node, Loc]]:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield item, (*loc, index)
    if not isinstance(node, yaml.MappingNode):
        return
    met: dict[str, int] = {}
    for key, item in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            path = ".".join(map(str, loc)) or document.name
            document.faults.append(FieldError(path, f"a key must be a word (line {line})"))
            continue
        here = (*loc, key.value)
        if key.value in met and key.value != "<<":
            words = f"stands here twice (lines {met[key.value]} and {line}); keep one"
            document.faults.append(FieldError(".".join(map(str, here)), words))
        met[key.value] = line
        document.lines.setdefault(here, line)
        yield item, here
