"""Error message of a structural mismatch, and the precise path to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_ffi.access_path import AccessPath

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.compare.access_path import access_path, parts_on
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.stmt.buffer import BufferLoad

__all__ = ["mismatch_message", "narrow_mismatch"]

Extend = Callable[[AccessPath], AccessPath]  # appends steps to a path


def mismatch_message(lhs: Any, rhs: Any, first: AccessPath, second: AccessPath) -> str:
    """The paths to a mismatch, and both programs with the mismatch underlined.

    Args:
        lhs, rhs: the programs.
        first, second: paths of the mismatch.
    """
    return (
        f"StructuralEqual check failed, caused by lhs at {first}:\n"
        f"{_underlined(lhs, first)}\nand rhs at {second}:\n{_underlined(rhs, second)}"
    )


def narrow_mismatch(lhs: Any, rhs: Any, place: str) -> tuple[AccessPath, AccessPath]:
    """Narrows a mismatch to the differing subexpression.

    Args:
        lhs, rhs: the programs.
        place: path of the mismatch, in the syntax of :func:`.access_path.access_path`.
    """
    paths = access_path(lhs, place), access_path(rhs, place)
    a, b = parts_on(lhs, paths[0])[-1], parts_on(rhs, paths[1])[-1]
    known: dict[tuple[str, int], int] = {}
    while isinstance(a, PrimExpr) and type(a) is type(b):
        steps = zip(_children(a), _children(b), strict=False)
        differing = ((x, y) for x, y in steps if not _is_equivalent(x[1], y[1], known))
        found = next(differing, None)
        if found is None:
            break
        (extend, a), (_, b) = found
        paths = extend(paths[0]), extend(paths[1])
    return paths


def _children(expr: PrimExpr) -> list[tuple[Extend, Any]]:
    """The parts of an expression, each with its steps of a path."""
    if isinstance(expr, (prim.IntImm, prim.FloatImm, prim.StringImm)):
        return [(_attr("value"), expr.value)]
    if isinstance(expr, prim.Call):
        return [(_item("args", n), a) for n, a in enumerate(expr.args)]
    if isinstance(expr, BufferLoad):
        return [(_item("indices", n), i) for n, i in enumerate(expr.indices)]
    return [(_attr(name), getattr(expr, name)) for name in expr.fields]


def _attr(name: str) -> Extend:
    return lambda path: path.attr(name)


def _item(name: str, number: int) -> Extend:
    return lambda path: path.attr(name).array_item(number)


def _is_equivalent(a: Any, b: Any, known: dict[tuple[str, int], int]) -> bool:
    """Whether two parts have the same structure.

    Args:
        a, b: the parts.
        known: the correspondence of variables so far, by their ids, in both directions.
    """
    if type(a) is not type(b) or not isinstance(a, PrimExpr):
        return type(a) is type(b) and a == b
    if isinstance(a, prim.Var):
        there = known.setdefault(("lhs", id(a)), id(b)) == id(b)
        return there and known.setdefault(("rhs", id(b)), id(a)) == id(a)
    pairs = zip(_children(a), _children(b), strict=False)
    return all(_is_equivalent(x, y, known) for (_, x), (_, y) in pairs)


def _underlined(root: Any, path: AccessPath) -> str:
    """A program with the end of a path underlined."""
    if not hasattr(root, "script"):
        try:
            return str(root)
        except Exception:  # raised by the value's own __str__
            return short_repr(root)
    return root.script(path_to_underline=[path], syntax_sugar=False)
