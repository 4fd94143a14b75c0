"""Reshapes as views, and memory planning of tensors."""

from typing import Any

import pytest

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, Var
from relax_mlir.pipeline import Sequential
from relax_mlir.tvm.relax import transform
from tests.tvm.relax.transform.graphs import op, program, tensor

_lower = Sequential(
    [
        transform.LegalizeOps(),
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
        transform.StaticPlanBlockMemory(),
    ]
)


def _calls(module: IRModule, name: str) -> list[Any]:  # Any: of as many attributes
    bindings = [b for block in module["main"].body.blocks for b in block.bindings]
    values = [b.value for b in bindings if isinstance(b.value, Call)]
    return [v for v in values if getattr(v.op, "name", None) == f"relax.{name}"]


def _chain(*shape: object, length: int = 4, **attrs: object) -> IRModule:
    x = Var("x", tensor(*shape))
    value: Expr = x
    for _ in range(length):
        value = op("exp", value)
    return program([x], value, **attrs)


def _sizes(module: IRModule) -> list[str]:
    return [str(c.args[0].values[0]) for c in _calls(module, "memory.alloc_storage")]


def test_programs_that_reshape_are_reshapes_unless_seen_outside() -> None:
    x = Var("x", tensor(2, 3))
    flat = op("reshape", op("exp", op("expand_dims", x, axis=[1])), (6,))
    module = transform.LegalizeOps()(program([x], flat))

    changed = transform.RewriteDataflowReshape()(module)

    assert len(_calls(changed, "reshape")) == 1
    assert len(_calls(changed, "call_tir")) == 2


def test_a_chain_needs_two_storages() -> None:
    planned = _lower(_chain(8, length=5))

    assert _sizes(planned) == ["32", "32"]
    tensors = _calls(planned, "memory.alloc_tensor")
    used = [call.args[0].name_hint for call in tensors]
    assert used == ["storage", "storage1", "storage", "storage1"]
    assert len(_calls(planned, "builtin.alloc_tensor")) == 1  # the result


def test_memory_grows_to_the_largest_of_its_tensors() -> None:
    x = Var("x", tensor(2, 4))
    wide = op("concat", [op("tanh", op("exp", x))] * 2, axis=0)
    planned = _lower(program([x], op("exp", wide)))

    assert _sizes(planned) == ["64", "32"]


def test_symbolic_sizes_are_shared_if_equal() -> None:
    planned = _lower(_chain(prim.Var("n", "int64"), length=5))

    assert len(_sizes(planned)) == 2


def test_upper_bounds_of_symbols_make_sizes_static() -> None:
    n = prim.Var("n", "int64")
    planned = _lower(_chain(n, 2, tir_var_upper_bound={"n": 5}))

    assert _sizes(planned) == ["40", "40"]
    assert len(_calls(planned, "builtin.alloc_tensor")) == 1


def test_the_result_can_be_planned_by_its_upper_bound() -> None:
    attrs: dict[str, Any] = {
        "tir_var_upper_bound": {"n": 5},
        "relax.memory_plan_dynamic_func_output": True,
    }
    n = prim.Var("n", "int64")
    planned = _lower(_chain(n, 2, **attrs))

    assert _sizes(planned) == ["40", "40", "40"]
    assert not _calls(planned, "builtin.alloc_tensor")
    assert "relax.memory_plan_dynamic_func_output" not in planned["main"].attrs


@pytest.mark.parametrize("bound", [0, -3, "many"])
def test_upper_bounds_are_positive(bound: object) -> None:
    n = prim.Var("n", "int64")
    with pytest.raises(PassError, match="expected names and positive numbers"):
        _lower(_chain(n, tir_var_upper_bound={"n": bound}))
