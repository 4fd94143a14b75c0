"""Texts in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.patterns import pattern
from relax_mlir.stages.text import Runner, Values, plain, texts

__all__ = ["RUNNERS"]

_BEGIN, _END = "\x02", "\x03"  # what stands around the tokens of a text, if asked for


def tokenize(node: HostNode, values: Values) -> Sequence[Any]:
    """The tokens of every text along a new last axis, padded.

    Patterns know letters of ASCII alone, and the first of several that match counts.

    Source: onnxruntime, com.microsoft Tokenizer-1.
    """
    array, find = texts(node, values, 0), _finder(node)
    if array.ndim not in (1, 2):
        raise RunError(f"{node}: expected texts of rank 1 or 2, got {array.ndim}")
    shortest = int(node.attr("mincharnum"))
    if shortest < 1:
        raise RunError(f"{node}: mincharnum: expected 1 or more, got {shortest}")
    rows = [[t for t in find(x) if len(t) >= shortest] for x in array.reshape(-1)]
    width = max(map(len, rows), default=0)
    if node.attrs.get("mark", 0) and width:
        rows, width = [[_BEGIN, *row, _END] for row in rows], width + 2
    padded = np.full((len(rows), width), plain(node.attr("pad_value")), object)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return [NDArray(padded.reshape(*array.shape, width))]


def _finder(node: HostNode) -> Callable[[str], Sequence[str]]:
    """What splits a text: at separators, into characters, or into what fits a pattern."""
    separators = list(map(plain, node.attrs.get("separators", ())))
    if separators == [""]:
        return list
    if separators:
        cuts = [pattern(node, "separators", text) for text in separators]
        return lambda text: _split(text, cuts)
    token = pattern(node, "tokenexp", plain(node.attr("tokenexp")))
    return lambda text: [found.group() for found in token.finditer(text)]


def _split(text: str, cuts: Sequence[Any]) -> list[str]:
    """The pieces between what fits any of the patterns, the first ones before others."""
    pieces = [text]
    for cut in cuts:
        pieces = [piece for whole in pieces for piece in _pieces(whole, cut)]
    return pieces


def _pieces(text: str, cut: Any) -> list[str]:
    """The pieces of a text between what fits a pattern."""
    found = [match.span() for match in cut.finditer(text)]
    begins = [0, *(end for _, end in found)]
    ends = [*(begin for begin, _ in found), len(text)]
    return [text[a:b] for a, b in zip(begins, ends, strict=True)]


RUNNERS: Mapping[str, Runner] = {"com.microsoft::Tokenizer": tokenize}
