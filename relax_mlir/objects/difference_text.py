"""What an error says of the first difference of two programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_ffi.access_path import AccessPath

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.access_path import access_path, parts_on
from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.prim import PrimExpr

__all__ = ["difference_text", "narrowed"]

Extend = Callable[[AccessPath], AccessPath]


def difference_text(lhs: Any, rhs: Any, first: AccessPath, second: AccessPath) -> str:
    """Where two programs differ, and what they are there.

    Args:
        lhs, rhs: the programs.
        first, second: where.
    """
    return (
        f"StructuralEqual check failed, caused by lhs at {first}:\n"
        f"{_shown(lhs, first)}\nand rhs at {second}:\n{_shown(rhs, second)}"
    )


def narrowed(lhs: Any, rhs: Any, place: str) -> tuple[AccessPath, AccessPath]:
    """The ways to where two programs differ, inside of terms of one form.

    Args:
        lhs, rhs: the programs.
        place: where, as :func:`.access_path.access_path` reads it.
    """
    paths = access_path(lhs, place), access_path(rhs, place)
    a, b = parts_on(lhs, paths[0])[-1], parts_on(rhs, paths[1])[-1]
    known: dict[tuple[str, int], int] = {}
    while isinstance(a, PrimExpr) and type(a) is type(b):
        steps = zip(_children(a), _children(b), strict=False)
        differing = ((x, y) for x, y in steps if not _is_same(x[1], y[1], known))
        found = next(differing, None)
        if found is None:
            break
        (extend, a), (_, b) = found
        paths = extend(paths[0]), extend(paths[1])
    return paths


def _children(term: PrimExpr) -> list[tuple[Extend, Any]]:
    """The parts of a term, and how the way goes on to each."""
    if isinstance(term, (prim.IntImm, prim.FloatImm, prim.StringImm)):
        return [(_attr("value"), term.value)]
    if isinstance(term, prim.Call):
        return [(_item("args", n), a) for n, a in enumerate(term.args)]
    if isinstance(term, BufferLoad):
        return [(_item("indices", n), i) for n, i in enumerate(term.indices)]
    return [(_attr(name), getattr(term, name)) for name in term.fields]


def _attr(name: str) -> Extend:
    return lambda path: path.attr(name)


def _item(name: str, number: int) -> Extend:
    return lambda path: path.attr(name).array_item(number)


def _is_same(a: Any, b: Any, known: dict[tuple[str, int], int]) -> bool:
    """Whether two parts have one form.

    Args:
        a, b: the parts.
        known: which variable stands for which so far, by their ids, either way.
    """
    if type(a) is not type(b) or not isinstance(a, PrimExpr):
        return type(a) is type(b) and a == b
    if isinstance(a, prim.Var):
        there = known.setdefault(("lhs", id(a)), id(b)) == id(b)
        return there and known.setdefault(("rhs", id(b)), id(a)) == id(a)
    pairs = zip(_children(a), _children(b), strict=False)
    return all(_is_same(x, y, known) for (_, x), (_, y) in pairs)


def _shown(root: Any, path: AccessPath) -> str:
    """A program with what is at the end of a way underlined."""
    if not hasattr(root, "script"):
        try:
            return str(root)
        except Exception:  # it is the value's own
            return shown(root)
    return root.script(path_to_underline=[path], syntax_sugar=False)
