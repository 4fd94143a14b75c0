"""PrimFuncs, registered functions, printing, KV caches and external modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relax_mlir import nn
from relax_mlir.errors import CompileError
from relax_mlir.nn import op, spec
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.topi import add

# ruff: noqa: F841, N805  scripts are not plain Python
# pyright: reportArgumentType=false, reportInvalidTypeForm=false
# pyright: reportUnusedVariable=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportCallIssue=false

SOURCE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void ext_sum(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  for (int i = 0; i < a.numel(); ++i) {
    static_cast<float*>(out.data_ptr())[i] =
        static_cast<float*>(a.data_ptr())[i] + static_cast<float*>(b.data_ptr())[i];
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(test_nn_sum, ext_sum);
"""


def exported(forward: Any, debug: bool = False, **arguments: Any) -> Any:
    """The exported module of one method."""
    module = type("Model", (nn.Module,), {"forward": forward})()
    return module.export_tvm({"forward": arguments}, debug=debug)[0]


def test_tensor_expression_becomes_a_prim_func() -> None:
    made = exported(
        lambda self, x: op.tensor_expr_op(lambda a: add(a, 1.0), "add_one", [x]),
        x=spec.Tensor((2, 3), "float32"),
    )

    call = made["forward"].body.blocks[0].bindings[0].value
    assert call.args[0].name_hint == "add_one"
    assert "add_one" in made


def test_trailing_scalars_are_passed_as_tir_vars() -> None:
    @T.prim_func(private=True)
    def shift(x: T.handle, y: T.handle, offset: T.int64):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        T.evaluate(offset)

    made = exported(
        lambda self, x, i: op.tensor_ir_op(
            shift, "moved", [x, i], nn.Tensor.placeholder((4,), "float32")
        ),
        x=spec.Tensor((4,), "float32"),
        i=int,
    )

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def moved(x: T.handle, y: T.handle, offset: T.int64):
            n = T.int64()
            a = T.match_buffer(x, (n,), "float32")
            b = T.match_buffer(y, (n,), "float32")
            T.evaluate(offset)

        @R.function
        def forward(x: R.Tensor((4,), "float32"), i: R.Shape(["k"])):
            cls = Expected
            k = T.int64()
            R.func_attr({"num_input": 2})
            with R.dataflow():
                lv = R.call_tir(
                    cls.moved,
                    (x,),
                    out_sinfo=R.Tensor((4,), "float32"),
                    tir_vars=R.shape([k]),
                )
                gv = lv
                R.output(gv)
            return gv

    assert_structural_equal(made, Expected)


def test_scalars_among_inputs_are_passed_as_prim_values() -> None:
    @T.prim_func(private=True)
    def shift(x: T.handle, offset: T.int64, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n,), "float32")
        b = T.match_buffer(y, (n,), "float32")
        T.evaluate(offset)

    made = exported(
        lambda self, x, i: op.tensor_ir_op(
            shift, "moved", [x, i], nn.Tensor.placeholder((4,), "float32")
        ),
        x=spec.Tensor((4,), "float32"),
        i=int,
    )

    call = made["forward"].body.blocks[0].bindings[0].value
    assert [repr(arg) for arg in call.args[1]] == ["x", "R.prim_value(i)"]


def test_prim_func_can_overwrite_its_input() -> None:
    @T.prim_func(private=True)
    def clear(x: T.Buffer((4,), "float32")):
        for i in range(4):
            x[i] = T.float32(0)

    made = exported(
        lambda self, x: op.tensor_ir_inplace_op(
            clear, "clear", x, 0, nn.Tensor.placeholder((4,), "float32")
        ),
        x=spec.Tensor((4,), "float32"),
    )

    call = made["forward"].body.blocks[0].bindings[0].value
    assert call.op.name == "relax.call_tir_inplace"
    assert tuple(call.attrs["inplace_indices"]) == (0,)


