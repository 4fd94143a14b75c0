"""Rule for TfIdfVectorizer: n-gram counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import MinimumOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.creation import ZerosOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.ngrams import CountNgramsOp

_F32, _INT64 = dtypes.dtype("float32"), dtypes.dtype("int64")

_MAX_COLUMNS = 1 << 24  # columns of the result


@dataclass(frozen=True)
class _Pool:
    """The n-grams of one length.

    Attributes:
        first: the index of its first n-gram among those of all lengths.
        rows: the n-grams, [count, n].
    """

    first: int
    rows: np.ndarray


@onnx_rule("TfIdfVectorizer", since=9)
def tf_idf(node: OnnxNode) -> ir.Value:
    """Weighted n-gram counts (tf, idf or tf-idf) of each row.

    Source: ONNX TfIdfVectorizer-9.
    """
    if "pool_strings" in node.attrs:
        raise NotImplementedError("n-grams of strings are not supported")
    mode = node.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"bad mode: expected TF, IDF or TFIDF, got {mode!r}")
    x = AstypeOp(node.input(0), dtype=_INT64).y
    shape = tensors.shape_of(x)
    if len(shape) not in (1, 2):
        raise ValueError(f"expected rank 1 or 2, got {len(shape)}")
    rows = x if len(shape) == 2 else ReshapeOp(x, shape=(1, *shape)).y
    columns = np.asarray(node.attr("ngram_indexes"), np.int64)
    pools = [p for p in _pools(node) if len(p.rows)]
    total = sum(len(p.rows) for p in _all_pools(node))
    if len(columns) != total or columns.min(initial=0) < 0:
        raise ValueError(
            f"ngram_indexes: expected {total} of 0 or more, one per n-gram of the pool, "
            f"got {len(columns)}"
        )
    if columns.max(initial=0) >= _MAX_COLUMNS:
        raise ValueError(
            f"ngram_indexes: expected less than {_MAX_COLUMNS}, got {columns.max()}"
        )
    counts = AstypeOp(_counts(node, rows, pools, columns), dtype=_F32).y
    y = _weighted(node, counts, columns, mode)
    size = tensors.shape_of(y)[1]
    return y if len(shape) == 2 else ReshapeOp(y, shape=(size,)).y


def _all_pools(node: OnnxNode) -> Iterator[_Pool]:
    """The n-grams of each length, from 1 on."""
    pool = np.asarray(node.attr("pool_int64s"), np.int64)
    starts = [*node.attr("ngram_counts"), len(pool)]
    first = 0
    for length, (begin, end) in enumerate(pairwise(starts), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise ValueError(
                f"ngram_counts: expected offsets into a pool of {len(pool)} numbers, with "
                f"n-grams of length {length} from {begin} to {end}"
            )
        yield _Pool(first, pool[begin:end].reshape(-1, length))
        first += (end - begin) // length


def _pools(node: OnnxNode) -> Iterator[_Pool]:
    least, most = node.attr("min_gram_length"), node.attr("max_gram_length")
    for pool in _all_pools(node):
        if least <= pool.rows.shape[1] <= most:
            yield pool


def _counts(
    node: OnnxNode, rows: ir.Value, pools: list[_Pool], columns: np.ndarray
) -> ir.Value:
    """n-gram counts in their output columns; 0 in the others."""
    skips = node.attr("max_skip_count")
    zeros = ZerosOp(shape=(tensors.shape_of(rows)[0], 1), dtype=_INT64).y
    counts, order = [zeros], np.zeros(columns.max(initial=-1) + 1, np.int64)
    column = 1
    for pool in pools:
        count, length = pool.rows.shape
        steps = 1 if length == 1 else skips + 1
        counts.append(CountNgramsOp(rows, node.constant(pool.rows), steps=steps).y)
        own = columns[pool.first : pool.first + count]
        order[own] = np.arange(column, column + count)
        column += count
    return TakeOp(ConcatOp(counts, axis=1).y, node.constant(order), axis=1).y


def _weighted(
    node: OnnxNode, counts: ir.Value, columns: np.ndarray, mode: str
) -> ir.Value:
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = MinimumOp(counts, node.constant(np.array(1, np.float32))).z
    weights = np.ones(columns.max(initial=-1) + 1, np.float32)
    given = node.attr("weights", [])
    if len(given) not in (0, len(columns)):
        raise ValueError(f"weights: expected {len(columns)}, got {len(given)}")
    if len(given):
        weights[columns] = given
    return MultiplyOp(counts, node.constant(weights)).z
