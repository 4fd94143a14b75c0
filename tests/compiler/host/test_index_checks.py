"""Index checks of hand-written modules: in branches, and after pipelines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import IndexOutOfRangeError, PassError
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.transform import DeadCodeElimination
from relax_mlir.tvm.script import from_source

_BRANCH = """
@I.ir_module
class Module:
    @R.function
    def main(p: R.Tensor((), "bool"), x: R.Tensor(("n", 3), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor((2, 3), "float32"):
        n = T.int64()
        if p:
            y = R.take(x, i, axis=0)
        else:
            y = R.zeros((2, 3), "float32")
        return y
"""
_CALLED = """
@I.ir_module
class Module:
    @R.function(private=True)
    def rows(x: R.Tensor((5, 3), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor((2, 3), "float32"):
        y = R.take(x, i, axis=0)
        return y

    @R.function
    def main(p: R.Tensor((), "bool"), x: R.Tensor((5, 3), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor((2, 3), "float32"):
        cls = Module
        if p:
            y = cls.rows(x, i)
        else:
            y = R.zeros((2, 3), "float32")
        return y
"""
_UNREAD = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 3), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor((5, 3), "float32"):
        with R.dataflow():
            y = R.take(x, i, axis=0)
            z = R.add(x, x)
            R.output(z)
        return z
"""
_HOST = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((5, 3), "float32"), i: R.Tensor((2,), "int64")) -> R.Tensor((5, 3), "float32"):
        y = R.take(x, i, axis=0)
        _ = R.print(x, format="")
        return x
"""
X = np.arange(15, dtype=np.float32).reshape(5, 3)
GOOD, BAD = np.array([0, 4]), np.array([0, 5])
PIPELINES = ["default", "zero", "default_build"]


def compiled(source: str, **options: Any) -> Callable[..., Any]:
    """``main`` of a module, compiled with checks."""
    made = relax_mlir.compile(from_source(source), checks="indices", **options)
    if isinstance(made, relax.vm.VMExecutable):
        return relax.VirtualMachine(made, relax_mlir.tvm.cpu())["main"]
    return made


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("source", [_BRANCH, _CALLED], ids=["inside", "called"])
def test_a_branch_checks_if_it_runs(source: str, pipeline: str) -> None:
    """Computing both branches and selecting one would fail for the other, too."""
    main = compiled(source, relax_pipeline=pipeline)

    main(np.array(True), X, GOOD)
    main(np.array(False), X, BAD)
    with pytest.raises(
        IndexOutOfRangeError, match=r"relax\.take.*expected -5 to 4, got 5"
    ):
        main(np.array(True), X, BAD)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("source", [_UNREAD, _HOST], ids=["dataflow", "host"])
def test_a_result_that_nothing_reads_is_checked(source: str, pipeline: str) -> None:
    main = compiled(source, relax_pipeline=pipeline)

    main(X, GOOD)
    with pytest.raises(IndexOutOfRangeError):
        main(X, BAD)


def test_a_check_is_no_dead_code() -> None:
    checked = relax_mlir.opt(from_source(_UNREAD), "relax-check-indices")

    text = DeadCodeElimination()(checked).script()

    assert "R.check_indices" in text
    assert "R.take" not in text


def test_a_branch_with_a_check_is_not_selected() -> None:
    with pytest.raises(PassError, match=r"relax\.check_indices.*in a branch"):
        relax_mlir.opt(from_source(_BRANCH), "relax-normalize{check-indices=true}")


def test_a_check_that_is_written_runs_in_models_with_checks_alone() -> None:
    source = _UNREAD.replace("R.take(x, i, axis=0)", "R.check_indices(i, (3,))")

    relax_mlir.compile(from_source(source))(X, BAD)
    with pytest.raises(IndexOutOfRangeError, match="expected -3 to 2, got 5"):
        compiled(source)(X, BAD)
