"""Op pattern kinds as TVM's ``AnnotateTIROpPattern`` assigns them."""

import pytest

from relax_mlir.analysis.tvm_op_pattern import TvmOpPatternKind, tvm_op_pattern_of
from relax_mlir.ir.module import IRModule

_PROGRAM = """
func.func @f(%A: memref<4x4xf32>, %v: memref<4xf32>, %t: memref<4xindex>, %h: memref<4x4xf16>,
             %O: memref<4x4xf32>, %o: memref<4xf32>, %n: memref<4xi32>, %W: memref<1x4xf32>,
             %Z: memref<4x1xf32>, %U: memref<1xf32>, %N: index, %s: f32)
    attributes {{tir.prim_func}} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %yes = arith.constant true
  %T = "tir.alloc_buffer"() {{shape = #relax.shape<["4", "4"]>}} : () -> memref<4x4xf32>
  %r = "tir.alloc_buffer"() {{shape = #relax.shape<["4"]>}} : () -> memref<4xf32>
  {blocks}
  return
}}
"""
_SHAPES = {"A": "4x4xf32", "v": "4xf32", "t": "4xindex", "h": "4x4xf16", "O": "4x4xf32"}
_SHAPES |= {
    "W": "1x4xf32",
    "Z": "4x1xf32",
    "U": "1xf32",
    "o": "4xf32",
    "n": "4xi32",
    "T": "4x4xf32",
    "r": "4xf32",
}


def load(name: str, buffer: str, *indices: str) -> str:
    return f"%{name} = memref.load %{buffer}[{_listed(indices)}] : memref<{_SHAPES[buffer]}>"


def store(value: str, buffer: str, *indices: str) -> str:
    return f"memref.store %{value}, %{buffer}[{_listed(indices)}] : memref<{_SHAPES[buffer]}>"


def _listed(indices: tuple[str, ...]) -> str:
    return ", ".join(f"%{index}" for index in indices)


def block(kinds: str, *body: str, inner: str = "") -> str:
    """A block with axes ``%a``, ``%b``, ``%c``, as many as it has kinds."""
    axes = ", ".join(f"%{name}: index" for name in "abc"[: len(kinds)])
    lines = "\n    ".join([*body, inner])
    sizes = ", ".join("4" * len(kinds))
    return f""""tir.block"() ({{ }}, {{
  ^bb0({axes}):
    {lines}
    gpu.yield
  }}) {{kinds = "{kinds}", name = "b", operandSegmentSizes = array<i32: 0, 0>,
      static_extents = array<i64: {sizes}>}} : () -> ()"""


def kind_of(*blocks: str) -> TvmOpPatternKind:
    module = IRModule.parse(_PROGRAM.format(blocks="\n  ".join(blocks)))
    function = module.func_op("f")
    with function.context:
        return tvm_op_pattern_of(function)


def copy(buffer: str, *indices: str) -> str:
    """A block over two axes that copies one element."""
    return block("SS", load("x", buffer, *indices), store("x", "O", "a", "b"))


