"""Contractions: matmul, tensordot and einsum."""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.prim import IterVar, PrimExpr, intrinsics
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.ranks import Matrix
from relax_mlir.tvm.topi.sizes import compute_tensor, is_one
from relax_mlir.tvm.topi.transform import as_list, checked_axis

__all__ = ["einsum", "matmul", "tensordot"]

_MATMUL = "matmul"


def matmul(
    a: Matrix, b: Matrix, transp_a: bool = False, transp_b: bool = False
) -> Tensor:
    """Matrix multiplication of two matrices, optionally transposed."""
    k = te.reduce_axis((0, a.shape[0 if transp_a else 1]), "k")

    def element(indices: tuple[Any, ...]) -> Any:
        i, j = indices
        left = a[k, i] if transp_a else a[i, k]
        right = b[j, k] if transp_b else b[k, j]
        return te.sum(left * right, axis=k)

    sizes = (a.shape[1 if transp_a else 0], b.shape[0 if transp_b else 1])
    return compute_tensor(sizes, element, "T_matmul", _MATMUL)


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[Any]) -> Tensor:
    """Contraction of two tensors along pairs of axes.

    Args:
        a, b: the tensors.
        axes: the number of axes to contract (the last of ``a`` with the first of ``b``),
            or the axes of ``a`` and those of ``b``.
    """
    if not isinstance(axes, Sequence):
        axes = operator.index(axes)
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(
                f"tensordot: expected at most {min(a.ndim, b.ndim)} axes, got {axes}"
            )
        left = list(range(a.ndim - axes, a.ndim))
        right = list(range(axes))
    else:
        if len(axes) != 2:
            raise ValueError(
                f"tensordot: expected axes for each of the two tensors, got {axes}"
            )
        left, right = as_list(axes[0]), as_list(axes[1])
    if len(left) != len(right):
        raise ValueError(
            f"tensordot: expected the same number of axes for both tensors, got {axes}"
        )
    left = [checked_axis(axis, a.ndim, "tensordot") for axis in left]
    right = [checked_axis(axis, b.ndim, "tensordot") for axis in right]
    reduced = [te.reduce_axis((0, b.shape[i]), f"k{n}") for n, i in enumerate(right)]
    sizes = [s for i, s in enumerate(a.shape) if i not in left]
    sizes += [s for i, s in enumerate(b.shape) if i not in right]

    def element(indices: tuple[Any, ...]) -> Any:
        free_indices = iter(indices)
        x = a(*(_operand_index(i, left, reduced, free_indices) for i in range(a.ndim)))
        y = b(*(_operand_index(i, right, reduced, free_indices) for i in range(b.ndim)))
        return te.sum(x * y, axis=reduced) if reduced else x * y

    return compute_tensor(sizes, element, "T_tensordot", _MATMUL)


def _operand_index(
    axis: int, contracted: Sequence[int], reduced: Sequence[IterVar], free_indices: Any
) -> Any:
    return (
        reduced[contracted.index(axis)].var
        if axis in contracted
        else next(free_indices)
    )


def einsum(subscripts: str, *operand: Tensor | Sequence[Tensor]) -> Tensor:
    """Einstein summation, as in ``numpy.einsum``.

    Raises:
        ValueError: the subscripts do not match the operands.
    """
    given = operand[0] if operand and not isinstance(operand[0], Tensor) else operand
    tensors = [instance_of(t, Tensor, "einsum", "tensors") for t in given]
    inputs, output = _parse(subscripts, tensors)
    sizes = _sizes(inputs, tensors)
    contracted = sorted({c for letters in inputs for c in letters} - set(output))
    reduced = {c: te.reduce_axis((0, sizes[c]), c) for c in contracted}

    def element(indices: tuple[Any, ...]) -> Any:
        by_subscript = {c: axis.var for c, axis in reduced.items()}
        by_subscript |= dict(zip(output, indices, strict=True))
        values = [
            _operand(tensor, letters, by_subscript)
            for tensor, letters in zip(tensors, inputs, strict=True)
        ]
        product = math.prod(values[1:], start=values[0])
        axes = list(reduced.values())
        return intrinsics.sum(product, axis=axes) if axes else product

    return compute_tensor([sizes[c] for c in output], element, "T_einsum", _MATMUL)


def _operand(tensor: Tensor, letters: str, by_subscript: Mapping[str, Any]) -> PrimExpr:
    pairs = zip(letters, tensor.shape, strict=True)
    return tensor(*(0 if is_one(size) else by_subscript[c] for c, size in pairs))


def _sizes(inputs: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Size of every subscript; sizes of 1 broadcast."""
    sizes: dict[str, Any] = {}
    for letters, tensor in zip(inputs, tensors, strict=True):
        for letter, size in zip(letters, tensor.shape, strict=True):
            if letter not in sizes or is_one(sizes[letter]):
                sizes[letter] = size
    return sizes


def _parse(subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Subscripts of every operand, with ``...`` expanded, and of the result."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    operand_subscripts = left.split(",")
    if len(operand_subscripts) != len(tensors):
        raise ValueError(
            f"einsum `{subscripts}`: expected {len(operand_subscripts)} tensors, got {len(tensors)}"
        )
    unused = [c for c in string.ascii_letters if c not in text]
    ellipsis_ranks = [
        t.ndim - len(s) + 3
        for s, t in zip(operand_subscripts, tensors, strict=True)
        if "..." in s
    ]
    ellipsis = "".join(unused[len(unused) - max(ellipsis_ranks, default=0) :])
    inputs = []
    for subscript, tensor in zip(operand_subscripts, tensors, strict=True):
        count = tensor.ndim - len(subscript) + 3
        letters = subscript.replace(
            "...", ellipsis[len(ellipsis) - count :] if count else ""
        )
        if len(letters) != tensor.ndim or (
            not letters.isalpha() * bool(letters) and letters
        ):
            raise ValueError(
                f"einsum `{subscripts}`: `{subscript}` does not match the {tensor.ndim} axes of "
                f"`{tensor.name}`"
            )
        inputs.append(letters)
    if not arrow:
        joined = "".join(inputs)
        unrepeated = sorted(
            c for c in set(joined) - set(ellipsis) if joined.count(c) == 1
        )
        return inputs, ellipsis + "".join(unrepeated)
    output = right.replace("...", ellipsis)
    if set(output) - set("".join(inputs)) or len(set(output)) != len(output):
        raise ValueError(
            f"einsum `{subscripts}`: expected output subscripts once each and among the "
            f"inputs, got `{right}`"
        )
    return inputs, output
