"""Weights fetched one by one by a function that transforms them."""

import numpy as np

from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Tuple, Var, const
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from relax_mlir.runtime import registry
from relax_mlir.runtime.ndarray import array, cpu
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.op import vm as vm_ops
from relax_mlir.tvm.relax.vm import VirtualMachine, build
from tests.tvm.relax.transform.graphs import op, tensor


def test_each_weight_is_fetched_once_and_each_result_is_stored() -> None:
    weights = {0: np.ones((2, 3), np.float32), 1: np.full((2, 3), 4, np.float32)}
    fetched, stored = [], {}

    def load(number: int) -> object:
        fetched.append(number)
        return array(weights[number])

    registry.register_func("test.lazy.load", load, override=True)
    registry.register_func(
        "test.lazy.save", lambda i, y: stored.update({i: y.numpy()}), override=True
    )
    a, b = Var("a", tensor(2, 3)), Var("b", tensor(2, 3))
    builder = BlockBuilder()
    with builder.function("transform_params", [a, b]):
        y = builder.emit(op("add", b, b))
        z = builder.emit(op("multiply", y, a))
        results = builder.emit(Tuple([z, y, z]))
        builder.emit_func_output(results)

    lazy = transform.LazyTransformParams("test.lazy.load", "test.lazy.save")(
        builder.get()
    )
    VirtualMachine(build(lazy), cpu())["transform_params"]()

    assert fetched == [1, 0]
    assert sorted(stored) == [0, 1, 2]
    np.testing.assert_array_equal(stored[1], np.full((2, 3), 8, np.float32))


def test_tuple_elements_are_released_and_sizes_stay_parameters() -> None:
    info = TupleStructInfo([tensor(4), ShapeStructInfo(["n"])])
    params = Var("params", info)
    loader = Var("loader", ObjectStructInfo())
    builder = BlockBuilder()
    with builder.function("transform_params", [params]):
        x = builder.emit(params[0])
        results = builder.emit(Tuple([builder.emit(op("exp", x)), const(1.0)]))
        builder.emit_func_output(results)
    lazy = transform.LazyTransformParams(extra_get_item_params=[loader])

    function = lazy(builder.get())["transform_params"]

    bindings = [b for block in function.body.blocks for b in block.bindings]
    kills = [
        b for b in bindings if getattr(b.value, "op", None) == vm_ops.kill_object(x).op
    ]
    assert [p.name_hint for p in function.params] == ["loader", "symbolic_var_holder"]
    assert [b.value.args[0].name_hint for b in kills] == [bindings[2].var.name_hint]
    assert bindings[0].value.args[0] == function.params[0]