def test_registered_functions_take_tensors_numbers_and_strings() -> None:
    made = exported(
        lambda self, q: op.extern(
            "lib.decode", [q, 2, 1.5, "s"], nn.Tensor.placeholder((3,), "float16")
        ),
        q=spec.Tensor((2, 3), "float32"),
    )

    @R.function
    def forward(q: R.Tensor((2, 3), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lib_decode = R.call_dps_packed(
                "lib.decode",
                (q, R.prim_value(2), R.prim_value(T.float64(1.5)), R.str("s")),
                out_sinfo=R.Tensor((3,), "float16"),
            )
            gv = lib_decode
            R.output(gv)
        return gv

    assert_structural_equal(made["forward"], forward)


def test_printing_is_ordered_by_the_effect() -> None:
    def forward(self: nn.Module, x: nn.Tensor) -> nn.Tensor:
        op.print_(x)
        op.debug_func("log", x, 2, 0.5)
        return x

    made = exported(forward, debug=True, x=spec.Tensor((2,), "float32"))

    first, second, result = made["forward"].body.blocks[0].bindings
    assert first.value.args[2].value == "vm.builtin.debug_print"
    line = forward.__code__.co_firstlineno + 1
    assert first.value.args[3].value == f"{Path(__file__)}:{line}"
    assert second.value.args[3].value == f"{Path(__file__)}:{line + 1}"
    assert second.value.args[1] is first.var
    assert second.value.args[6].value.dtype == "float32"
    assert result.value[1][0] is second.var


def test_printing_needs_debug() -> None:
    with pytest.raises(RuntimeError, match="expected an export with `debug=True`"):
        exported(lambda self, x: op.print_(x), x=spec.Tensor((2,), "float32"))


def test_kv_cache_is_created_once_and_threaded() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.cache = nn.KVCache(8, [2, 4])

        def forward(self, x: nn.Tensor, rows: Any) -> nn.Tensor:
            self.cache.append(x)
            return self.cache.view(rows)

    given = {"forward": {"x": spec.Tensor((1, 2, 4), "float32"), "rows": int}}
    made, _ = Model().export_tvm(given)

    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                lv = R.zeros(R.shape([8, 2, 4]), dtype="float32")
                cache = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_create",
                    lv,
                    R.shape([8, 2, 4]),
                    R.prim_value(0),
                    sinfo_args=[R.Object()],
                )
                lv1 = (cache,)
                gv = lv1
                R.output(gv)
            return gv

        @R.function
        def forward(
            x: R.Tensor((1, 2, 4), "float32"), rows: R.Shape(["r"]), cache: R.Object
        ):
            r = T.int64()
            R.func_attr({"num_input": 3})
            with R.dataflow():
                lv2 = R.call_inplace_packed(
                    "vm.builtin.attention_kv_cache_append",
                    cache,
                    x,
                    inplace_indices=[0],
                    sinfo_args=[R.Object()],
                )
                lv3 = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_view",
                    lv2,
                    R.shape([r, 2, 4]),
                    sinfo_args=(R.Tensor((r, 2, 4), "float32"),),
                )
                gv1 = (lv3, (lv2,))
                R.output(gv1)
            return gv1

    assert_structural_equal(made, Expected)


def test_kv_cache_rows_have_one_type() -> None:
    with pytest.raises(TypeError, match="expected rows of float32, got float16"):
        nn.KVCache(8, [2]).append(nn.Tensor.placeholder((1, 2), "float16"))
    with pytest.raises(ValueError, match="used outside of a graph"):
        nn.KVCache(8, [2]).view(2)


def same(a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
    return nn.Tensor.placeholder(a.shape, a.dtype)


def test_external_modules_are_listed_and_must_be_allowed() -> None:
    extern = nn.ExternModule({"lib.f": same})

    class Model(nn.Module):
        def forward(self, x: nn.Tensor) -> nn.Tensor:
            nn.add_extern(extern)
            return extern["lib.f"](x, x)

    given = {"forward": {"x": spec.Tensor((2,), "float32")}}
    made, _, listed = Model().export_tvm(given, allow_extern=True)

    assert listed == [extern]
    call = made["forward"].body.blocks[0].bindings[0].value
    assert call.args[0].global_symbol == "lib.f"
    with pytest.raises(ValueError, match="allow_extern=True"):
        Model().export_tvm(given)
    with pytest.raises(RuntimeError, match="no network is being exported"):
        nn.add_extern(extern)


def test_each_function_comes_from_one_external_module() -> None:
    def forward(self: nn.Module, x: nn.Tensor) -> nn.Tensor:
        nn.add_extern(nn.ExternModule({"lib.f": same}))
        nn.add_extern(nn.ExternModule({"lib.f": same}))
        return x

    with pytest.raises(ValueError, match=r"got \['lib.f'\] twice"):
        exported(forward, x=spec.Tensor((2,), "float32"))


def test_sources_and_objects_are_checked_on_construction(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Invalid source format: cu"):
        nn.SourceModule({}, "", "cu")
    with pytest.raises(ValueError, match="Invalid output format: wasm"):
        nn.SourceModule({}, "", "cpp", output_format="wasm")
    with pytest.raises(ValueError, match="Not a file"):
        nn.SourceModule({}, tmp_path / "missing.cpp", "cpp")
    with pytest.raises(ValueError, match="Not a file"):
        nn.ObjectModule({}, tmp_path / "missing.o")


def test_missing_compiler_is_named() -> None:
    module = nn.SourceModule({}, SOURCE, "cpp", compiler="no-such-compiler")

    with pytest.raises(CompileError, match="`no-such-compiler` cannot be run"):
        module.load()


@pytest.mark.slow
def test_functions_in_cpp_are_compiled_and_called(tmp_path: Path) -> None:
    source = nn.SourceModule({"test_nn_sum": same}, SOURCE, "cpp")
    compiled = tmp_path / "sum.o"
    source.compile(compiled)
    extern = nn.ObjectModule({"test_nn_sum": same}, compiled)

    class Model(nn.Module):
        def forward(self, a: nn.Tensor, b: nn.Tensor) -> nn.Tensor:
            nn.add_extern(extern)
            return extern["test_nn_sum"](a, b)

    shape = spec.Tensor((3,), "float32")
    model = Model().jit({"forward": {"a": shape, "b": shape}}, out_format="numpy")
    a, b = np.ones(3, np.float32), np.arange(3, dtype=np.float32)

    np.testing.assert_array_equal(model["forward"](a, b), a + b)
    with pytest.raises(ValueError, match="library exports no function `other`"):
        nn.ObjectModule({"other": same}, compiled).load()
    with pytest.raises(CompileError, match="failed"):
        nn.SourceModule({}, "int f( {", "cpp").load()
