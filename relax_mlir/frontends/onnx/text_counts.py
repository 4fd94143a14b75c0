"""The rule for counts of short sequences."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import MinimumOp, MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.creation import ZerosOp
from relax_mlir.dialects.relax.indexing import TakeOp
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.ngrams import CountNgramsOp

_F32, _INT64 = dtypes.dtype("float32"), dtypes.dtype("int64")

_MOST_PLACES = 1 << 24  # of counts in a row, and of numbers in a table


@dataclass(frozen=True)
class _Pool:
    """Sequences of one length.

    Attributes:
        first: the number of the first one among all.
        rows: the sequences.
    """

    first: int
    rows: np.ndarray


@onnx_rule("TfIdfVectorizer", since=9)
def tf_idf(node: OnnxNode) -> ir.Value:
    """How often sequences of a pool are in every row, weighted.

    Source: ONNX TfIdfVectorizer-9.
    """
    if "pool_strings" in node.attrs:
        raise NotImplementedError("sequences of strings are not supported")
    mode = node.attr("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"bad mode: expected TF, IDF or TFIDF, got {mode!r}")
    x = AstypeOp(node.input(0), dtype=_INT64).y
    shape = tensors.shape_of(x)
    if len(shape) not in (1, 2):
        raise ValueError(f"expected rank 1 or 2, got {len(shape)}")
    rows = x if len(shape) == 2 else ReshapeOp(x, shape=(1, *shape)).y
    places = np.asarray(node.attr("ngram_indexes"), np.int64)
    pools = [p for p in _pools(node) if len(p.rows)]
    total = sum(len(p.rows) for p in _all_pools(node))
    if len(places) != total or places.min(initial=0) < 0:
        raise ValueError(
            f"ngram_indexes: expected {total} of 0 or more, one for every sequence of "
            f"the pool, got {len(places)}"
        )
    if places.max(initial=0) >= _MOST_PLACES:
        raise ValueError(
            f"ngram_indexes: expected less than {_MOST_PLACES}, got {places.max()}"
        )
    counts = AstypeOp(_counts(node, rows, pools, places), dtype=_F32).y
    y = _weighted(node, counts, places, mode)
    size = tensors.shape_of(y)[1]
    return y if len(shape) == 2 else ReshapeOp(y, shape=(size,)).y


def _all_pools(node: OnnxNode) -> Iterator[_Pool]:
    """The sequences of every length, from 1 on."""
    pool = np.asarray(node.attr("pool_int64s"), np.int64)
    starts = [*node.attr("ngram_counts"), len(pool)]
    first = 0
    for length, (begin, end) in enumerate(pairwise(starts), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise ValueError(
                f"ngram_counts: expected places in a pool of {len(pool)} numbers, with "
                f"sequences of {length} from {begin} to {end}"
            )
        yield _Pool(first, pool[begin:end].reshape(-1, length))
        first += (end - begin) // length


def _pools(node: OnnxNode) -> Iterator[_Pool]:
    least, most = node.attr("min_gram_length"), node.attr("max_gram_length")
    for pool in _all_pools(node):
        if least <= pool.rows.shape[1] <= most:
            yield pool


def _counts(
    node: OnnxNode, rows: ir.Value, pools: list[_Pool], places: np.ndarray
) -> ir.Value:
    """Counts where the places say; 0 elsewhere."""
    skips = node.attr("max_skip_count")
    nothing = ZerosOp(shape=(tensors.shape_of(rows)[0], 1), dtype=_INT64).y
    found, order = [nothing], np.zeros(places.max(initial=-1) + 1, np.int64)
    column = 1
    for pool in pools:
        count, length = pool.rows.shape
        steps = 1 if length == 1 else skips + 1
        found.append(CountNgramsOp(rows, node.constant(pool.rows), steps=steps).y)
        own = places[pool.first : pool.first + count]
        order[own] = np.arange(column, column + count)
        column += count
    return TakeOp(ConcatOp(found, axis=1).y, node.constant(order), axis=1).y


def _weighted(
    node: OnnxNode, counts: ir.Value, places: np.ndarray, mode: str
) -> ir.Value:
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = MinimumOp(counts, node.constant(np.array(1, np.float32))).z
    weights = np.ones(places.max(initial=-1) + 1, np.float32)
    given = node.attr("weights", [])
    if len(given) not in (0, len(places)):
        raise ValueError(f"weights: expected {len(places)}, got {len(given)}")
    if len(given):
        weights[places] = given
    return MultiplyOp(counts, node.constant(weights)).z
