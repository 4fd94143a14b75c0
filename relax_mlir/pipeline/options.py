# pyright: strict
"""Pass options: parsing to typed fields of the pass class, and formatting.

An option is ``name=value``; ``name`` alone sets a flag. A value with spaces, commas,
braces or quotes is quoted, with backslash escapes, or enclosed in braces. List items are
separated by commas; an item of a mapping is a key followed by its values, separated by
colons. If a field is itself a dataclass, such as the features of the target, each of its
fields is an option.
"""

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import (
    Any,  # values of fields of any type
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from relax_mlir.errors import near_misses
from relax_mlir.pipeline.syntax import Element, closing_quote, malformed
from relax_mlir.rewrite.patterns import Pass

__all__ = ["describe_options", "format_options", "make_pass", "option_names"]

_BARE = re.compile(r"[^\s{}\"'\\,]+")
_PART = re.compile(
    r"(?P<quote>[\"'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)"
    r"|(?P<comma>,)|(?P<brace>[{}])|(?P<bare>[^{}\"',]+)",
    re.DOTALL,
)
_KEY = re.compile(r"[^\s={}\"',]+")


@dataclass(frozen=True)
class _Item:
    """An item of a value, and whether any part of it was quoted."""

    text: str
    quoted: bool


def make_pass(kind: type[Pass], element: Element, text: str) -> Pass:
    """A pass of class ``kind`` with the options of a pipeline element.

    Args:
        kind: the class.
        element: the parsed element.
        text: the pipeline text that contains it, for errors.

    Raises:
        PipelineError: an option is unknown, missing, repeated, or has a bad value.
    """
    known = _options(kind)
    values: dict[str, Any] = {}
    for key, value, at in _split(element, text):
        if key not in known:
            raise malformed(text, at, _unknown_option(element.name, key, known))
        if key in values:
            raise malformed(text, at, f"`{element.name}`: option `{key}` given twice")
        try:
            values[key] = _parse(known[key].kind, value)
        except ValueError as error:
            problem = f"`{element.name}`: option `{key}`: {error}"
            raise malformed(text, at, problem) from error
    return _construct(kind, values, element, text)


def _construct(
    kind: type[Pass], values: dict[str, Any], element: Element, text: str
) -> Pass:
    known = _options(kind)
    for field in dataclasses.fields(kind):
        if field.init and _flag(field.name) not in values and not _has_default(field):
            problem = f"`{element.name}`: option `{_flag(field.name)}` is required"
            raise malformed(text, element.at, problem)
    fields: dict[str, Any] = {}
    for key, value in values.items():
        field, part = known[key].field, known[key].part
        if part is not None:
            whole = fields.get(field.name, _default(field))
            value = dataclasses.replace(whole, **{part: value})
        fields[field.name] = value
    try:
        return kind(**fields)
    except ValueError as error:  # __post_init__ rejects the combination of values
        raise malformed(text, element.at, f"`{element.name}`: {error}") from error


def format_options(pass_: Pass) -> str:
    """The options that differ from their defaults, separated by spaces."""
    given = (
        f"{flag}={_format(option.of(getattr(pass_, option.field.name)))}"
        for flag, option in _options(type(pass_)).items()
        if option.is_given(getattr(pass_, option.field.name))
    )
    return " ".join(given)


def option_names(kind: type[Pass]) -> list[str]:
    """The names of the options of a class of passes, as pipelines spell them."""
    return list(_options(kind))


def describe_options(kind: type[Pass]) -> list[str]:
    """One line per option, such as ``max-ops: int = 16``; required without a default."""
    return [
        f"{flag}: {_describe(option.kind)}"
        + (f" = {_default_text(option)}" if _has_default(option.field) else "")
        for flag, option in _options(kind).items()
    ]


def _default_text(option: "_Option") -> str:
    default = option.of(_default(option.field))
    is_list = get_origin(option.kind) is tuple
    return "" if is_list and default is None else _format(default)


@dataclass(frozen=True)
class _Option:
    """An option of a pass.

    Attributes:
        field: the field of the pass.
        part: the field of the nested dataclass; None if ``field`` is not a dataclass.
        kind: the parsed type.
    """

    field: "dataclasses.Field[Any]"
    part: str | None
    kind: Any

    def of(self, value: Any) -> Any:
        """The option's value, given the value of its field."""
        return value if self.part is None else getattr(value, self.part)

    def is_given(self, value: Any) -> bool:
        """Whether the option differs from its default, given the value of its field."""
        return not _has_default(self.field) or self.of(value) != self.of(
            _default(self.field)
        )


@cache
def _options(kind: type[Pass]) -> Mapping[str, _Option]:
    """The options of a class of passes, by name."""
    found: dict[str, _Option] = {}
    hints = get_type_hints(kind)
    for field in filter(_is_option, dataclasses.fields(kind)):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            parts = get_type_hints(hint)
            for part in dataclasses.fields(hint):
                option = _Option(field, part.name, _option_type(parts[part.name]))
                found[_flag(part.name)] = option
        else:
            found[_flag(field.name)] = _Option(field, None, _option_type(hint))
    return found


def _option_type(kind: Any) -> Any:
    """The parsed type of a field: a tuple for a sequence; None is dropped from its unions."""
    if get_origin(kind) is Sequence:
        return tuple[get_args(kind)[0], ...]
    inner = [_option_type(a) for a in get_args(kind)]
    if get_origin(kind) not in _UNIONS or not any(
        get_origin(a) is tuple for a in inner
    ):
        return kind
    inner = [a for a in inner if a is not types.NoneType]
    union: Any = inner[0]
    for each in inner[1:]:
        union = union | each
    return union


_UNIONS = (Union, types.UnionType)


def _is_option(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field can be given as text; arrays and functions cannot."""
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


def _unknown_option(name: str, key: str, options: Mapping[str, _Option]) -> str:
    known = ", ".join(f"`{flag}`" for flag in options) or "none"
    hint = near_misses(key, options)
    return f"`{name}` has no option `{key}`: its options are {known}.{hint}"


def _split(element: Element, text: str) -> Iterator[tuple[str, str | None, int]]:
    """Key, optional value and offset of every option."""
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
    """Offset of the first space outside of quotes and braces."""
    depth = 0
    while at < end and (depth or not text[at].isspace()):
        if text[at] in "\"'":
            at = closing_quote(text, at)
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _parse(kind: Any, value: str | None) -> Any:
    """Parse a value of type ``kind``.

    Raises:
        ValueError: the text is not a valid value.
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
    """The value parsed as the first type that accepts it."""
    for kind in kinds[:-1]:
        with suppress(ValueError):
            return _parse(kind, value)
    return _parse(kinds[-1], value)


def _items(value: str) -> list[_Item]:
    """The comma-separated items; none for an empty value."""
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
    """An item joined from its bare and quoted parts."""
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
    """Key and values of a mapping item."""
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
    """A value of ``T | None``; only an unquoted ``none`` means None."""
    if item.text == "none" and not item.quoted:
        return None
    inner = [a for a in get_args(kind) if a is not types.NoneType]
    if str in inner:  # values of other types can be passed only as objects
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
    """A type as error messages name it."""
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
