"""TVM's testing networks, whose weights are variables of the function being built."""

import pytest

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.testing import nn


def _built(model: nn.Module, *shape: int) -> IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main"):
        x = nn.Placeholder(shape)
        builder.emit_func_output(model(x), [x, *model.parameters()])
    return builder.get()


def test_layers_compute_in_sequence() -> None:
    main = _built(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), 4, 3)["main"]

    calls = [binding.value for block in main.body.blocks for binding in block.bindings]
    assert [call.args[0].name_hint for call in calls] == ["matmul", "add", "relu"]
    assert list(calls[0].args[1]) == main.params[:2]
    assert calls[1].args[1][1] == main.params[2]
    assert main.ret_struct_info == relax.TensorStructInfo((4, 2), "float32")


def test_weights_are_ordered_and_initially_zero() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    module = _built(model, 4, 3)

    called = [p.name_hint for p in model.parameters()]
    assert called == ["linear_weight", "linear_bias", "linear_weight"]
    assert [p.shape for p in nn.init_params(module)] == [(3, 2), (2,), (2, 1)]


def test_module_can_be_a_subroutine() -> None:
    class Scaled(nn.Module):
        define_subroutine = True

        def __init__(self) -> None:
            self.scale = nn.Parameter((3,), name="scale")

        def forward(self, input: relax.Expr) -> relax.Expr:
            return relax.op.multiply(input, self.scale)

    model = Scaled()
    module = _built(model, 4, 3)

    inner = module["scaled"]
    assert [p.name_hint for p in inner.params] == ["input", "scale"]
    assert "global_symbol" not in inner.attrs
    assert module["main"].params[1].same_as(model.scale)


def test_non_network_is_rejected() -> None:
    with pytest.raises(
        RuntimeError, match=r"expected an enclosing `BlockBuilder\.function`"
    ):
        nn.emit(relax.const(1))
    with pytest.raises(TypeError, match="`Placeholder`: expected a list or a tuple"):
        nn.Placeholder(4)  # pyright: ignore[reportArgumentType]
    unknown = relax.Var(
        "x", relax.TensorStructInfo((prim.Var("n", "int64"),), "float32")
    )
    with pytest.raises(
        TypeError, match="init_params: `x`: expected a tensor of static shape"
    ):
        nn.init_params(IRModule({"main": relax.Function([unknown], unknown)}))