_NEXT = "%d = arith.addi %a, %1 : index"
_CAST = (
    "%d = arith.index_cast %a : index to i64\n%e = arith.index_cast %d : i64 to index"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([load("x", "A", "a", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.ELEMENTWISE),
        ([store("one", "O", "a", "b")], TvmOpPatternKind.ELEMENTWISE),
        ([load("x", "v", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "v", "a"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "U", "0"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "W", "0", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "Z", "a", "0"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "W", "0", "a"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([load("x", "W", "1", "a"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        ([load("x", "A", "0", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        ([load("x", "v", "0"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        ([load("x", "A", "1", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        ([load("x", "A", "b", "a"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        # TVM classifies a diagonal as a broadcast.
        ([load("x", "A", "a", "a"), store("x", "O", "a", "b")], TvmOpPatternKind.BROADCAST),
        ([_NEXT, load("x", "A", "d", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        ([_NEXT, load("x", "A", "a", "b"), store("x", "O", "d", "b")], TvmOpPatternKind.OPAQUE),
        # Index expressions are not compared, not even with themselves.
        ([_NEXT, load("x", "A", "d", "b"), store("x", "O", "d", "b")], TvmOpPatternKind.OPAQUE),
        ([load("x", "A", "0", "b"), store("x", "O", "0", "b")], TvmOpPatternKind.OPAQUE),
        # Variables that are no axes of the result.
        ([load("x", "A", "N", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.OPAQUE),
        (["%d = arith.addi %a, %N : index", load("x", "A", "d", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.OPAQUE),
        ([load("x", "A", "N", "b"), store("x", "O", "N", "b")], TvmOpPatternKind.ELEMENTWISE),
        ([load("x", "A", "a", "b"), store("x", "o", "a")], TvmOpPatternKind.OPAQUE),
        # Conversions of indices do not count.
        ([_CAST, load("x", "A", "e", "b"), store("x", "O", "a", "b")], TvmOpPatternKind.ELEMENTWISE),
        ([_CAST, load("x", "A", "a", "b"), store("x", "O", "e", "b")], TvmOpPatternKind.ELEMENTWISE),
        # An index that is loaded is computed from the axes.
        ([load("i", "t", "a"), load("x", "v", "i"), store("x", "O", "a", "b")], TvmOpPatternKind.INJECTIVE),
        # Several loads.
        (
            [load("x", "A", "a", "b"), load("y", "v", "b"), store("x", "O", "a", "b")],
            TvmOpPatternKind.ELEMENTWISE,
        ),
        (
            [load("x", "A", "b", "a"), load("y", "A", "a", "b"), store("x", "O", "a", "b")],
            TvmOpPatternKind.INJECTIVE,
        ),
        (
            [load("x", "A", "b", "a"), load("y", "v", "b"), store("x", "O", "a", "b")],
            TvmOpPatternKind.INJECTIVE,
        ),
        # Stores to one element, possibly conditional.
        ([store("one", "O", "a", "b"), store("one", "A", "a", "b")], TvmOpPatternKind.ELEMENTWISE),
        ([store("one", "O", "a", "b"), store("one", "A", "b", "a")], TvmOpPatternKind.OPAQUE),
        ([store("one", "O", "a", "b"), store("one", "O", "a", "b"), store("one", "o", "a")], TvmOpPatternKind.OPAQUE),
        (["%x = arith.addi %a, %b : index"], TvmOpPatternKind.OPAQUE),
        ([f"scf.if %yes {{ {store('one', 'O', 'a', 'b')} }}"], TvmOpPatternKind.ELEMENTWISE),
    ],
)  # fmt: skip
def test_kinds_without_reductions(body: list[str], expected: TvmOpPatternKind) -> None:
    assert kind_of(block("SS", *body)) is expected


def reduced(*lines: str, value: str = "x", buffer: str = "o") -> list[str]:
    """The lines of a block that adds a value to ``%o[%a]``."""
    total = load("p", buffer, "a")
    return [
        total,
        *lines,
        f"%q = arith.addf %p, %{value} : f32",
        store("q", buffer, "a"),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (reduced(load("x", "A", "a", "b")), TvmOpPatternKind.REDUCTION),
        (reduced(load("x", "A", "b", "a")), TvmOpPatternKind.REDUCTION),
        ([load("x", "A", "a", "b"), store("x", "o", "a")], TvmOpPatternKind.REDUCTION),
        ([load("x", "A", "a", "b"), "%q = arith.addf %x, %s : f32", store("q", "o", "a")], TvmOpPatternKind.REDUCTION),
        ([store("one", "o", "a")], TvmOpPatternKind.ELEMENTWISE),
        # The reduction axis is part of an index: a window reduction.
        (reduced("%d = arith.addi %a, %b : index", load("x", "v", "d")), TvmOpPatternKind.OUT_FUSABLE),
        (reduced(_NEXT, load("x", "A", "d", "b")), TvmOpPatternKind.REDUCTION),
        # A sum of squares reads no element twice.
        (reduced(load("x", "A", "a", "b"), "%y = arith.mulf %x, %x : f32", value="y"), TvmOpPatternKind.REDUCTION),
    ],
)  # fmt: skip
def test_kinds_of_reductions(body: list[str], expected: TvmOpPatternKind) -> None:
    assert kind_of(block("SR", *body)) is expected


def product(
    *,
    left: str = load("x", "A", "a", "c"),
    right: str = load("y", "A", "c", "b"),
    old: str = load("p", "O", "a", "b"),
    made: str = "%z = arith.mulf %x, %y : f32",
    total: str = "%q = arith.addf %p, %z : f32",
    stored: str = store("q", "O", "a", "b"),
) -> str:
    """A block that adds a product to ``%O[%a, %b]``."""
    return block("SSR", left, right, old, made, total, stored)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, TvmOpPatternKind.OUT_FUSABLE),
        ({"right": load("y", "v", "c")}, TvmOpPatternKind.OUT_FUSABLE),
        ({"left": load("x0", "h", "a", "c") + "\n%x = arith.extf %x0 : f16 to f32"}, TvmOpPatternKind.OUT_FUSABLE),
        ({"left": load("x0", "n", "a") + "\n%x = arith.sitofp %x0 : i32 to f32"}, TvmOpPatternKind.OUT_FUSABLE),
        # With other operations, it is a reduction.
        ({"made": "%z = arith.divf %x, %y : f32"}, TvmOpPatternKind.REDUCTION),
        ({"total": "%q = arith.maximumf %p, %z : f32"}, TvmOpPatternKind.REDUCTION),
        ({"total": "%q = arith.addf %z, %p : f32"}, TvmOpPatternKind.REDUCTION),
        ({"made": "%z = arith.mulf %x, %one : f32"}, TvmOpPatternKind.REDUCTION),
        ({"made": "%z = arith.mulf %s, %y : f32"}, TvmOpPatternKind.REDUCTION),
        ({"left": load("x0", "A", "a", "c") + "\n%x = math.exp %x0 : f32"}, TvmOpPatternKind.REDUCTION),
        ({"total": "%q = arith.addf %s, %z : f32"}, TvmOpPatternKind.REDUCTION),
        ({"old": load("p", "A", "a", "b")}, TvmOpPatternKind.REDUCTION),
        ({"old": load("p", "O", "b", "a")}, TvmOpPatternKind.REDUCTION),
        ({"stored": f"scf.if %yes {{ {store('q', 'O', 'a', 'b')} }}"}, TvmOpPatternKind.REDUCTION),
        ({"stored": store("s", "O", "a", "b")}, TvmOpPatternKind.REDUCTION),
        # An operand with all axes of the result is not reused.
        ({"left": "%i = arith.addi %a, %b : index\n" + load("x", "A", "i", "c")}, TvmOpPatternKind.REDUCTION),
        ({"right": "%i = arith.addi %a, %b : index\n" + load("y", "A", "i", "c")}, TvmOpPatternKind.REDUCTION),
    ],
)  # fmt: skip
def test_kinds_of_contractions(
    changed: dict[str, str], expected: TvmOpPatternKind
) -> None:
    assert kind_of(product(**changed)) is expected


@pytest.mark.parametrize(
    ("there", "type_", "back"),
    [
        ("arith.truncf", "f16", "arith.extf"),
        ("arith.extf", "f64", "arith.truncf"),
        ("arith.fptosi", "i32", "arith.sitofp"),
        ("arith.fptoui", "i32", "arith.uitofp"),
        ("arith.extsi", "i64", "arith.trunci"),
        ("arith.extui", "i64", "arith.trunci"),
        ("arith.index_cast", "index", "arith.index_cast"),
        ("arith.index_castui", "index", "arith.index_castui"),
    ],
)
def test_operands_of_contractions_may_be_converted(
    there: str, type_: str, back: str
) -> None:
    is_float = "f" in back or "to" in back
    source = "f32" if is_float else "i32"
    lines = [
        load("x0", "v" if is_float else "n", "b"),
        f"%x1 = {there} %x0 : {source} to {type_}",
        f"%x = {back} %x1 : {type_} to {source}",
        load("p", "o" if is_float else "n", "a"),
        f"%z = arith.{'mulf' if is_float else 'muli'} %x, %x : {source}",
        f"%q = arith.{'addf' if is_float else 'addi'} %p, %z : {source}",
        store("q", "o" if is_float else "n", "a"),
    ]

    assert kind_of(block("SR", *lines)) is TvmOpPatternKind.OUT_FUSABLE


def test_integer_contractions() -> None:
    body = [
        load("x", "n", "b"),
        load("y", "n", "b"),
        load("p", "n", "a"),
        "%z = arith.muli %x, %y : i32",
        "%q = arith.addi %p, %z : i32",
        store("q", "n", "a"),
    ]

    assert kind_of(block("SR", *body)) is TvmOpPatternKind.OUT_FUSABLE


SUM = block("SR", *reduced(load("x", "A", "a", "b"), buffer="r"))
OUT = copy("r", "a")  # an elementwise block that writes to an argument
LOCAL = block("SS", load("x", "r", "a"), store("x", "T", "a", "b"))
MAP = copy("A", "a", "b")
TURNED = copy("A", "b", "a")
OPAQUE = block("SS", "%x = arith.addi %a, %b : index")


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([], TvmOpPatternKind.ELEMENTWISE),
        ([MAP, TURNED], TvmOpPatternKind.INJECTIVE),
        ([TURNED, MAP], TvmOpPatternKind.INJECTIVE),
        ([SUM, OUT], TvmOpPatternKind.OUT_FUSABLE),
        ([SUM, LOCAL], TvmOpPatternKind.REDUCTION),
        ([OUT, SUM], TvmOpPatternKind.REDUCTION),
        ([SUM, SUM], TvmOpPatternKind.REDUCTION),
        ([SUM, block("SR", *reduced(load("x", "A", "a", "b")))], TvmOpPatternKind.REDUCTION),
        ([product(), OUT], TvmOpPatternKind.OUT_FUSABLE),
        ([SUM, OPAQUE], TvmOpPatternKind.OPAQUE),
        ([SUM, block("SR", store("one", "o", "a"))], TvmOpPatternKind.OUT_FUSABLE),
        ([OPAQUE, MAP], TvmOpPatternKind.OPAQUE),
        # Innermost blocks count, enclosing ones do not.
        ([block("SS", store("one", "O", "a", "b"), store("one", "O", "b", "a"), inner=MAP.replace("%a", "%i").replace("%b", "%j"))], TvmOpPatternKind.ELEMENTWISE),
        (["scf.for %i = %0 to %1 step %1 {", TURNED, "}"], TvmOpPatternKind.INJECTIVE),
    ],
)  # fmt: skip
def test_kinds_of_programs(blocks: list[str], expected: TvmOpPatternKind) -> None:
    assert kind_of(*blocks) is expected


def test_numbers_are_those_of_tvm() -> None:
    assert {pattern.name: pattern.value for pattern in TvmOpPatternKind} == {
        "ELEMENTWISE": 0,
        "BROADCAST": 1,
        "INJECTIVE": 2,
        "REDUCTION": 3,
        "OUT_FUSABLE": 4,
        "TUPLE": 7,
        "OPAQUE": 8,
    }
