"""Fused programs of ``FuseTIR``, and their values."""

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.ir.module import IRModule
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.script import from_source

_OPEN_SIZES = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(a: T.handle, b: T.handle):
        m = T.int64()
        n = T.int64()
        A = T.match_buffer(a, [m, n], "float32")
        B = T.match_buffer(b, [m, n], "float32")
        for iters in T.grid(m, n):
            with T.block("compute"):
                i, j = T.axis.remap("SS", iters)
                B[i, j] = A[i, j] * i + j

    @R.function(private=True)
    def fused(x: R.Tensor([3, 5], "float32")) -> R.Tensor([3, 5], "float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.kernel, [x], out_sinfo=R.Tensor([3, 5], "float32"))
            z = R.call_tir(cls.kernel, [y], out_sinfo=R.Tensor([3, 5], "float32"))
            R.output(z)
        return z

    @R.function
    def main(x: R.Tensor([3, 5], "float32")) -> R.Tensor([3, 5], "float32"):
        cls = Module
        with R.dataflow():
            gv = cls.fused(x)
            R.output(gv)
        return gv
"""
)

_NESTED_TUPLES = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def minus(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("minus"):
                v = T.axis.spatial(4, i)
                C[v] = A[v] - B[v]

    @R.function(private=True)
    def fused(
        x: R.Tuple(R.Tensor((4,), "float32"), R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")))
    ) -> R.Tensor((4,), "float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            a = x[0]
            rest = x[1]
            b = rest[0]
            c = rest[1]
            packed = (a, (b, c))
            inner = packed[1]
            again = inner[1]
            d = R.call_tir(cls.minus, (a, b), out_sinfo=R.Tensor((4,), "float32"))
            e = R.call_tir(cls.minus, (d, again), out_sinfo=R.Tensor((4,), "float32"))
            R.output(e)
        return e

    @R.function
    def main(
        x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            gv = cls.fused((x, (y, z)))
            R.output(gv)
        return gv
"""
)

_SCALARS = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def scale(A: T.Buffer((T.int64(4),), "float32"), m: T.int64, B: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("scale"):
                v = T.axis.spatial(T.int64(4), i)
                B[v] = A[v] * T.Cast("float32", m)

    @R.function(private=True)
    def fused(x: R.Tensor((4,), "float32"), s: R.Shape(["m"])) -> R.Tensor((4,), "float32"):
        R.func_attr({"Primitive": True})
        m = T.int64()
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.scale, (x, m), out_sinfo=R.Tensor((4,), "float32"))
            b = R.call_tir(cls.scale, (a,), out_sinfo=R.Tensor((4,), "float32"), tir_vars=R.shape([m + 1]))
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((4,), "float32"), s: R.Shape(["m"])) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            gv = cls.fused(x, s)
            R.output(gv)
        return gv
"""
)


def _run(module: IRModule, *args: object) -> np.ndarray:
    machine = relax.VirtualMachine(relax.build(module, "llvm"), tvm.cpu())
    return machine["main"](*args).numpy()


def _fused(module: IRModule) -> IRModule:
    fused = transform.FuseTIR()(module)
    names = sorted(var.name_hint for var in fused.get_global_vars())
    assert names == ["fused", "main"]
    return fused


@pytest.mark.slow
def test_symbolic_programs_called_with_static_sizes() -> None:
    x = np.random.default_rng(0).random((3, 5), np.float32)
    i, j = np.arange(3)[:, None], np.arange(5)[None]

    fused = _fused(_OPEN_SIZES)

    assert 'T.Buffer((3, 5), "float32")' in fused.script()
    np.testing.assert_allclose(_run(fused, x), (x * i + j) * i + j, rtol=1e-6)


@pytest.mark.slow
def test_nested_tuples() -> None:
    x, y, z = np.random.default_rng(0).random((3, 4), np.float32)

    found = _run(_fused(_NESTED_TUPLES), x, y, z)

    np.testing.assert_allclose(found, x - y - z, rtol=1e-6)


@pytest.mark.slow
def test_scalar_arguments_of_programs() -> None:
    x = np.arange(4, dtype=np.float32)
    size = tvm.runtime.ShapeTuple((3,))

    fused = _fused(_SCALARS)

    assert "tir_vars=R.shape([m])" in fused.script()
    np.testing.assert_array_equal(_run(fused, x, size), x * 12)
    np.testing.assert_array_equal(_run(_SCALARS, x, size), x * 12)


_IN_PLACE = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(p: T.int64, A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("add"):
                v = T.axis.spatial(4, i)
                B[v] = B[v] + A[v] * T.Cast("float32", p)

    @T.prim_func(private=True)
    def triple(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("triple"):
                v = T.axis.spatial(4, i)
                A[v] = A[v] * T.float32(3)

    @R.function(private=True)
    def fused(
        k: R.Prim("int64"), x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            a = R.call_tir_inplace(
                cls.add, (k, y, x), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[2]
            )
            b = R.call_tir_inplace(
                cls.triple, (a,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0]
            )
            R.output(b)
        return b

    @R.function
    def main(
        x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), k: R.Prim("int64")
    ) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            gv = cls.fused(k, x, y)
            R.output(gv)
        return gv
"""
)


@pytest.mark.slow
def test_calls_in_place_and_scalar_parameters() -> None:
    x = np.arange(4, dtype=np.float32)
    y = x + 10
    kept = x.copy()

    found = _run(_fused(_IN_PLACE), x, y, 2)

    np.testing.assert_array_equal(found, (x + 2 * y) * 3)
    np.testing.assert_array_equal(x, kept)
