"""Guarded execution: detects out-of-bounds accesses and uninitialised results."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.errors import OutOfBoundsError
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.guard import MaskedAccess, take_masked_accesses
from tests.differential.check import Settings, check
from tests.differential.programs import PROGRAMS
from tests.differential.recipes import Input, Recipe, Step

_SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["6"]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["6"]}],
    "symbols": [],
    "derived": [],
    "constraints": [],
    "arena": "24",
    "constants": ["w"],
}
_KINDS = {
    "x": "input 0",
    "w": "constant 0",
    "t": "intermediate result 0",
    "y": "output 0",
    "s": "scratch buffer 0",
}
_TYPE = "memref<6xf32>"


def _program(body: str) -> str:
    """``y = x`` by a kernel that runs ``body`` for each element ``%i`` first."""
    signature = json.dumps(_SIGNATURE).replace('"', r"\22")
    shape = 'tir.shape = #relax.shape<["6"]>, relax.dtype = "float32"'
    return f"""
module attributes {{relax.signature = "{signature}"}} {{
  func.func @k(%x: {_TYPE}, %w: {_TYPE}, %t: {_TYPE}, %y: {_TYPE})
      attributes {{tir.prim_func, tir.num_outputs = 2 : i64, tir.rule = "RowWise"}} {{
    %zero = arith.constant 0.0 : f32
    %none = arith.constant dense<0.0> : vector<4xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c6 = arith.constant 6 : index
    %before = arith.constant -1 : index
    scf.for %i = %c0 to %c6 step %c1 {{
      %s = memref.alloc() : {_TYPE}
      %v = memref.load %x[%i] : {_TYPE}
      memref.store %v, %y[%i] : {_TYPE}
      {body}
    }} {{tir.grain = 2 : i64, tir.kind = "parallel"}}
    return
  }}
  func.func @main(%x: {_TYPE} {{relax.input = "x", {shape}}},
                  %y: {_TYPE} {{relax.output = "y", {shape}}},
                  %w: {_TYPE} {{relax.constant = "w", {shape}}},
                  %a: memref<?xi8> {{relax.arena}})
      attributes {{relax.arena_bytes = "24", relax.main}} {{
    %c0 = arith.constant 0 : index
    %t = memref.view %a[%c0][] : memref<?xi8> to {_TYPE}
    call @k(%x, %w, %t, %y) : ({_TYPE}, {_TYPE}, {_TYPE}, {_TYPE}) -> ()
    return
  }}
  func.func @main_shapes(%sizes: memref<0xi64>) {{
    return
  }}
}}"""


def _compile(body: str, threads: int = 1) -> Executable:
    module = IRModule.parse(_program(body))
    module.constants["w"] = np.arange(6, dtype=np.float32)
    made = relax_mlir.compile(module, cache=False, threads=threads)
    assert isinstance(made, Executable)
    return made


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAX_MLIR_GUARD", "1")
    take_masked_accesses()


X = np.linspace(1, 6, 6, dtype=np.float32)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("threads", [1, 2])
def test_right_kernel_gives_its_results(threads: int) -> None:
    model = _compile("memref.store %v, %t[%i] : memref<6xf32>", threads)

    np.testing.assert_array_equal(model(X)[0], X)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize(
    ("index", "where"),
    [("%before", "4 bytes before the start of"), ("%c6", "0 bytes past the end of")],
)
@pytest.mark.parametrize("access", ["reads", "writes"])
@pytest.mark.parametrize("buffer", _KINDS)
def test_access_out_of_bounds_names_kernel_and_buffer(
    buffer: str, access: str, index: str, where: str
) -> None:
    read = f"""%bad = memref.load %{buffer}[{index}] : {_TYPE}
      memref.store %bad, %s[%i] : {_TYPE}
      %back = memref.load %s[%i] : {_TYPE}
      memref.store %back, %t[%i] : {_TYPE}"""
    write = f"memref.store %v, %{buffer}[{index}] : {_TYPE}"
    model = _compile(read if access == "reads" else write)

    with pytest.raises(
        OutOfBoundsError,
        match=rf"^kernel `k` \(RowWise\): {access} {where} {_KINDS[buffer]}$",
    ):
        model(X)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("name", ["add_to", "exchange", "running_sums"])
def test_a_program_in_place_reads_what_it_overwrites(name: str) -> None:
    program = PROGRAMS[f"program.{name}"]
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    steps = (
        Step("relax.nn_relu", (0,), {}),
        Step(
            f"program.{name}", (1, 0)[: len(program.operands)], {}, len(program.results)
        ),
    )
    results = tuple(range(2, 2 + len(program.results)))

    check(Recipe((Input(array),), steps, results), Settings())


@pytest.mark.usefixtures("guard")
def test_a_program_of_open_sizes_is_called_with_known_ones() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = (Input(x, symbols={0: "n"}), Input(x.T.copy()))

    check(Recipe(inputs, (Step("program.matmul", (0, 1), {}),), (2,)), Settings())


@pytest.mark.usefixtures("guard")
def test_fault_of_a_thread_of_the_pool_is_an_error() -> None:
    # Only the last tile, which another thread may take.
    model = _compile(
        f"""%next = arith.addi %i, %c1 : index
      %bad = memref.load %w[%next] : {_TYPE}
      memref.store %bad, %t[%i] : {_TYPE}""",
        threads=4,
    )

    for _ in range(20):
        with pytest.raises(OutOfBoundsError, match="reads 0 bytes past the end of con"):
            model(X)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("buffer", ["x", "w"])
def test_writing_to_what_is_read_only_is_an_error(buffer: str) -> None:
    model = _compile(f"memref.store %v, %{buffer}[%c2] : {_TYPE}")

    with pytest.raises(
        OutOfBoundsError, match=r"writes byte 8 of .*, which is read-only"
    ):
        model(X)


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("buffer", ["s", "y"])
def test_results_that_depend_on_unwritten_memory_are_an_error(buffer: str) -> None:
    # Even where what was there is multiplied by 0: NaN times 0 is NaN.
    before = "%y[%c6m1]" if buffer == "y" else "%s[%i]"
    body = f"""%c6m1 = arith.constant 5 : index
      %old = memref.load {before} : {_TYPE}
      %none_of_it = arith.mulf %old, %zero : f32
      %sum = arith.addf %v, %none_of_it : f32
      memref.store %sum, %y[%i] : {_TYPE}"""
    model = _compile(body)

    with pytest.raises(
        OutOfBoundsError, match=r"nothing wrote, at byte .* of output 0"
    ):
        model(X)


@pytest.mark.usefixtures("guard")
def test_masked_lanes_out_of_bounds_are_named() -> None:
    model = _compile(
        f"""%c4 = arith.constant 4 : index
      %two = vector.create_mask %c2 : vector<4xi1>
      %some = vector.maskedload %x[%c4], %two, %none
        : {_TYPE}, vector<4xi1>, vector<4xf32> into vector<4xf32>
      vector.maskedstore %t[%c4], %two, %some
        : {_TYPE}, vector<4xi1>, vector<4xf32>"""
    )

    np.testing.assert_array_equal(model(X)[0], X)

    assert take_masked_accesses() == [
        MaskedAccess(0, "input 0", 0, 8),
        MaskedAccess(0, "intermediate result 0", 0, 8),
    ]
    assert take_masked_accesses() == []


def test_without_the_guard_nothing_is_called() -> None:
    lowered = str(relax_mlir.lower(IRModule.parse(_program("")), to="llvm"))

    assert "relax_rt2_guarded" not in lowered
    assert "relax_rt2_masked" not in lowered


_CRASH = """
import ctypes, faulthandler
from tests.runtime.test_guard import X, _compile
_compile("")(X)  # has put its handler in front of the process's own
print("ran", flush=True)
ctypes.string_at(16)
"""


@pytest.mark.slow
def test_other_faults_end_the_process_as_they_would() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CRASH],
        env={**os.environ, "RELAX_MLIR_GUARD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "ran\n"
    assert done.returncode == -11, done.stderr
