"""Analyses see what branches and loops inside a block read and write."""

from pathlib import Path

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, compile, opt
from relax_mlir.analysis.op_pattern import OpPatternKind, op_pattern_of
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import (
    only_store,
    operations_named,
    own_operations,
    values_read,
    walk,
)
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule
from tests.lint.traversal import bare_accesses, violations


def scattered(shape: tuple[int, int], axis: int, source: int, target: int) -> IRModule:
    """``y = 2 x``, of which the row ``target`` along an axis becomes the row ``source``."""
    part = tuple(1 if n == axis else size for n, size in enumerate(shape))
    x, a = ("tensor<" + "x".join(map(str, s)) + "xf32>" for s in (shape, part))
    return IRModule.parse(f"""
    func.func @main(%x: {x}) -> {x} {{
      %two = "relax.constant"() {{value = dense<2.0> : tensor<f32>}} : () -> tensor<f32>
      %d = "relax.multiply"(%x, %two) : ({x}, tensor<f32>) -> {x}
      %a = "relax.strided_slice"(%d) {{assume_inbound = false, axes = array<i64: {axis}>,
        begin = array<i64: {source}>, end = array<i64: {source + 1}>, strides = array<i64: 1>}}
        : ({x}) -> {a}
      %y = "relax.slice_scatter"(%d, %a) {{axis = {axis} : i64, start = {target} : i64,
        end = {target + 1} : i64, step = 1 : i64}} : ({x}, {a}) -> {x}
      return %y : {x}
    }}""")


