"""Destruction of modules in any order, also at interpreter exit, does not crash."""

import subprocess
import sys

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.errors import ScriptError
from relax_mlir.tvm import tir
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it


@I.ir_module
class RowSums:
    @T.prim_func
    def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4,), "float32")):  # noqa: N803, N805
        for i0, k0 in T.grid(4, 4):
            with T.block("s"):
                i, k = T.axis.remap("SR", [i0, k0])
                box = T.match_buffer(B[i], ())
                last = T.alloc_buffer((4,))
                with T.init():
                    box[()] = T.float32(0)
                    last[i] = T.float32(0)
                last[i] = A[i, k]
                box[()] += last[i]


def test_init_writes_buffers_of_its_block() -> None:
    """The module verifies, round-trips through its script, and computes row sums."""
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    b = tvm.nd.array(np.full(4, 7, np.float32))

    RowSums.verify()
    tvm.build(RowSums["main"], target="llvm")(tvm.nd.array(a), b)

    np.testing.assert_array_equal(b.numpy(), a.sum(1))
    assert "box[()] = T.float32(0" in RowSums.script()
    assert RowSums.script().count("T.match_buffer") == 1
    again = tvm.script.from_source(RowSums.script())
    assert tvm.ir.structural_equal(RowSums, again)


_LET_BEFORE_INIT = """
from relax_mlir.tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i0, k0 in T.grid(4, 4):
        with T.block("s"):
            i, k = T.axis.remap("SR", [i0, k0])
            x: T.float32 = A[k]
            with T.init():
                A[i] = x
            A[i] += x
"""


def test_init_does_not_see_values_of_the_body() -> None:
    with pytest.raises(
        ScriptError, match=r"a result of `tir\.let` that the body defines"
    ):
        tvm.script.from_source(_LET_BEFORE_INIT)


@pytest.mark.parametrize("kind", ["branch", "loop"])
def test_variable_is_free_outside_of_its_scope(kind: str) -> None:
    """The value is a free variable there: its definition does not dominate the use."""
    buffer = tir.decl_buffer((4,), "float32", name="A")
    handle, x, i = (
        tir.Var("a", "handle"),
        tir.Var("x", "float32"),
        tir.Var("i", "int32"),
    )
    let = tir.LetStmt(x, buffer[0], tir.BufferStore(buffer, x, [1]))
    inner = (
        tir.IfThenElse(buffer[0] > 0, let, None)
        if kind == "branch"
        else tir.For(i, 0, 4, tir.ForKind.SERIAL, let)
    )
    body = tir.SeqStmt([inner, tir.BufferStore(buffer, x, [2])])

    module = tvm.IRModule(
        {"main": tir.PrimFunc([handle], body, buffer_map={handle: buffer})}
    )

    module.verify()
    module.clone().verify()


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 100000])
def test_random_modules_alive_at_exit(seed: int) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.tvm.script.random_programs", str(seed), "1000"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert made.returncode == 0, made.stderr[-2000:]
    assert made.stdout.startswith("1000 valid")
