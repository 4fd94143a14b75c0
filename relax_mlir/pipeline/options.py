# pyright: strict
"""Options of our passes: text to typed values by the fields of the class, and back.

An option is ``name=value``; ``name`` alone sets a flag. A value with spaces, commas,
braces or quotes stands in quotes, where a backslash protects the next character, or in
braces. A list is its items with commas between them; an item of a mapping is a key and,
behind colons, its values.
"""

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import (
    Any,  # what fields hold: as many types as options
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from relax_mlir.errors import near_misses
from relax_mlir.pipeline.syntax import Element, closing_quote, malformed
from relax_mlir.rewriting import Pass

__all__ = ["describe_options", "format_options", "make_pass"]

_BARE = re.compile(r"[^\s{}\"'\\,]+")
_PART = re.compile(
    r"(?P<quote>[\"'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)"
    r"|(?P<comma>,)|(?P<brace>[{}])|(?P<bare>[^{}\"',]+)",
    re.DOTALL,
)
_KEY = re.compile(r"[^\s={}\"',]+")


@dataclass(frozen=True)
class _Item:
    """One item of a value, and whether any of it stood in quotes."""

    text: str
    quoted: bool


def make_pass(kind: type[Pass], element: Element, text: str) -> Pass:
    """An instance of ``kind`` with the options of ``element``, which stands in ``text``.

    Raises:
        PipelineError: an option is unknown, missing, given twice, or has a bad value.
    """
    types_ = _option_types(kind)
    values: dict[str, Any] = {}
    for key, value, at in _split(element, text):
        field = key.replace("-", "_")
        if field not in types_ or "_" in key:
            raise malformed(text, at, _unknown_option(element.name, key, types_))
        if field in values:
            raise malformed(text, at, f"`{element.name}`: option `{key}` given twice")
        try:
            values[field] = _parse(types_[field], value)
        except ValueError as error:
            problem = f"`{element.name}`: option `{key}`: {error}"
            raise malformed(text, at, problem) from error
    return _construct(kind, values, element, text)


def _construct(
    kind: type[Pass], values: dict[str, Any], element: Element, text: str
) -> Pass:
    for field in dataclasses.fields(kind):
        if field.init and field.name not in values and not _has_default(field):
            problem = f"`{element.name}`: option `{_flag(field.name)}` is required"
            raise malformed(text, element.at, problem)
    try:
        return kind(**values)
    except ValueError as error:  # __post_init__ refuses a combination of values
        raise malformed(text, element.at, f"`{element.name}`: {error}") from error


def format_options(pass_: Pass) -> str:
    """The options that differ from their defaults, separated by spaces."""
    given = (
        f"{_flag(field.name)}={_format(getattr(pass_, field.name))}"
        for field in dataclasses.fields(pass_)
        if _is_option(field)
        and (not _has_default(field) or getattr(pass_, field.name) != _default(field))
    )
    return " ".join(given)


def describe_options(kind: type[Pass]) -> list[str]:
    """A line per option: ``max-ops: int = 16``; without a default it is required."""
    types_ = _option_types(kind)
    return [
        f"{_flag(field.name)}: {_describe(types_[field.name])}"
        + (f" = {_default_text(field, types_)}" if _has_default(field) else "")
        for field in dataclasses.fields(kind)
        if _is_option(field)
    ]


def _default_text(field: "dataclasses.Field[Any]", types_: Mapping[str, Any]) -> str:
    default = _default(field)
    is_list = get_origin(types_[field.name]) is tuple
    return "" if is_list and default is None else _format(default)


@cache
def _option_types(kind: type[Pass]) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    options = filter(_is_option, dataclasses.fields(kind))
    return {field.name: _listed(hints[field.name]) for field in options}


def _listed(kind: Any) -> Any:
    """A tuple for a sequence; what may also be None can be left out."""
    if get_origin(kind) is Sequence:
        return tuple[get_args(kind)[0], ...]
    inner = [_listed(a) for a in get_args(kind)]
    if get_origin(kind) not in _UNIONS or not any(
        get_origin(a) is tuple for a in inner
    ):
        return kind
    inner = [a for a in inner if a is not types.NoneType]
    made: Any = inner[0]
    for each in inner[1:]:
        made = made | each
    return made


_UNIONS = (Union, types.UnionType)


def _is_option(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field can be written as text; arrays and functions cannot."""
    return field.init and field.metadata.get("text", True)


def _flag(field: str) -> str:
    return field.replace("_", "-")


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _unknown_option(name: str, key: str, types_: Mapping[str, Any]) -> str:
    flags = [_flag(field) for field in types_]
    known = ", ".join(f"`{flag}`" for flag in flags) or "none"
    hint = near_misses(key, flags)
    return f"`{name}` has no option `{key}`: its options are {known}.{hint}"


def _split(element: Element, text: str) -> Iterator[tuple[str, str | None, int]]:
    """The key, the value if there is one, and the offset of every option."""
    end = element.options_at + len(element.options or "")
    at = element.options_at
    while at < end:
        match = _KEY.match(text, at, end)
        if match is None:
            raise malformed(text, at, f"expected an option, got `{text[at]}`")
        start, at = at, match.end()
        value = None
        if text[at:end].startswith("="):
            stop = _end_of_value(text, at + 1, end)
            value, at = text[at + 1 : stop], stop
        yield match.group(), value, start
        if at < end and not text[at].isspace():
            raise malformed(text, at, f"expected a space or `}}`, got `{text[at]}`")
        at = _skip_space(text, at, end)


def _skip_space(text: str, at: int, end: int) -> int:
    while at < end and text[at].isspace():
        at += 1
    return at


def _end_of_value(text: str, at: int, end: int) -> int:
    """Offset of the first space that is not in quotes or braces."""
    depth = 0
    while at < end and (depth or not text[at].isspace()):
        if text[at] in "\"'":
            at = closing_quote(text, at)
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _parse(kind: Any, value: str | None) -> Any:
    """The value of type ``kind`` that the text stands for.

    Raises:
        ValueError: it stands for none.
    """
    if value is None:
        if kind is bool:
            return True
        raise ValueError(f"expected {_describe(kind)}, got nothing")
    if get_origin(kind) in _UNIONS and get_origin(get_args(kind)[-1]) is tuple:
        return _parse_first(get_args(kind), value)
    items = _items(value)
    if get_origin(kind) is tuple:
        return _parse_tuple(kind, items)
    if get_origin(kind) is Mapping:
        return dict(_parse_entry(item, kind) for item in items)
    text = ",".join(item.text for item in items)
    quoted = any(item.quoted for item in items)
    return _parse_one(kind, _Item(text, quoted))


def _parse_first(kinds: Sequence[Any], value: str) -> Any:
    """The value of the first type of which the text stands for one."""
    for kind in kinds[:-1]:
        with suppress(ValueError):
            return _parse(kind, value)
    return _parse(kinds[-1], value)


def _items(value: str) -> list[_Item]:
    """The items between commas; no item where there is no text."""
    if value.startswith("{") and value.endswith("}"):
        value = value[1:-1]
    groups: list[list[re.Match[str]]] = [[]]
    for part in _PART.finditer(value):
        if part["brace"]:
            raise ValueError(f"expected quotes around `{part['brace']}`")
        if part["comma"]:
            groups.append([])
        else:
            groups[-1].append(part)
    return [] if groups == [[]] else [_item(group) for group in groups]


def _item(parts: list[re.Match[str]]) -> _Item:
    """The item made of bare and quoted parts."""
    quoted = any(part["quote"] for part in parts)
    text = "".join(
        re.sub(r"\\(.)", r"\1", part["quoted"], flags=re.DOTALL)
        if part["quote"]
        else part["bare"]
        for part in parts
    )
    return _Item(text if quoted else text.strip(), quoted)


def _parse_tuple(kind: Any, items: list[_Item]) -> tuple[Any, ...]:
    args = get_args(kind)
    if args[-1] is Ellipsis:
        return tuple(_parse_one(args[0], item) for item in items)
    if len(args) != len(items):
        raise ValueError(f"expected {_describe(kind)}, got {len(items)}")
    return tuple(_parse_one(a, item) for a, item in zip(args, items, strict=True))


def _parse_entry(item: _Item, kind: Any) -> tuple[str, tuple[str, ...]]:
    """The key and the values of an item of a mapping."""
    key, *values = item.text.split(":")
    if not all((key, *values)) or not values:
        raise ValueError(f"expected {_describe(kind)}, got `{item.text}`")
    return key, tuple(values)


def _parse_one(kind: Any, item: _Item) -> Any:
    if get_origin(kind) in _UNIONS:
        return _parse_optional(kind, item)
    if get_origin(kind) is Literal:
        found = [choice for choice in get_args(kind) if str(choice) == item.text]
        if found:
            return found[0]
    elif kind in _SCALARS:
        try:
            return _SCALARS[kind](item.text)
        except ValueError:
            pass
    else:
        raise TypeError(f"options cannot have type {kind}")
    raise ValueError(f"expected {_describe(kind)}, got `{item.text}`")


def _parse_optional(kind: Any, item: _Item) -> Any:
    """``T | None``, where only a bare ``none`` stands for None."""
    if item.text == "none" and not item.quoted:
        return None
    inner = [a for a in get_args(kind) if a is not types.NoneType]
    if str in inner:  # the text itself; other values are given as objects
        return item.text
    if len(inner) != 1:
        raise TypeError(f"options cannot have type {kind}")
    try:
        return _parse_one(inner[0], item)
    except ValueError as error:
        raise ValueError(f"expected {_describe(kind)}, got `{item.text}`") from error


def _parse_bool(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text not in values:
        raise ValueError(text)
    return values[text]


_SCALARS: dict[Any, Callable[[str], Any]] = {
    bool: _parse_bool,
    int: int,
    float: float,
    str: str,
}


def _describe(kind: Any) -> str:
    """The type in the words of a message."""
    args = get_args(kind)
    if get_origin(kind) is Literal:
        return " or ".join(f"`{choice}`" for choice in args)
    if get_origin(kind) in _UNIONS:
        if str in args:
            return "str" if types.NoneType not in args else "str or `none`"
        inner = " or ".join(_describe(a) for a in args if a is not types.NoneType)
        return f"{inner} or `none`"
    if get_origin(kind) is tuple and args[-1] is Ellipsis:
        return f"list of {_describe(args[0])}"
    if get_origin(kind) is tuple:
        return f"list of {len(args)}: {', '.join(map(_describe, args))}"
    if get_origin(kind) is Mapping:
        return "list of `key:value:...`"
    if kind is bool:
        return "`true` or `false`"
    return getattr(kind, "__name__", str(kind))


def _format(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ",".join(map(_format, cast("Sequence[Any]", value)))
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Sequence[str]]", value).items()
        return ",".join(_format(":".join([key, *values])) for key, values in entries)
    if isinstance(value, str):
        return _format_text(value)
    return str(value)


def _format_text(value: str) -> str:
    if _BARE.fullmatch(value) and value != "none":
        return value
    return '"' + re.sub(r"([\\\"])", r"\\\1", value) + '"'
