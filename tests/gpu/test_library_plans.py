"""Matmul descriptors of launch plans: verification, and faults that the stub detects."""

from dataclasses import replace
from pathlib import Path

import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.errors import EmulationError, ModelError
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.matmul_descriptors import BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.plan import Plan
from relax_mlir.runtime.cuda.pointers import Pointer
from tests.gpu.emulated import emulated_program
from tests.gpu.library_calls import compiled
from tests.gpu.stub import TARGET, Stub
from tests.gpu.test_library import product
from tests.schedules.low_precision import drawn


def damaged(model: CudaExecutable, **changed: object) -> Contents:
    """The model with another matmul in its plan."""
    (program,) = model.contents.plan.programs
    (found,) = program.launches
    assert isinstance(found, Matmul)
    program = replace(program, launches=(replace(found, **changed),))
    plan = Plan((program,), model.contents.plan.steps)
    return replace(model.contents, plan=plan)


_LHS = BatchedMatrix(Pointer("argument", 0), "f32", 16)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sizes": (1, 20, 20)}, r"a matmul with 3 sizes"),
        ({"sizes": (1, 20, "k", 16)}, r"unknown size `k`"),
        ({"sizes": (1, 20, 20.5, 16)}, r"expected a string, got 20\.5"),
        ({"activation": "gelu"}, r"unknown options: .*activation 'gelu'"),
        ({"tf32": 1}, r"unknown options: tf32 1"),
        ({"lhs": replace(_LHS, element="i8")}, r"matrix of an unknown kind: `i8`"),
        ({"lhs": replace(_LHS, element="f16")}, r"matmul of incompatible matrices"),
        ({"lhs": replace(_LHS, is_transposed=3)}, r"unknown kind: `f32`, transposed 3"),
        ({"bias": Pointer("argument", 9)}, r"argument 9: out of range, there are 3"),
        ({"bias": Pointer("arena", 0)}, r"expected memory of argument, scratch"),
    ],
)
def test_damaged_plans_are_refused(
    changed: dict[str, object], problem: str, tmp_path: Path
) -> None:
    model = CudaExecutable(damaged(compiled(product(20, 16, 20)), **changed))
    model.save(tmp_path / "model.rxm")

    with pytest.raises(ModelError, match=problem):
        relax_mlir.load(tmp_path / "model.rxm")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sizes": (1, 21, 20, 16)}, r"1344 bytes at 0 of input 0, which has 1280"),
        ({"sizes": (1, 20, 20, 0)}, r"a matmul of 1x20x20x0"),
        ({"sizes": (1, 20, -1, 16)}, r"a matmul of 1x20x-1x16"),
        ({"lhs": replace(_LHS, leading=-16)}, r"a matmul of 1x20x20x16"),
        (
            {"lhs": replace(_LHS, leading=15)},
            r"leading dimension 15 of rows of 16 elements",
        ),
        ({"sizes": (2, 20, 20, 16), "lhs": replace(_LHS, step=1)}, r"of input 0"),
        ({"bias": Pointer("argument", 2, 1560)}, r"80 bytes at 1560 of output 0"),
    ],
)
def test_matmuls_are_bounds_checked(
    changed: dict[str, object], problem: str, products: Stub
) -> None:
    model = CudaExecutable(damaged(compiled(product(20, 16, 20)), **changed))

    with pytest.raises(ModelError, match=problem):
        model(drawn(20, 16), drawn(16, 20))


_BY_HAND = """
func.func @k(%x: memref<64xf32>, %y: memref<64xf32>)
    attributes {{tir.prim_func, tir.rule = "ByHand"}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %n = arith.constant {rows} : index
  "tir.library_product"(%x, %x, %{result}, %c1, %n, %c8, %c8, %c8, %c8, %{leading},
      %c0, %c0, %c0) {{
    activation = "none", tf32 = false, turned = [false, false],
    operandSegmentSizes = array<i32: 1, 1, 1, 4, 3, 3, 0>
  }} : (memref<64xf32>, memref<64xf32>, memref<64xf32>, index, index, index, index, index,
        index, index, index, index, index) -> ()
  return
}}
"""


@pytest.mark.parametrize(
    ("rows", "result", "leading", "problem"),
    [
        (9, "y", "c8", r"element 71 of an array of 64"),
        (8, "x", "c8", r"a result overlaps an operand"),
        (8, "y", "c1", r"two results overlap"),
    ],
)
def test_the_emulator_checks_matmuls(
    rows: int, result: str, leading: str, problem: str
) -> None:
    text = _BY_HAND.format(rows=rows, result=result, leading=leading)
    module, x = IRModule.parse(text), drawn(64)

    with pytest.raises(EmulationError, match=problem):
        emulated_program(module, [x], [x], target=TARGET)
