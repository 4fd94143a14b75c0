"""Table of the effects of all operations and operators."""

import pytest

from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.tir import Tir
from relax_mlir.objects.effects import EffectAnalysis, effects_of_operator
from relax_mlir.objects.expr import Op
from relax_mlir.objects.operators import STRUCTURAL, operator_names
from relax_mlir.tvm.script import from_source

# Operations with effects of their own; any other Relax operation is pure.
_RELAX = {
    "call": "unknown",
    "call_dps_packed": "calls",
    "call_extern": "unknown",
    "call_operator": "unknown",
    "call_value": "unknown",
    "check_indices": "checks",
    "match_cast": "checks",
}
_TIR = {
    "address": "none",
    "alloc_buffer": "allocates",
    "assert": "checks, observed",
    "attr": "none",
    "block": "none",
    "call": "unknown",
    "call_packed": "unknown",
    "decl_buffer": "none",
    "evaluate": "none",
    "let": "none",
    "library_convolution": "writes",
    "library_product": "writes",
    "ramp": "none",
    "undefined": "none",
    "vector_load": "reads",
    "vector_store": "writes",
}
# Operators without an operation: their effects, and whether Relax calls them pure.
_OPERATORS = {
    "assert_op": ("checks, observed", False),
    "builtin.alloc_tensor": ("allocates", True),
    "builtin.stop_lift_params": ("none", True),
    "call_builtin_with_ctx": ("unknown", False),
    "call_dps_packed": ("calls", True),
    "call_inplace_packed": ("calls, overwrites", True),
    "call_pure_packed": ("calls", True),
    "call_py_func": ("calls", True),
    "call_tir": ("none", True),
    "call_tir_inplace": ("overwrites", True),
    "call_tir_with_grad": ("none", True),
    "hint_on_device": ("none", True),
    "inspect.tensor_byte_offset": ("none", True),
    "inspect.tensor_dtype_bits": ("none", True),
    "inspect.tensor_dtype_code": ("none", True),
    "inspect.tensor_dtype_lanes": ("none", True),
    "inspect.tensor_elem_offset": ("none", True),
    "inspect.tensor_ndim": ("none", True),
    "inspect.tensor_shape_i": ("none", True),
    "inspect.tensor_stride_i": ("none", True),
    "invoke_closure": ("unknown", False),
    "invoke_pure_closure": ("allocates, calls", True),
    "make_closure": ("none", True),
    "memory.alloc_storage": ("allocates", True),
    "memory.alloc_tensor": ("allocates", True),
    "memory.ensure_zero_offset": ("none", True),
    "memory.kill_storage": ("writes", False),
    "memory.kill_tensor": ("writes", False),
    "memory.view": ("none", True),
    "null_value": ("none", True),
    "print": ("observed", False),
    "shape_of": ("none", True),
    "size": ("none", True),
    "tensor_to_shape": ("none", True),
    "to_vdevice": ("none", True),
    "vm.alloc_storage": ("allocates", True),
    "vm.alloc_tensor": ("allocates", True),
    "vm.call_tir_dyn": ("writes", False),
    "vm.kill_object": ("writes", False),
    "wrap_param": ("none", True),
}


def _effects_text(effects: Effects) -> str:
    if effects == Effects.UNKNOWN:
        return "unknown"
    single = [e for e in Effects if e.value.bit_count() == 1 and e in effects]
    return ", ".join(sorted(str(e.name).lower() for e in single)) or "none"


def test_every_operation_of_relax_has_its_effects() -> None:
    found = {op.SHORT_NAME: _effects_text(op.effects) for op in relax_ops()}

    assert len(found) > 150
    assert {name: e for name, e in found.items() if e != "none"} == _RELAX


def test_every_operation_of_tir_has_its_effects() -> None:
    found = {op.SHORT_NAME: _effects_text(op.effects) for op in Tir.operations}

    assert found == _TIR


def test_every_operator_has_its_effects() -> None:
    found = {name: effects_of_operator(name) for name in operator_names()}
    table = {f"relax.{name}": row for name, row in _OPERATORS.items()}

    assert table.keys() == STRUCTURAL
    for name, effects in found.items():
        own = _RELAX.get(name.removeprefix("relax."), "none")
        expected = table.get(name, (own, True))
        assert (_effects_text(effects), effects.is_pure) == expected, name


@pytest.mark.parametrize(
    ("effects", "removable", "mergeable", "speculatable", "writes"),
    [
        (Effects.NONE, True, True, True, False),
        (Effects.ALLOCATES, True, False, True, False),
        (Effects.READS, True, False, False, False),
        (Effects.WRITES, False, False, False, True),
        (Effects.OVERWRITES, False, False, False, True),
        (Effects.CHECKS, False, True, False, False),
        (Effects.CALLS, True, True, False, False),
        (Effects.OBSERVED, False, False, False, False),
        (Effects.UNKNOWN, False, False, False, True),
    ],
)
def test_permissions_of_passes(
    effects: Effects,
    removable: bool,
    mergeable: bool,
    speculatable: bool,
    writes: bool,
) -> None:
    assert effects.is_removable is removable
    assert effects.is_mergeable is mergeable
    assert effects.is_speculatable is speculatable
    assert effects.may_write is writes


def test_a_registered_purity_counts_first() -> None:
    mine = Op.of("relax.test_effects_of_mine")
    assert effects_of_operator(mine.name) == Effects.NONE

    mine.set_attr("FPurity", False)
    try:
        assert effects_of_operator(mine.name) == Effects.UNKNOWN
    finally:
        mine.reset_attr("FPurity")


_Calls = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def fill(A: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                A[v] = T.float32(1)

    @R.function(private=True)
    def pure(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        return y

    @R.function(private=True)
    def fresh(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        return y

    @R.function(private=True, pure=False)
    def impure(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        _ = R.print(x, format="{}")
        return x

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        _ = cls.fill(x)
        a = cls.pure(x)
        b = cls.fresh(x)
        d = cls.impure(x)
        if c:
            e = R.add(a, b)
        else:
            e = cls.impure(d)
        return e
"""
)


def test_a_call_has_the_effects_of_the_function() -> None:
    effects = EffectAnalysis(_Calls.mlir.operation)
    found = {
        str(op.attributes["callee"]): _effects_text(effects.of(op))
        for op in _Calls.func_op("main").entry_block.operations
        if op.operation.name == "relax.call"
    }

    assert found == {
        "@fill": "writes",
        "@pure": "calls",
        "@fresh": "allocates, calls",
        "@impure": "unknown",
    }


def test_a_choice_has_the_effects_of_its_branches() -> None:
    effects = EffectAnalysis(_Calls.mlir.operation)
    (choice,) = (
        op
        for op in _Calls.func_op("main").entry_block.operations
        if op.operation.name == "relax.if"
    )

    assert effects.of(choice) == Effects.UNKNOWN
    assert not effects.is_removable(choice)
