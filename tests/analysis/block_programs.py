"""Tensor programs of a few blocks on buffers of 4x5x6 numbers."""

from collections.abc import Sequence
from functools import cache

from mlir import ir
from mlir.dialects import func

from relax_mlir.ir.context import new_context

_AXES = "ijkl"
_TYPES = {"x": "4x5x6xf32", "y": "4x5x6xf32", "z": "4x5x6xf32", "o": "4x5x6xf32"}


def block(body: str, kinds: str, extents: Sequence[int], *, start: str = "") -> str:
    """A block with an axis per letter, called %i, %j, ..."""
    axes = ", ".join(f"%{_AXES[n]}: index" for n in range(len(kinds)))
    begin = f"{{\n^bb0({axes}):\n{start}\ngpu.yield\n}}" if start else "{}"
    return f"""
    "tir.block"() ({begin}, {{
    ^bb0({axes}):
      {body}
      gpu.yield
    }}) {{kinds = "{kinds}", name = "b", operandSegmentSizes = array<i32: 0, 0>,
        static_extents = array<i64: {", ".join(map(str, extents))}>}} : () -> ()
    """


_MODULES: list[ir.Module] = []  # functions live no longer than their modules


@cache
def _context() -> ir.Context:
    return new_context()


def parsed(text: str) -> func.FuncOp:
    """The one function of a module."""
    with _context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        assert isinstance(function, func.FuncOp)
        _MODULES.append(module)
    return function


def program(
    *statements: str, outputs: int = 1, buffers: str = "x, y, o", element: str = "f32"
) -> func.FuncOp:
    names = [name.strip() for name in buffers.split(",")]
    arguments = ", ".join(f"%{n}: memref<4x5x6x{element}>" for n in names)
    text = "\n".join(statements).replace("f32", element)
    return parsed(f"""
      func.func @f({arguments})
          attributes {{tir.prim_func, tir.num_outputs = {outputs} : i64}} {{
        {text}
        return
      }}""")


def load(buffer: str, *indices: str, to: str = "") -> str:
    where = ", ".join(f"%{index}" for index in indices)
    return f"%{to or buffer}v = memref.load %{buffer}[{where}] : memref<4x5x6xf32>\n"


def store(value: str, buffer: str, *indices: str) -> str:
    where = ", ".join(f"%{index}" for index in indices)
    return f"memref.store %{value}, %{buffer}[{where}] : memref<4x5x6xf32>\n"


NUMBERS = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
ALLOCATION = """%t = "tir.alloc_buffer"() {shape = #relax.shape<["4", "5", "6"]>}
    : () -> memref<4x5x6xf32>
"""
WHOLE = (4, 5, 6)


def copy(source: str, target: str, indices: str = "ijk", to: str = "ijk") -> str:
    """A block without reduction axes: ``target[to] = source[indices]``; 0 is a constant."""
    read = [{"0": "c0", "1": "c1"}.get(index, index) for index in indices]
    body = NUMBERS + load(source, *read) + store(f"{source}v", target, *to)
    return block(body, "SSS", WHOLE)


ZERO = "%zero = arith.constant 0.0 : f32\n" + store("zero", "o", *"ijk")


def reduction(
    value: str,
    reads: str,
    *,
    kinds: str = "SSSR",
    extents: Sequence[int] = (4, 5, 6, 6),
    out: str = "o",
    at: str = "ijk",
) -> str:
    """A block that sums ``value`` of its loads."""
    body = f"{NUMBERS}{reads}{value}\n" + load(out, *at, to="acc")
    body += "%s = arith.addf %accv, %v : f32\n" + store("s", out, *at)
    start = "%zero = arith.constant 0.0 : f32\n" + store("zero", out, *at)
    return block(body, kinds, extents, start=start)


PLAIN = "%v = arith.negf %xv : f32"
TIMES = "%v = arith.mulf %xv, %yv : f32"
SUM = reduction(PLAIN, load("x", *"ijl"))
MATMUL = reduction(TIMES, load("x", *"ijl") + load("y", *"ilk"))
