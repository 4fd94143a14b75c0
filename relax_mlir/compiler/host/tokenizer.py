"""Host kernel of the Tokenizer operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.compiler.host.regular_expressions import compile_pattern
from relax_mlir.compiler.host.string_ops import Runner, Values, decode_text, text_array
from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray

__all__ = ["RUNNERS"]

_BEGIN, _END = "\x02", "\x03"  # optional start and end markers of a text


def tokenize(node: HostNode, values: Values) -> Sequence[Any]:
    """Tokens of every text along a new last axis, padded.

    Character classes of patterns are ASCII; the first matching alternative wins.

    Source: onnxruntime, com.microsoft Tokenizer-1.
    """
    array, split = text_array(node, values, 0), _splitter(node)
    if array.ndim not in (1, 2):
        raise RunError(f"{node}: expected texts of rank 1 or 2, got {array.ndim}")
    min_length = int(node.attr("mincharnum"))
    if min_length < 1:
        raise RunError(f"{node}: mincharnum: expected 1 or more, got {min_length}")
    rows = [[t for t in split(x) if len(t) >= min_length] for x in array.reshape(-1)]
    width = max(map(len, rows), default=0)
    if node.attrs.get("mark", 0) and width:
        rows, width = [[_BEGIN, *row, _END] for row in rows], width + 2
    padded = np.full((len(rows), width), decode_text(node.attr("pad_value")), object)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return [NDArray(padded.reshape(*array.shape, width))]


def _splitter(node: HostNode) -> Callable[[str], Sequence[str]]:
    """The splitting function: at separators, into characters, or into pattern matches."""
    separators = list(map(decode_text, node.attrs.get("separators", ())))
    if separators == [""]:
        return list
    if separators:
        patterns = [compile_pattern(node, "separators", text) for text in separators]
        return lambda text: _split_at_all(text, patterns)
    token = compile_pattern(node, "tokenexp", decode_text(node.attr("tokenexp")))
    return lambda text: [match.group() for match in token.finditer(text)]


def _split_at_all(text: str, patterns: Sequence[Any]) -> list[str]:
    """Split a text at matches of the first pattern, the pieces at the second, and so on."""
    pieces = [text]
    for pattern in patterns:
        pieces = [piece for whole in pieces for piece in _split_at(whole, pattern)]
    return pieces


def _split_at(text: str, pattern: Any) -> list[str]:
    """The pieces of a text between matches of a pattern."""
    spans = [match.span() for match in pattern.finditer(text)]
    begins = [0, *(end for _, end in spans)]
    ends = [*(begin for begin, _ in spans), len(text)]
    return [text[a:b] for a, b in zip(begins, ends, strict=True)]


RUNNERS: Mapping[str, Runner] = {"com.microsoft::Tokenizer": tokenize}
