"""Operators that multiply and add along shared axes."""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.prim import IterVar, PrimExpr
from relax_mlir.te import Tensor
from relax_mlir.topi.ranks import Matrix
from relax_mlir.topi.sizes import elements, is_one
from relax_mlir.topi.transform import checked_axis, listed

__all__ = ["einsum", "matmul", "tensordot"]

_MATMUL = "matmul"


def matmul(
    a: Matrix, b: Matrix, transp_a: bool = False, transp_b: bool = False
) -> Tensor:
    """The product of two matrices."""
    k = te.reduce_axis((0, a.shape[0 if transp_a else 1]), "k")

    def element(place: tuple[Any, ...]) -> Any:
        i, j = place
        left = a[k, i] if transp_a else a[i, k]
        right = b[j, k] if transp_b else b[k, j]
        return te.sum(left * right, axis=k)

    sizes = (a.shape[1 if transp_a else 0], b.shape[0 if transp_b else 1])
    return elements(sizes, element, "T_matmul", _MATMUL)


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[Any]) -> Tensor:
    """The sum of products along axes of two tensors.

    Args:
        a, b: the tensors.
        axes: how many, the last of ``a`` and the first of ``b``; or those of each.
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
            raise ValueError(f"tensordot: expected axes of both tensors, got {axes}")
        left, right = listed(axes[0]), listed(axes[1])
    if len(left) != len(right):
        raise ValueError(f"tensordot: expected as many axes of each, got {axes}")
    left = [checked_axis(axis, a.ndim, "tensordot") for axis in left]
    right = [checked_axis(axis, b.ndim, "tensordot") for axis in right]
    reduced = [te.reduce_axis((0, b.shape[i]), f"k{n}") for n, i in enumerate(right)]
    sizes = [s for i, s in enumerate(a.shape) if i not in left]
    sizes += [s for i, s in enumerate(b.shape) if i not in right]

    def element(indices: tuple[Any, ...]) -> Any:
        own = iter(indices)
        x = a(*(_place(i, left, reduced, own) for i in range(a.ndim)))
        y = b(*(_place(i, right, reduced, own) for i in range(b.ndim)))
        return te.sum(x * y, axis=reduced) if reduced else x * y

    return elements(sizes, element, "T_tensordot", _MATMUL)


def _place(
    axis: int, summed: Sequence[int], reduced: Sequence[IterVar], own: Any
) -> Any:
    return reduced[summed.index(axis)].var if axis in summed else next(own)


def einsum(subscripts: str, *operand: Tensor | Sequence[Tensor]) -> Tensor:
    """Sums of products, by letters that name axes, as numpy's ``einsum``.

    Raises:
        ValueError: the letters do not fit the tensors.
    """
    listed = operand[0] if operand and not isinstance(operand[0], Tensor) else operand
    tensors = [instance_of(t, Tensor, "einsum", "tensors") for t in listed]
    inputs, output = _parse(subscripts, tensors)
    sizes = _sizes(inputs, tensors)
    summed = sorted({c for letters in inputs for c in letters} - set(output))
    reduced = {c: te.reduce_axis((0, sizes[c]), c) for c in summed}

    def element(indices: tuple[Any, ...]) -> Any:
        places = {c: axis.var for c, axis in reduced.items()}
        places |= dict(zip(output, indices, strict=True))
        values = [
            _operand(tensor, letters, places)
            for tensor, letters in zip(tensors, inputs, strict=True)
        ]
        product = math.prod(values[1:], start=values[0])
        axes = list(reduced.values())
        return functions.sum(product, axis=axes) if axes else product

    return elements([sizes[c] for c in output], element, "T_einsum", _MATMUL)


def _operand(tensor: Tensor, letters: str, places: Mapping[str, Any]) -> PrimExpr:
    pairs = zip(letters, tensor.shape, strict=True)
    return tensor(*(0 if is_one(size) else places[c] for c, size in pairs))


def _sizes(inputs: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """The size that every letter stands for."""
    sizes: dict[str, Any] = {}
    for letters, tensor in zip(inputs, tensors, strict=True):
        for letter, size in zip(letters, tensor.shape, strict=True):
            if letter not in sizes or is_one(sizes[letter]):
                sizes[letter] = size
    return sizes


def _parse(subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """The letters of every tensor, and of the result."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        raise ValueError(
            f"einsum `{subscripts}`: expected {len(parts)} tensors, got {len(tensors)}"
        )
    spare = [c for c in string.ascii_letters if c not in text]
    counts = [
        t.ndim - len(p) + 3 for p, t in zip(parts, tensors, strict=True) if "..." in p
    ]
    dots = "".join(spare[len(spare) - max(counts, default=0) :])
    inputs = []
    for part, tensor in zip(parts, tensors, strict=True):
        count = tensor.ndim - len(part) + 3
        letters = part.replace("...", dots[len(dots) - count :] if count else "")
        if len(letters) != tensor.ndim or (
            not letters.isalpha() * bool(letters) and letters
        ):
            raise ValueError(
                f"einsum `{subscripts}`: `{part}` does not name the {tensor.ndim} axes of "
                f"`{tensor.name}`"
            )
        inputs.append(letters)
    if not arrow:
        joined = "".join(inputs)
        once = sorted(c for c in set(joined) - set(dots) if joined.count(c) == 1)
        return inputs, dots + "".join(once)
    output = right.replace("...", dots)
    if set(output) - set("".join(inputs)) or len(set(output)) != len(output):
        raise ValueError(
            f"einsum `{subscripts}`: expected every letter of the result once among the "
            f"inputs, got `{right}`"
        )
    return inputs, output
