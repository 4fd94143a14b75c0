"""Side effects of operations, calls and nested operations."""

import pytest
from mlir import ir

from relax_mlir.dialects.effects import Effects
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.effects import (
    EffectAnalysis,
    effects_of_operator,
    is_scalar_arithmetic,
    may_stop,
)
from relax_mlir.objects.expr import Op
from relax_mlir.tvm.script import from_source

_UPSTREAM = """
func.func @f(%m: memref<4xf32>, %t: tensor<4xf32>, %i: index, %c: i1) attributes {tir.prim_func} {
  %0 = arith.constant 0 : index
  %v = memref.load %m[%0] : memref<4xf32>
  %e = math.exp %v : f32
  memref.store %e, %m[%0] : memref<4xf32>
  %s = memref.subview %m[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>
  %b = vector.broadcast %e : f32 to vector<4xf32>
  %x = builtin.unrealized_conversion_cast %t : tensor<4xf32> to tuple<tensor<4xf32>>
  %a = memref.alloc() : memref<4xf32>
  scf.for %j = %0 to %i step %i {
    %w = memref.load %m[%j] : memref<4xf32>
  }
  scf.if %c {
    memref.store %e, %m[%0] : memref<4xf32>
  }
  scf.while : () -> () {
    scf.condition(%c)
  } do {
    scf.yield
  }
  scf.parallel (%k) = (%0) to (%i) step (%i) {
    scf.reduce
  }
  return
}
"""


def test_operations_of_other_dialects() -> None:
    module = IRModule.parse(_UPSTREAM)
    effects = EffectAnalysis()
    found = [
        (op.operation.name, effects.of(op), is_scalar_arithmetic(op))
        for op in own_operations(module.func_op("f").entry_block)
    ]

    assert found == [
        ("arith.constant", Effects.NONE, True),
        ("memref.load", Effects.READS, False),
        ("math.exp", Effects.NONE, True),
        ("memref.store", Effects.WRITES, False),
        ("memref.subview", Effects.NONE, False),
        ("vector.broadcast", Effects.NONE, False),
        ("builtin.unrealized_conversion_cast", Effects.NONE, False),
        ("memref.alloc", Effects.UNKNOWN, False),
        ("scf.for", Effects.READS, False),
        ("scf.if", Effects.WRITES, False),
        ("scf.while", Effects.UNKNOWN, False),  # of `scf.condition` nothing is known
        ("scf.parallel", Effects.UNKNOWN, False),  # nor of `scf.reduce`
        ("func.return", Effects.NONE, False),
    ]


def test_terminators_do_nothing() -> None:
    text = """
    func.func @f(%c: i1) attributes {tir.prim_func} {
      "tir.block"() ({ }, { gpu.yield }) {kinds = "", name = "b",
        operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64>} : () -> ()
      return
    }"""
    effects = EffectAnalysis()
    module = IRModule.parse(text)
    (block, *_) = own_operations(module.func_op("f").entry_block)

    assert effects.of(block) == Effects.NONE


@pytest.mark.parametrize(
    ("name", "purity", "expected"),
    [
        ("relax.add", True, Effects.NONE),
        ("relax.add", False, Effects.UNKNOWN),
        ("relax.print", True, Effects.NONE),
        ("relax.print", False, Effects.OBSERVED),
        ("relax.call_inplace_packed", True, Effects.CALLS | Effects.OVERWRITES),
        ("relax.call_inplace_packed", False, Effects.UNKNOWN),
        ("relax.test_effects_unknown", True, Effects.NONE),
    ],
)
def test_a_registered_purity_counts_first(
    name: str, purity: bool, expected: Effects
) -> None:
    op = Op.of(name)
    before = op.get_attr("FPurity")
    op.set_attr("FPurity", purity)
    try:
        assert effects_of_operator(name) == expected
    finally:
        op.reset_attr("FPurity")
        if before is not None:
            op.set_attr("FPurity", before)


