"""Networks of tests, whose weights are variables of the open function."""

import pytest

from relax_mlir import relax
from relax_mlir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.relax.testing import nn


def _built(model: nn.Module, *shape: int) -> IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main"):
        x = nn.Placeholder(shape)
        builder.emit_func_output(model(x), [x, *model.parameters()])
    return builder.get()


def test_layers_compute_one_after_the_other() -> None:
    main = _built(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), 4, 3)["main"]

    calls = [binding.value for block in main.body.blocks for binding in block.bindings]
    assert [call.args[0].name_hint for call in calls] == ["matmul", "add", "relu"]
    assert list(calls[0].args[1]) == main.params[:2]
    assert calls[1].args[1][1] == main.params[2]
    assert main.ret_struct_info == relax.TensorStructInfo((4, 2), "float32")


def test_weights_are_found_in_order_and_zero_at_first() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1, bias=False))
    module = _built(model, 4, 3)

    called = [p.name_hint for p in model.parameters()]
    assert called == ["linear_weight", "linear_bias", "linear_weight"]
    assert [p.shape for p in nn.init_params(module)] == [(3, 2), (2,), (2, 1)]


def test_a_module_may_be_a_function_of_its_own() -> None:
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


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=r"expected an open `BlockBuilder\.function`"
    ):
        nn.emit(relax.const(1))
    with pytest.raises(TypeError, match="`Placeholder`: expected a list or a tuple"):
        nn.Placeholder(4)  # pyright: ignore[reportArgumentType]
    unknown = relax.Var(
        "x", relax.TensorStructInfo((prim.Var("n", "int64"),), "float32")
    )
    with pytest.raises(TypeError, match="init_params: `x`: expected a tensor of sizes"):
        nn.init_params(IRModule({"main": relax.Function([unknown], unknown)}))
