"""Export of modules: names, sizes, and passing of parameters and effects."""

from __future__ import annotations

from typing import Any

import pytest

from relax_mlir import nn
from relax_mlir.nn import op, spec
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it

# ruff: noqa: F841, N805  scripts are not plain Python
# pyright: reportArgumentType=false, reportInvalidTypeForm=false
# pyright: reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportGeneralTypeIssues=false


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(256, 10, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.fc2(self.relu1(self.fc1(x)))


def exported(method: Any, **arguments: Any) -> Any:
    """The exported function of one method."""
    module = type("Model", (nn.Module,), {"method": method})()
    return module.export_tvm({"method": arguments})[0]["method"]


def names_in(function: Any) -> list[str]:
    return [b.var.name_hint for block in function.body.blocks for b in block.bindings]


def test_network_is_exported_as_a_function_of_inputs_and_parameters() -> None:
    made, parameters = Mlp().export_tvm(
        {"forward": {"x": spec.Tensor((1, 784), "float32")}}
    )

    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor((1, 784), "float32"),
            fc1_weight: R.Tensor((256, 784), "float32"),
            fc1_bias: R.Tensor((256,), "float32"),
            fc2_weight: R.Tensor((10, 256), "float32"),
        ) -> R.Tensor((1, 10), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                permute_dims = R.permute_dims(fc1_weight)
                matmul = R.matmul(x, permute_dims)
                add = R.add(matmul, fc1_bias)
                relu = R.nn.relu(add)
                permute_dims1 = R.permute_dims(fc2_weight)
                matmul1 = R.matmul(relu, permute_dims1)
                gv = matmul1
                R.output(gv)
            return gv

    assert_structural_equal(made, Expected)
    assert names_in(made["forward"]) == names_in(Expected["forward"])
    names = ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert [name for name, _ in parameters] == names
    assert [p.name_hint for p in made["forward"].params] == ["x", *names]


def test_debug_functions_take_and_return_an_effect() -> None:
    made, _ = nn.ReLU().export_tvm(
        {"forward": {"x": spec.Tensor((3,), "float32")}}, debug=True
    )

    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                _io = R.null_value()
                lv = (_io,)
                gv = lv
                R.output(gv)
            return gv

        @R.function
        def forward(x: R.Tensor((3,), "float32"), _io: R.Object):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                relu = R.nn.relu(x)
                gv1 = relu, (_io,)
                R.output(gv1)
            return gv1

    assert_structural_equal(made, Expected)
    assert names_in(made["forward"]) == ["relu", "gv1"]  # `gv` was given already


def test_equal_size_names_are_shared_among_arguments_and_among_parameters() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.up = nn.Linear(4, "n")
            self.down = nn.Linear("n", 4, bias=False)

        def forward(self, x: nn.Tensor, y: nn.Tensor) -> nn.Tensor:
            return self.down(self.up(x + y))

    made, _ = Model().export_tvm(
        {
            "forward": {
                "x": spec.Tensor(("n", 4), "float32"),
                "y": spec.Tensor(("n", 4), "float32"),
            }
        }
    )

    @R.function
    def forward(
        x: R.Tensor(("b", 4), "float32"),
        y: R.Tensor(("b", 4), "float32"),
        up_weight: R.Tensor(("n", 4), "float32"),
        up_bias: R.Tensor(("n",), "float32"),
        down_weight: R.Tensor((4, "n"), "float32"),
    ):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            add = R.add(x, y)
            permute_dims = R.permute_dims(up_weight)
            matmul = R.matmul(add, permute_dims)
            add1 = R.add(matmul, up_bias)
            permute_dims1 = R.permute_dims(down_weight)
            matmul1 = R.matmul(add1, permute_dims1)
            gv = matmul1
            R.output(gv)
        return gv

    assert_structural_equal(made["forward"], forward)


def test_parameters_with_symbolic_expressions_share_variables() -> None:
    n = prim.Var("n", "int64")

    class Model(nn.Module):
        def __init__(self) -> None:
            self.a = nn.Parameter((n, 2))
            self.b = nn.Parameter((n * 2, 2))

        def forward(self) -> nn.Tensor:
            return op.concat([self.a, self.b], 0)

    made = Model().export_tvm({"forward": {}})[0]["forward"]

    assert str(made.ret_struct_info.shape) == "R.shape([n * 3, 2])"


def test_packed_parameters_are_one_tuple() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.linear1 = nn.Linear(2, 3)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.linear1(x)

    modes = {"param_mode": "packed", "effect_mode": "none"}
    given = {"forward": {"x": spec.Tensor((1, 2), "float32"), "$": modes}}
    made, _ = Model().export_tvm(given, debug=True)

    @R.function
    def forward(
        x: R.Tensor((1, 2), "float32"),
        packed_params: R.Tuple(R.Tensor((3, 2), "float32"), R.Tensor((3,), "float32")),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            linear1_weight = packed_params[0]
            linear1_bias = packed_params[1]
            matmul1_weight = R.permute_dims(linear1_weight)
            matmul = R.matmul(x, matmul1_weight)
            add = R.add(matmul, linear1_bias)
            gv1 = add
            R.output(gv1)
        return gv1

    assert_structural_equal(made["forward"], forward)
    assert names_in(made["forward"]) == names_in(forward)
    assert given["forward"]["$"] == modes


def test_packed_effects_are_one_tuple() -> None:
    made, _ = nn.ReLU().export_tvm(
        {
            "forward": {
                "x": spec.Tensor((3,), "float32"),
                "$": {"effect_mode": "packed"},
            }
        },
        debug=True,
    )

    function = made["forward"]
    assert [p.name_hint for p in function.params] == ["x", "packed_effects"]
    assert names_in(function) == ["_io1", "relu", "gv1"]
    assert function.attrs["num_input"] == 2


def test_tuples_lists_and_integers_reach_the_method_as_specified() -> None:
    seen: list[Any] = []

    def method(self: nn.Module, x: Any) -> Any:
        seen.append(x)
        return op.reshape(x[0], (x[1][1], -1)), x[1][0]

    made = exported(
        method,
        x=[spec.Tensor((4, 6), "float32"), (spec.Tensor((2,), "int32"), int)],
    )

    @R.function
    def expected(
        x: R.Tuple(
            R.Tensor((4, 6), "float32"),
            R.Tuple(R.Tensor((2,), "int32"), R.Shape(["i"])),
        ),
    ):
        i = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            x_0 = x[0]
            x_1 = x[1]
            x_1_0 = x_1[0]
            x_1_1 = x_1[1]
            reshape = R.reshape(x_0, R.shape([i, 24 // i]))
            gv = reshape, x_1_0
            R.output(gv)
        return gv

    (got,) = seen
    assert type(got) is list
    assert type(got[1]) is tuple
    assert_structural_equal(
        made.with_attr("global_symbol", "f"), expected.with_attr("global_symbol", "f")
    )
    assert names_in(made) == names_in(expected)


def test_objects_are_wrapped_in_their_class() -> None:
    class Cache(nn.Object):
        pass

    def method(self: nn.Module, cache: Any) -> Any:
        assert isinstance(cache, Cache)
        return cache

    made = exported(method, cache=spec.Object(Cache))

    assert str(made.params[0].struct_info) == "R.Object"


def test_unspecified_arguments_keep_their_defaults() -> None:
    made = exported(
        lambda self, x, scale=2.0: x * scale, x=spec.Tensor((2,), "float32")
    )

    assert made.attrs["num_input"] == 1
    assert made.body.blocks[0].bindings[0].value.args[1].data.item() == 2.0


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        (lambda self, x, y: x, {"y": int}, "argument `x` has no spec"),
        (lambda self, x: x, {"x": 3}, "Invalid spec for argument x: 3"),
        (lambda self, x: 3, {"x": int}, "Unsupported return type"),
    ],
)
def test_invalid_exports_are_rejected(method: Any, given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        exported(method, **given)


def test_invalid_modes_are_rejected() -> None:
    modes = {"param_mode": "flat"}
    with pytest.raises(ValueError, match="Invalid param_mode: flat: expected one of"):
        exported(lambda self: None, **{"$": modes})


def test_spec_repr() -> None:
    def method(x: Any, i: Any) -> Any:
        return x

    made = spec.MethodSpec.from_raw(
        {"x": (spec.Tensor([1, "n"], "int32"), spec.Object(nn.Object)), "i": "int"},
        method,
    )

    assert repr(made) == "MethodSpec(x: (Tensor([1, n], 'int32'), object), i: int)"


def test_subroutines_are_deduplicated_private_functions() -> None:
    class Activation(nn.Module):
        define_subroutine = True

        def forward(self, state: nn.Tensor) -> nn.Tensor:
            return op.silu(state)

    class DenseLayer(nn.Module):
        define_subroutine = True

        def __init__(self, inputs: int, outputs: int) -> None:
            self.weights = nn.Parameter((inputs, outputs))
            self.activation = Activation()

        def forward(self, input: nn.Tensor) -> nn.Tensor:
            return self.activation(op.matmul(input, self.weights))

    class Model(nn.Module):
        def __init__(self) -> None:
            self.a = DenseLayer(4, 4)
            self.b = DenseLayer(4, 4)

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            return self.b(self.a(x))

    given = {"forward": {"x": spec.Tensor(("n", 4), "float32")}}
    made, _ = Model().export_tvm(given)

    @I.ir_module
    class Expected:
        @R.function(private=True)
        def activation(state: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                silu = R.nn.silu(state)
                gv = silu
                R.output(gv)
            return gv

        @R.function(private=True)
        def dense_layer(
            input: R.Tensor(("n", 4), "float32"), weights: R.Tensor((4, 4), "float32")
        ) -> R.Tensor(("n", 4), "float32"):
            cls = Expected
            with R.dataflow():
                matmul = R.matmul(input, weights)
                activation_output = cls.activation(matmul)
                gv1 = activation_output
                R.output(gv1)
            return gv1

        @R.function
        def forward(
            x: R.Tensor(("n", 4), "float32"),
            a_weights: R.Tensor((4, 4), "float32"),
            b_weights: R.Tensor((4, 4), "float32"),
        ) -> R.Tensor(("n", 4), "float32"):
            cls = Expected
            R.func_attr({"num_input": 1})
            with R.dataflow():
                dense_layer_output = cls.dense_layer(x, a_weights)
                dense_layer_output1 = cls.dense_layer(dense_layer_output, b_weights)
                gv2 = dense_layer_output1
                R.output(gv2)
            return gv2

    assert_structural_equal(made, Expected)
    assert_structural_equal(Model().export_tvm(given)[0], Expected)  # keeps no state


def test_networks_are_available_under_tvm_names() -> None:
    from relax_mlir.tvm.relax.frontend import nn as face
    from relax_mlir.tvm.relax.frontend.nn.core import (  # pyright: ignore[reportMissingImports]
        Tensor,
    )
    from relax_mlir.tvm.relax.frontend.nn.modules import (  # pyright: ignore[reportMissingImports]
        Linear,
    )

    assert face.Tensor is Tensor is nn.Tensor
    assert Linear is nn.Linear
    assert face.op is nn.op