def test_operators_that_may_abort() -> None:
    assert may_stop("relax.assert_op")
    assert may_stop("relax.check_indices")
    assert not may_stop("relax.add")
    assert not may_stop("relax.print")


_MODULE = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def fill(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                A[v] = T.float32(1)

    @T.prim_func(private=True)
    def square(x: T.float32) -> T.float32:
        return x * x

    @R.function(private=True)
    def again(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Module.again(x)
        return y

    @R.function(private=True)
    def fresh(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        return y

    @R.function(private=True)
    def fresher(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Module.fresh(x)
        return y

    @R.function(private=True)
    def checks(x: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        y = R.match_cast(x, R.Tensor((4,), "float32"))
        return y

    @R.function(pure=False)
    def main(
        x: R.Tensor((4,), "float32"),
        s: R.Prim("float32"),
        f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")),
        g: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32"), purity=False),
    ):
        cls = Module

        @R.function
        def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
            return z

        @R.function
        def plain(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.add(y, y)
            return z

        filled = cls.fill(x)
        repeated = cls.again(x)
        made = cls.fresh(x)
        made_inside = cls.fresher(x)
        checked = cls.checks(x)
        given = f(x)
        impure = g(x)
        called = local(x)
        called_plain = plain(x)
        printed = R.print(x, format="{}")
        read = R.add(x, x)
        read_again = R.add(read, read)
        written = R.add(x, x)
        _ = cls.fill(written)
        renamed = R.add(x, x)
        other = renamed
        _1 = cls.fill(other)
        cast = R.add(x, x)
        narrow = R.match_cast(cast, R.Tensor((4,), "float32"))
        _2 = cls.fill(narrow)
        in_tuple = R.add(x, x)
        pair = (in_tuple, x)
        first = pair[0]
        _3 = cls.fill(first)
        return (made, made_inside)
"""
)


def named(name: str) -> tuple[EffectAnalysis, ir.OpView]:
    """The analysis, and the operation of ``main`` whose result has the name."""
    for op in walk(_MODULE.func_op("main")):
        found = op.operation.attributes.get("relax.name")
        if found is not None and ir.StringAttr(found).value == name:
            return EffectAnalysis(_MODULE.mlir.operation), op
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filled", Effects.WRITES),
        ("repeated", Effects.CALLS),
        ("made", Effects.CALLS | Effects.ALLOCATES),
        ("made_inside", Effects.CALLS | Effects.ALLOCATES),
        ("checked", Effects.CALLS),
        ("given", Effects.CALLS | Effects.ALLOCATES),
        ("impure", Effects.UNKNOWN),
        ("local", Effects.NONE),  # it runs where it is called
        ("called", Effects.CALLS | Effects.ALLOCATES),
        ("called_plain", Effects.CALLS),
        ("printed", Effects.OBSERVED),
    ],
)
def test_effects_of_calls(name: str, expected: Effects) -> None:
    effects, op = named(name)

    assert effects.of(op) == expected
    assert effects.of(op) == expected  # as it is remembered


def test_calls_have_unknown_effects_without_the_module() -> None:
    _, op = named("repeated")

    assert EffectAnalysis().of(op) == Effects.UNKNOWN


@pytest.mark.parametrize(
    ("name", "removable", "mergeable", "computation"),
    [
        ("read", True, True, True),
        ("read_again", True, True, True),
        ("written", True, False, True),
        ("renamed", True, False, True),
        ("cast", True, False, True),
        ("in_tuple", True, False, True),
        ("made", True, False, False),
        ("repeated", True, True, False),
        ("filled", False, False, False),
        ("impure", False, False, False),
        ("printed", False, False, False),
    ],
)
def test_permissions_of_passes(
    name: str, removable: bool, mergeable: bool, computation: bool
) -> None:
    effects, op = named(name)

    assert effects.is_removable(op) is removable
    assert effects.is_mergeable(op) is mergeable
    assert effects.is_computation(op) is computation
    assert effects.is_speculatable(op) is computation
