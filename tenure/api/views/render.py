"""How a record becomes JSON: field by field, as the view's type says.

A view is a TypedDict, so that mypy knows its members and OpenAPI is generated from it. A member is
taken from the record, or from the record's ``spec``, under its own name or the path that ``Of``
names; its type says how it is shown: a view within a view, a tuple as a list, a time as text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from tenure.model.units import US, iso, nano_to_usd

V = TypeVar("V")
Convert = Callable[[Any], object]


def seconds(us: int | None) -> float | None:
    """Return seconds for microseconds."""
    return None if us is None else us / US


def moment(us: int | None) -> str | None:
    """Return ISO text; 0 stands for "never" in records and becomes None."""
    return iso(us) if us else None


def seconds_if_any(us: int) -> float | None:
    """Return seconds for microseconds; 0 stands for "none" in records and becomes None."""
    return us / US if us else None


def texts(values: Iterable[object]) -> list[str]:
    """Return values as they are written."""
    return [str(value) for value in values]


def thousandths(amount: int) -> float:
    """Return a number that is kept in thousandths."""
    return amount / 1000


@dataclass(frozen=True, slots=True)
class Of:
    """Where a member comes from, a path of attributes ("": its own name), and how it is shown.

    ``convert`` None: as the member's type says. ``suffix`` of the member's name stands for ``_us``
    in the record: ``created_at`` is ``created_us``. ``is_whole``: it is made of the whole record.
    """

    path: str = ""
    convert: Convert | None = None
    suffix: str | None = None
    is_whole: bool = False

    def path_of(self, name: str) -> str:
        """Return the path for the member ``name``."""
        return self.path or (
            name if self.suffix is None else f"{name.removesuffix(self.suffix)}_us"
        )


def made(convert: Convert) -> Of:
    """Return that a member is made of the whole record."""
    return Of(convert=convert, is_whole=True)


#: Members that records keep as ``*_us``: microseconds since 1970, or lengths of time.
Moment = Annotated[str | None, Of(convert=moment, suffix="_at")]
Seconds = Annotated[float | None, Of(convert=seconds, suffix="_s")]
SecondsIfAny = Annotated[float | None, Of(convert=seconds_if_any, suffix="_s")]
Usd = Annotated[float, Of("cost_nano", nano_to_usd)]
NanoUsd = Annotated[int, Of("cost_nano")]
UsdPerHour = Annotated[float, Of("price_nano_per_h", nano_to_usd)]


Renderer = Callable[[object, object, Mapping[str, object]], object]
#: By view, type of record and members given: as many as there are calls of ``render``.
_RENDERERS: dict[tuple[object, ...], Renderer] = {}


def render(view: type[V], record: object, **given: object) -> V:
    """Return a record as a view; ``given`` are the members that it does not hold.

    Raises AttributeError for a member that is neither given nor an attribute: a defect of the view.
    """
    key = view, type(record), *given
    renderer = _RENDERERS.get(key)
    if renderer is None:
        renderer = _RENDERERS[key] = _compiled(view, record, given)
    return cast("V", renderer(record, getattr(record, "spec", None), given))


def _compiled(view: type, record: object, given: Collection[str]) -> Renderer:
    """Return a function that makes the view as one written by hand would, and as fast.

    As ``dataclasses`` does it: a listing of 10,000 jobs takes a third longer member by member.
    """
    converts: dict[str, Convert] = {}
    members: list[str] = []
    for name, kind in get_type_hints(view, include_extras=True).items():
        of = next(
            (part for part in getattr(kind, "__metadata__", ()) if isinstance(part, Of)), Of()
        )
        convert = of.convert or _shown(kind)
        if name in given:
            value = f"given[{name!r}]"
        else:
            value = "record" if of.is_whole else _path(record, of.path_of(name))
            if convert is not None:
                converts[f"convert_{name}"] = convert
                value = f"convert_{name}({value})"
        members.append(f"{name!r}: {value}")
    # names of members and attributes alone: nothing of it comes from outside
    text = f"lambda record, spec, given: {{{', '.join(members)}}}"
    return cast("Renderer", eval(text, dict(converts)))


def _path(record: object, path: str) -> str:
    """Return a path from the record, or from its ``spec`` where it has no such attribute."""
    return f"{'record' if hasattr(record, path.partition('.')[0]) else 'spec'}.{path}"


def _shown(kind: Any) -> Convert | None:
    """Return how a value of a type is shown, None for as it is: enums are text already."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _shown(parts[0])
    if is_typeddict(kind):
        return _within(kind)
    if origin in (list, dict):
        part = _shown(parts[0]) if origin is list else None
        return _each(part) if part is not None else origin
    if origin is UnionType and len(parts) == 2 and parts[1] is NoneType:
        part = _shown(parts[0])
        return part and _if_any(part)
    return None


def _within(view: type) -> Convert:
    """Return ``render`` of a view within another one: nothing is given to it."""
    renderers: dict[type, Renderer] = {}

    def show(part: object) -> object:
        renderer = renderers.get(type(part))
        if renderer is None:
            renderer = renderers[type(part)] = _compiled(view, part, ())
        return renderer(part, getattr(part, "spec", None), {})

    return show


def _each(convert: Convert) -> Convert:
    return lambda rows: [convert(row) for row in rows]


def _if_any(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