@pytest.mark.parametrize(
    ("shape", "axis", "source", "target"),
    [((4, 5), 0, 2, 0), ((4, 5), 0, 0, 3), ((4, 5), 1, 4, 1), ((3, 40), 0, 2, 1)],
)
def test_rows_keep_buffers_whole_that_branches_read(
    shape: tuple[int, int], axis: int, source: int, target: int
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = np.moveaxis(x * 2, axis, 0).copy()
    expected[target] = expected[source]

    (y,) = compile(scattered(shape, axis, source, target), cache=False)(x)

    np.testing.assert_array_equal(np.moveaxis(y, axis, 0), expected)


@pytest.mark.parametrize("row", ["at[vi]", "5 - vi"])
def test_rows_are_computed_before_others_read_them(row: str) -> None:
    """A result of a program is kept, and read again in another row."""
    module = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def both(x: T.Buffer((6, 5)), at: T.Buffer((6,), "int64"), y: T.Buffer((6, 5)), z: T.Buffer((6, 5))):
        for i, j in T.grid(6, 5):
            with T.block("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(2)
        for i, j in T.grid(6, 5):
            with T.block("row"):
                vi, vj = T.axis.remap("SS", [i, j])
                z[vi, vj] = y[{row}, vj]

    @R.function
    def main(x: R.Tensor((6, 5), "float32"), at: R.Tensor((6,), "int64")):
        out = R.call_tir(Module.both, (x, at), [R.Tensor((6, 5), "float32"), R.Tensor((6, 5), "float32")])
        return out
""")
    x = np.arange(30, dtype=np.float32).reshape(6, 5)
    at = np.arange(5, -1, -1)

    y, z = compile(module, cache=False)(x, at)

    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(z, 2 * x[::-1])


def circular(before: int, after: int, size: int) -> IRModule:
    """Columns of ``2 x`` with those of the other end on either side."""
    x, y = f"tensor<3x{size}xf32>", f"tensor<3x{before + size + after}xf32>"

    def part(name: str, begin: int, count: int) -> str:
        return f"""%{name} = "relax.strided_slice"(%d) {{assume_inbound = false,
          axes = array<i64: 1>, begin = array<i64: {begin}>, end = array<i64: {begin + count}>,
          strides = array<i64: 1>}} : ({x}) -> tensor<3x{count}xf32>"""

    def put(
        name: str, into: str, value: str, begin: int, type_: str, count: int
    ) -> str:
        return f"""%{name} = "relax.slice_scatter"(%{into}, %{value}) {{axis = 1 : i64,
          start = {begin} : i64, end = {begin + count} : i64, step = 1 : i64}}
          : ({y}, {type_}) -> {y}"""

    parts = [
        part("head", 0, after),
        part("tail", size - before, before),
        put("a", "zeros", "d", before, x, size),
        put("b", "a", "tail", 0, f"tensor<3x{before}xf32>", before),
        put("c", "b", "head", before + size, f"tensor<3x{after}xf32>", after),
    ]
    text = "\n".join(parts)
    return IRModule.parse(f"""
    func.func @main(%x: {x}) -> {y} {{
      %two = "relax.constant"() {{value = dense<2.0> : tensor<f32>}} : () -> tensor<f32>
      %zeros = "relax.constant"() {{value = dense<0.0> : {y}}} : () -> {y}
      %d = "relax.multiply"(%x, %two) : ({x}, tensor<f32>) -> {x}
      {text}
      return %c : {y}
    }}""")


@pytest.mark.parametrize(("before", "after", "size"), [(1, 1, 3), (2, 3, 20)])
def test_circular_pads_of_computed_rows(before: int, after: int, size: int) -> None:
    x = np.arange(3 * size, dtype=np.float32).reshape(3, size)

    (y,) = compile(circular(before, after, size), cache=False)(x)

    expected = np.pad(2 * x, ((0, 0), (before, after)), mode="wrap")
    np.testing.assert_array_equal(y, expected)


_PROGRAM = """
func.func @f(%x: memref<4x4xf32>, %y: memref<4x4xf32>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  "tir.block"() ({{ }}, {{
  ^bb0(%i: index, %j: index):
    %two = arith.constant 2 : index
    %c = arith.cmpi slt, %i, %two : index
    {body}
    gpu.yield
  }}) {{kinds = "SS", name = "b", operandSegmentSizes = array<i32: 0, 0>,
      static_extents = array<i64: 4, 4>}} : () -> ()
  return
}}"""

_TRANSPOSED = "%v = memref.load %x[%j, %i] : memref<4x4xf32>\n"
_STORE = "memref.store %v, %y[%i, %j] : memref<4x4xf32>\n"


def program(body: str) -> IRModule:
    return IRModule.parse(_PROGRAM.format(body=body))


def test_a_conditional_store_is_no_map() -> None:
    plain = program(_TRANSPOSED + _STORE)
    guarded = program(_TRANSPOSED + f"scf.if %c {{ {_STORE} }}")
    both = program(_TRANSPOSED + _STORE + f"scf.if %c {{ {_STORE} }}")

    kinds = [op_pattern_of(m.func_op("f")) for m in (plain, guarded, both)]

    assert kinds == [
        OpPatternKind.INJECTIVE,
        OpPatternKind.OPAQUE,
        OpPatternKind.OPAQUE,
    ]


def test_the_only_store_is_unconditional() -> None:
    plain = program(_TRANSPOSED + _STORE)
    guarded = program(_TRANSPOSED + f"scf.if %c {{ {_STORE} }}")

    bodies = [
        operations_named(m.mlir.operation, "tir.block")[0].regions[1].blocks[0]
        for m in (plain, guarded)
    ]

    assert only_store(bodies[0]) is not None
    assert only_store(bodies[1]) is None
    assert len(operations_named(bodies[1], "memref.store")) == 1


def test_values_that_a_region_captures_are_read() -> None:
    module = program(_TRANSPOSED + f"scf.if %c {{ {_STORE} }}")
    (branch,) = operations_named(module.mlir.operation, "scf.if")
    load, condition = (
        operations_named(module.mlir.operation, name)[0].operation.results[0]
        for name in ("memref.load", "arith.cmpi")
    )

    read = values_read(branch)

    assert condition in read
    assert load in read
    assert not isinstance(load.owner, ir.Block)


_CALL = """
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %t = builtin.unrealized_conversion_cast %a : tensor<4x4xf32> to tuple<tensor<4x4xf32>>
  %s = "relax.call_tir"(%t) {callee = @f, sizes = #relax.shape<[]>}
    : (tuple<tensor<4x4xf32>>) -> tensor<4x4xf32>
  %u = builtin.unrealized_conversion_cast %s : tensor<4x4xf32> to tuple<tensor<4x4xf32>>
  %r = "relax.call_tir"(%u) {callee = @g, sizes = #relax.shape<[]>}
    : (tuple<tensor<4x4xf32>>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""


def test_a_branch_that_reads_elsewhere_is_no_part_of_a_transpose() -> None:
    """Half of the rows are the transposed ones, plus the first element of their row."""
    sometimes = """
    %o = arith.constant 0 : index
    %w = scf.if %c -> f32 {
      %p = memref.load %x[%i, %o] : memref<4x4xf32>
      scf.yield %p : f32
    } else {
      %z = arith.constant 0.0 : f32
      scf.yield %z : f32
    }
    %sum = arith.addf %v, %w : f32
    memref.store %sum, %y[%i, %j] : memref<4x4xf32>
    """
    copied = _PROGRAM.format(
        body="%v = memref.load %x[%i, %j] : memref<4x4xf32>\n" + _STORE
    )
    first = _PROGRAM.format(body=_TRANSPOSED + sometimes)
    module = IRModule.parse(first + copied.replace("@f", "@g") + _CALL)
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = a.T + np.where(np.arange(4) < 2, a[:, 0], 0)[:, None]

    changed = opt(module, "tir-fuse-transposes")
    (y,) = compile(changed, cache=False)(a)

    np.testing.assert_array_equal(y, expected)


_STORES_BEHIND_A_BRANCH = """
from relax_mlir.tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for n in range(4):
        with T.block("B"):
            i = T.axis.spatial(4, n)
            B[i] = A[i] * T.float32(2)
            if i < 2:
                B[i] = A[i]
    for n in range(4):
        with T.block("C"):
            i = T.axis.spatial(4, n)
            C[i] = B[i] + T.float32(1)
"""


def test_a_block_with_a_store_behind_a_branch_is_not_inlined() -> None:
    schedule = Schedule(from_source(_STORES_BEHIND_A_BRANCH))

    with pytest.raises(ScheduleError, match="one store of an element"):
        schedule.compute_inline(schedule.get_block("B"))


def test_walk_visits_branches_and_own_operations_do_not() -> None:
    module = program(_TRANSPOSED + f"scf.if %c {{ {_STORE} }}")
    (block,) = operations_named(module.mlir.operation, "tir.block")
    body = block.regions[1].blocks[0]

    names = [op.operation.name for op in walk(body)]

    assert "memref.store" in names
    assert "memref.store" not in [op.operation.name for op in own_operations(body)]
    assert names.index("scf.if") < names.index("memref.store")


def test_lint_finds_bare_operations(tmp_path: Path) -> None:
    source = "def f(block):\n    return [o for o in block.operations]\n"
    (tmp_path / "pass.py").write_text(source)

    assert list(bare_accesses(source)) == [2]
    (message,) = violations(tmp_path)
    assert "pass.py:2" in message
    assert not list(bare_accesses("def f(self):\n    return self.operations\n"))


@pytest.mark.slow
def test_the_package_says_which_traversal_it_means() -> None:
    assert violations() == []
