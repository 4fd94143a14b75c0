"""Rejection of MLIR text on which the upstream parser would crash.

``docs/architecture.md`` describes the upstream bugs. Text that is only invalid is left to the
parser, whose diagnostics have locations.
"""

import re
from collections.abc import Iterator

from relax_mlir.errors import IRError

__all__ = ["MAX_NESTING", "check_text"]

# MLIR's parser is recursive; deeper text would overflow the stack.
MAX_NESTING = 500

_SKIPPED = r'//[^\n]*|"(?:[^"\\\n]|\\.)*"'
# Brackets, and the strings and comments that may contain some.
_BRACKETS = re.compile(rf"{_SKIPPED}|->|[{{}}()\[\]<>]")
_ARRAYS = re.compile(rf"{_SKIPPED}|\barray\s*<\s*(?P<type>![\w$.]+|index\b)")
_ALIASES = re.compile(r"^\s*([#!][\w$.]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_OPERATION = r'"(?:linalg|vector)\.\w+"|(?<![#!\w.])(?:linalg|vector)\.\w+'
_KEY = r'"iterator_types"|"indexing_maps"|\biterator_types|\bindexing_maps'
_FIELDS = re.compile(rf"(?P<op>{_OPERATION})|(?P<key>{_KEY})\s*=\s*|{_SKIPPED}")


def check_text(text: str) -> None:
    """Rejects text on which the parser would crash.

    Raises:
        IRError: the text would crash the parser.
    """
    _check_nesting(text)
    if "array" in text and "index" in text:
        _check_arrays(text)
    if "iterator_types" in text or "indexing_maps" in text:
        _check_iterators(text)


def _check_nesting(text: str) -> None:
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        kind = bracket.group()
        if kind in "{([<":
            depth += 1
        elif kind in "})]>":
            depth -= 1
        if depth > MAX_NESTING:
            raise IRError(f"malformed module: nested deeper than {MAX_NESTING} levels")


def _check_arrays(text: str) -> None:
    """Rejects dense arrays of ``index``, on which the parser asserts."""
    aliases: dict[str, str] | None = None
    for found in _ARRAYS.finditer(text):
        type_ = found.group("type")
        if type_ is None:
            continue
        if type_ != "index":
            aliases = dict(_ALIASES.findall(text)) if aliases is None else aliases
            type_ = _resolved(type_, aliases)
        if type_ == "index":
            raise _error(
                text,
                found.start(),
                "`array` of `index`: expected an integer or float type of known width, "
                "such as `array<i64: 1>`",
            )


def _check_iterators(text: str) -> None:
    """Rejects elements that the custom syntax of structured operations casts unchecked."""
    aliases: dict[str, str] | None = None
    op = ""
    for found in _FIELDS.finditer(text):
        op = found.group("op") or op
        key = (found.group("key") or "").strip('"')
        if not key or op.startswith('"'):  # the generic syntax is verified
            continue
        aliases = dict(_ALIASES.findall(text)) if aliases is None else aliases
        value = _resolved(_value_at(text, found.end()), aliases)
        if not value.startswith("["):
            continue
        elements = [_resolved(e, aliases) for e in _elements(value)]
        if key == "iterator_types" and not all(e.startswith('"') for e in elements):
            expected = 'strings, such as `["parallel", "reduction"]`'
        elif key == "iterator_types" or op != "vector.contract":
            continue
        elif not all(e.startswith("affine_map") for e in elements):
            expected = "affine maps"
        else:
            continue
        raise _error(
            text, found.start(), f"`{key}`: expected {expected}, got `{value}`"
        )


def _resolved(value: str, aliases: dict[str, str]) -> str:
    """The definition of an alias; other values unchanged."""
    seen: set[str] = set()
    while value in aliases and value not in seen:
        seen.add(value)
        value = aliases[value]
    return value


def _value_at(text: str, begin: int) -> str:
    """The value of an attribute, up to the comma or bracket that ends it."""
    return next(_split(text[begin:]), "")


def _elements(array: str) -> list[str]:
    return [e for e in _split(array[1:-1]) if e]


def _split(text: str) -> Iterator[str]:
    """The parts between top-level commas, up to an unmatched closing bracket."""
    depth, begin = 0, 0
    for token in re.finditer(rf"{_SKIPPED}|->|[{{}}()\[\]<>,]", text):
        kind = token.group()
        if kind in ("{", "(", "[", "<"):
            depth += 1
        elif kind in ("}", ")", "]", ">"):
            depth -= 1
        if depth < 0 or (kind == "," and depth == 0):
            yield text[begin : token.start()].strip()
            begin = token.end()
        if depth < 0:
            return
    yield text[begin:].strip()


def _error(text: str, place: int, what: str) -> IRError:
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return IRError(f'malformed module: loc("-":{line}:{column}): {what}')
