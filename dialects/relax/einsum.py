"""Einsum and outer product."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import numpy as np
from mlir.ir import RankedTensorType, StringAttr, TupleType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["EinsumOp", "OuterOp"]


@dataclass(frozen=True)
class _Subscripts:
    """Parsed subscripts: names of axes, which are numbers for those of an ellipsis.

    Attributes:
        inputs: the axes of every operand.
        output: the axes of the result, each once.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]

    @staticmethod
    def parse(text: str, ranks: Sequence[int]) -> "_Subscripts":
        """Parses numpy's notation.

        Raises:
            ValueError: the text is malformed or does not match the ranks.
        """
        left, arrow, right = text.replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise ValueError(
                f"`{text}` is for {len(terms)} operands, got {len(ranks)} of them"
            )
        named = [
            _names(term, rank, text) for term, rank in zip(terms, ranks, strict=True)
        ]
        every = [name for names in named for name in names]
        dots = [name for name in sorted(set(every)) if not name.isalpha()]
        if arrow:
            output = _names(right, len(right.replace("...", "")) + len(dots), text)
        else:
            once = (
                n for n in sorted(set(every)) if n.isalpha() and every.count(n) == 1
            )
            output = (*dots, *once)
        if len(set(output)) != len(output) or not set(output) <= set(every):
            raise ValueError(
                f"`{text}`: axes of the result must be those of operands, each once"
            )
        return _Subscripts(tuple(named), output)

    def sizes(self, all_shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim]:
        """The size of every axis; axes of size 1 are broadcast."""
        sizes: dict[str, Dim] = {}
        for names, shape in zip(self.inputs, all_shapes, strict=True):
            for name, dim in zip(names, shape, strict=True):
                (sizes[name],) = shapes.broadcast((sizes.get(name, 1),), (dim,))
        return sizes


def _names(term: str, rank: int, text: str) -> tuple[str, ...]:
    """The axes of one operand; those of an ellipsis are numbered from the last one."""
    before, dots, after = term.partition("...")
    letters = before + after
    missing = rank - len(letters)
    if (letters and not letters.isalpha()) or missing < 0 or (missing and not dots):
        raise ValueError(f"`{text}`: `{term}` does not name {rank} axes")
    middle = (f"{1000 - missing + i}" for i in range(missing))
    return (*before, *middle, *after)


class EinsumOp(Relax.Operation, name="einsum"):
    """Einstein summation: products of elements, summed over axes absent from the result.

    Integers are accumulated in their own type, f16 and bf16 in f32.

    Attributes:
        subscripts: the axes of operands and result, such as ``ij,jk->ik``. ``...`` stands
            for broadcast axes; without an arrow the result has those, then the labels that
            occur once, in alphabetical order.
    Source: numpy.einsum; ONNX Einsum-12.
    """

    operand_tuple: Operand[TupleType]
    y: Result[RankedTensorType]
    subscripts: StringAttr

    reference_scratch_bytes = 0  # no intermediate products
    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case([(3, 4), (4, 5)], subscripts="ij,jk->ik"),
        Case([(3, 4), (4, 5)], subscripts="ij,jk"),
        Case([(2, 3, 4), (4, 5)], subscripts="...ij,...jk"),
        Case([(3, 3)], subscripts="ii"),
        Case([(3, 3)], subscripts="ii->i"),
        Case([(3, 5, 5)], subscripts="...ii->...i"),
        Case([(2, 3, 4)], subscripts="i...->..."),
        Case([(2, 3)], subscripts="ij->ji"),
        Case([(3, 1), (3, 5)], subscripts="ij,ij->ij"),
        Case([(3,), (4,), (5,)], subscripts="i, j, k -> kij"),
        Case([(2, 3, 4), (2, 5, 4)], subscripts="bik,bjk->bij"),
        Case([(3, 70, "float16"), (70, "float16")], subscripts="ij,j->i"),
        Case([(3, 4, "int64"), (4, "int64")], subscripts="ij,j->", low=-9, high=9),
    )

    @staticmethod
    def infer(xs: Sequence[RankedTensorType], subscripts: str) -> RankedTensorType:
        dtypes = {str(tensors.dtype_of(x)) for x in xs}
        if len(dtypes) != 1:
            got = ", ".join(sorted(dtypes)) or "no operands"
            raise ValueError(f"operands must have one element type, got {got}")
        names = _Subscripts.parse(subscripts, [x.rank for x in xs])
        sizes = names.sizes([tensors.shape_of(x) for x in xs])
        shape = [sizes[name] for name in names.output]
        return tensors.tensor_type(shape, tensors.dtype_of(xs[0]))

    @staticmethod
    def reference(xs: Sequence[np.ndarray], subscripts: str) -> np.ndarray:
        wide = [x.astype(np.float64) if x.dtype.kind not in "iub" else x for x in xs]
        return np.asarray(np.einsum(subscripts, *wide)).astype(xs[0].dtype)

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        names = _Subscripts.parse(self.subscripts.value, [x.rank for x in b.inputs])
        sizes = names.sizes([x.shape for x in b.inputs])
        summed = [name for name in sizes if name not in names.output]

        def body(*axes: Index) -> Scalar:
            at = dict(zip((*names.output, *summed), axes, strict=True))
            operands = [
                b.widen(x[_indices(x, own, sizes, at)])
                for x, own in zip(b.inputs, names.inputs, strict=True)
            ]
            return reduce(mul, operands)

        if not summed:
            return b.compute(
                shape, lambda *axes: b.cast(body(*axes), dtype), dtype, "einsum"
            )
        extents = [sizes[name] for name in summed]
        return b.reduce_over("add", shape, extents, body, dtype, "einsum")


def _indices(
    x: Buffer, names: Sequence[str], sizes: dict[str, Dim], at: dict[str, Index]
) -> "tuple[Index | int, ...]":
    pairs = zip(names, x.shape, strict=True)
    return tuple(0 if n == 1 and sizes[name] != 1 else at[name] for name, n in pairs)


class OuterOp(Relax.Operation, name="outer"):
    """The outer product of two vectors: y[i, j] = x1[i] * x2[j].

    Shapes:
        x1: [n]; x2: [m], same element type; y: [n, m].
    """

    x1: Operand[RankedTensorType]
    x2: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (
        Case((3,), (5,)),
        Case((1,), (71,)),
        Case((3, "int64"), (2, "int64"), low=-9, high=9),
        Case((0,), (3,)),
    )

    @staticmethod
    def infer(x1: RankedTensorType, x2: RankedTensorType) -> RankedTensorType:
        if x1.rank != 1 or x2.rank != 1:
            raise ValueError(f"expected vectors, got ranks {x1.rank} and {x2.rank}")
        dtype, other = tensors.dtype_of(x1), tensors.dtype_of(x2)
        if dtype != other:
            raise ValueError(
                f"operands must have one element type, got {dtype} and {other}"
            )
        return tensors.tensor_type(
            (*tensors.shape_of(x1), *tensors.shape_of(x2)), dtype
        )

    @staticmethod
    def reference(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
        return np.outer(x1, x2)

    def legalize(self, b: Builder) -> Buffer:
        x1, x2 = b.inputs
        shape, dtype = b.results[0]
        return b.compute(shape, lambda i, j: x1[i] * x2[j], dtype, "outer")
