"""Passes use one definition of effects, and one call graph."""

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.ir.module import IRModule
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.analysis import detect_recursion
from relax_mlir.tvm.relax.analysis.call_map import collect_call_map
from relax_mlir.tvm.script import from_source

_X = np.arange(4, dtype=np.float32)


_TwoAllocations = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add_one(A: T.Buffer((4,), "float32"), O: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                O[v] = A[v] + T.float32(1)

    @T.prim_func(private=True)
    def times_ten(A: T.Buffer((4,), "float32"), O: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                O[v] = A[v] * T.float32(10)

    @R.function(private=True)
    def fresh(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        made = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        return made

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        a = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        b = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        _ = cls.add_one(x, a)
        _1 = cls.times_ten(x, b)
        return (a, b)

    @R.function(pure=False)
    def called(x: R.Tensor((4,), "float32")):
        cls = Module
        a = cls.fresh(x)
        b = cls.fresh(x)
        _ = cls.add_one(x, a)
        _1 = cls.times_ten(x, b)
        return (a, b)

    @R.function(pure=False)
    def computed(x: R.Tensor((4,), "float32")):
        cls = Module
        a = R.multiply(x, x)
        b = R.multiply(x, x)
        _ = cls.add_one(x, a)
        _1 = cls.times_ten(x, b)
        return (a, b)
"""
)


def _run(module: IRModule, name: str) -> list[np.ndarray]:
    machine = relax.VirtualMachine(relax.build(module, "llvm"), tvm.cpu())
    return [value.numpy() for value in machine[name](_X)]


@pytest.mark.slow
def test_memory_that_is_written_to_is_not_merged() -> None:
    merged = transform.EliminateCommonSubexpr()(_TwoAllocations)

    for name in ("main", "called", "computed"):
        first, second = _run(merged, name)
        np.testing.assert_array_equal(first, _X + 1)
        np.testing.assert_array_equal(second, _X * 10)


_Closures = from_source(
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def once(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.add(y, y)
            return z

        @R.function
        def twice(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.multiply(y, y)
            return z

        a = once(x)
        b = twice(x)
        return (a, b)
"""
)


@pytest.mark.slow
def test_functions_that_differ_inside_are_not_merged() -> None:
    merged = transform.EliminateCommonSubexpr()(_Closures)

    first, second = _run(merged, "main")

    np.testing.assert_array_equal(first, _X + _X)
    np.testing.assert_array_equal(second, _X * _X)


_Subroutines = from_source(
    """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def square(x: T.float32) -> T.float32:
        return x * x

    @T.prim_func(private=True)
    def fourth(x: T.float32) -> T.float32:
        return Module.square(Module.square(x))

    @T.prim_func(private=True)
    def unused(x: T.float32) -> T.float32:
        return x

    @T.prim_func(private=True)
    def fourths(A: T.Buffer((4,), "float32"), O: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                O[v] = Module.fourth(A[v])

    @R.function(private=True)
    def loop(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Module.loop(x)
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        if c:
            y = R.call_tir(cls.fourths, (x,), out_sinfo=R.Tensor((4,), "float32"))
        else:
            y = cls.loop(x)
        return y
"""
)


def test_callees_of_programs_are_kept() -> None:
    kept = transform.DeadCodeElimination()(_Subroutines)

    names = {var.name_hint for var in kept.get_global_vars()}
    assert names == {"square", "fourth", "fourths", "loop", "main"}


def test_the_call_graph_sees_calls_of_every_kind() -> None:
    graph = CallGraph(_Subroutines)

    assert graph.callees("main") == ["fourths", "loop"]
    assert graph.callees("fourths") == ["fourth"]
    assert graph.callers("square") == ["fourth"]
    assert graph.reachable(["fourths"]) == {"fourths", "fourth", "square"}
    assert graph.is_recursive("loop")
    assert not graph.is_recursive("fourths")


def test_analyses_read_the_call_graph() -> None:
    found = {
        caller.name_hint: [callee.name_hint for callee in callees]
        for caller, callees in collect_call_map(_Subroutines).items()
    }

    assert found["fourth"] == ["square"]
    assert found["fourths"] == ["fourth"]
    groups = detect_recursion(_Subroutines)
    assert [[var.name_hint for var in group] for group in groups] == [["loop"]]


_UnreadEffects = from_source(
    """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        unread = R.builtin.alloc_tensor(R.shape([4]), "float32", 0)
        _ = R.print(x, format="{}")
        y = R.add(x, x)
        return y
"""
)


def test_unused_memory_is_removed_and_visible_memory_stays() -> None:
    script = transform.DeadCodeElimination()(_UnreadEffects).script()

    assert "alloc_tensor" not in script
    assert "R.print" in script
