"""Forged model files: clear errors, and no launch."""

import copy
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any  # of JSON

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.runtime import container
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import (
    Call,
    Copy,
    HostArray,
    HostCall,
    Launch,
    Plan,
    Pointer,
    Program,
    TensorMap,
)
from relax_mlir.runtime.profile import KernelCall
from tests.gpu.stub import Stub

_PTX = b"""
.version 8.0
.visible .entry k_0(
	.param .u64 k_0_param_0,
	.param .align 128 .b8 k_0_param_1[128]
)
{
}
"""
_SHAPE = ["n", "8"]
_SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": _SHAPE}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": _SHAPE}],
    "symbols": ["n"],
    "derived": [],
    "constraints": [],
    "arena": "256",
    "constants": ["w"],
}
_MAP = TensorMap(Pointer("argument", 0), "FLOAT32", (8, "s"), (32,), (8, 16), "32B")
_LAUNCH = Launch(
    "k_0", ("s", 1, 1), (32, 1, 1), 0, (Pointer("argument", 1), _MAP), waits=False
)
_X, _Y = Pointer("input", 0), Pointer("output", 0)
_CALL = Call(0, 0, (_X, _Y), ("n",))
_HOST = HostCall("f", (HostArray(_Y, "float32", ("n", 8)),))


def program(**changed: object) -> Program:
    return Program(("s",), (), (replace(_LAUNCH, **changed),))


def contents(programs: tuple[Program, ...], *steps: Call | Copy | HostCall) -> Contents:
    weights = {"w": np.zeros(4, np.float32)}
    kernels = (KernelCall("scaled", "ByHand"),)
    ptx = (_PTX,) * len(programs)
    return Contents(ptx, Plan(programs, steps), _SIGNATURE, "sm_90a", weights, kernels)


_WHOLE = contents((program(),), _CALL, Copy(_X, _Y, "32*n"))


def with_map(**changed: object) -> Contents:
    tensor = replace(_MAP, **changed)
    return contents((program(arguments=(Pointer("argument", 1), tensor)),), _CALL)


_REFUSED = {
    "step 0: program 3: out of range, there are 1": contents(
        (program(),), replace(_CALL, program=3)
    ),
    "step 0: program -1: out": contents((program(),), replace(_CALL, program=-1)),
    "step 0: kernel 1: out of range, there are 1": contents(
        (program(),), replace(_CALL, kernel=1)
    ),
    "step 0: expected 1 sizes, got 0": contents((program(),), replace(_CALL, sizes=())),
    "`n / 2`": contents((program(),), replace(_CALL, sizes=("n / 2",))),
    "`m`: unknown size `m`": contents((program(),), replace(_CALL, sizes=("m",))),
    "step 0: argument 1: out of range, there are 1": contents(
        (program(),), replace(_CALL, pointers=(_X,))
    ),
    "got 'weights'": contents((), Copy(Pointer("weights", 0), _Y, 4)),
    "constant 1: out of range, there are 1": contents(
        (), Copy(Pointer("constant", 1), _Y, 4)
    ),
    "input True: out of range, there are 1": contents(
        (), Copy(Pointer("input", True), _Y, 4)
    ),
    "expected a string, got 1.5": contents((), Copy(_X, _Y, 1.5)),
    "4611686018427387904 is too large": contents((), Copy(_X, _Y, 1 << 62)),
    "'k_0;' is not a kernel name": contents((program(kernel="k_0;"),), _CALL),
    "expected 3-D grid and block sizes": contents((program(grid=(1, 1)),), _CALL),
    "scratch 0: out of range, there are 0": contents(
        (program(arguments=(Pointer("scratch", 0),)),), _CALL
    ),
    "unknown element type `float31`": contents(
        (), replace(_HOST, arrays=(HostArray(_Y, "float31", (1,)),))
    ),
    "expected a string, got None": contents((), replace(_HOST, function=None)),
    "kernel `k_0` has parameters of [8, 128] bytes, got arguments of [8]": contents(
        (program(arguments=(Pointer("argument", 1),)),), _CALL
    ),
    "has parameters of [8, 128] bytes, got arguments of [8, 8]": contents(
        (program(arguments=(Pointer("argument", 1), "s")),), _CALL
    ),
    "program 0: kernel `k_0` waits: 1": contents((program(waits=1),), _CALL),
    "program 0: kernel `k_0` does not wait": contents((program(waits=True),), _CALL),
    "program 0: kernel `k_1` does not exist": contents((program(kernel="k_1"),), _CALL),
    "unknown chip 'sm_x'": replace(_WHOLE, chip="sm_x"),
    "1 programs, but PTX of 2": replace(_WHOLE, ptx=(_PTX, _PTX)),
    "unknown kind: `FLOAT8`": with_map(element="FLOAT8"),
    "swizzle `16B`": with_map(swizzle="16B"),
    "a descriptor of 2 sizes, 0 strides": with_map(strides_bytes=()),
    "a descriptor of 6 sizes": with_map(
        sizes=(1,) * 6, strides_bytes=(16,) * 5, box=(4,) * 6
    ),
}


@pytest.mark.parametrize("problem", _REFUSED)
def test_plans_are_checked_when_they_are_read(problem: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.rxm"
    CudaExecutable(_REFUSED[problem]).save(path)

    with pytest.raises(ModelError, match="not a compiled model, or damaged") as caught:
        relax_mlir.load(path)

    assert problem in str(caught.value)


_OUTSIDE = {
    "33 bytes at 0 of input 0": contents((), Copy(_X, _Y, 33)),
    "-1 bytes at 0 of input 0": contents((), Copy(_X, _Y, "n - 2")),
    "32 bytes at -4 of input 0": contents(
        (), Copy(Pointer("input", 0, "n - 5"), _Y, "32*n")
    ),
    "17 bytes at 0 of constant 0": contents((), Copy(Pointer("constant", 0), _Y, 17)),
    "32 bytes at 240 of arena 0": contents((), Copy(_X, Pointer("arena", 0, 240), 32)),
    "0 bytes at 64 of output 0": contents(
        (program(arguments=(Pointer("argument", 1, 64), _MAP)),), _CALL
    ),
    "64 bytes at 0 of input 0": with_map(sizes=(8, "2*s")),
    "-1 bytes at 0 of input 0, which": with_map(strides_bytes=("16 - 32*s",)),
    "64 bytes at 0 of output 0": contents(
        (), replace(_HOST, arrays=(HostArray(_Y, "float32", (16,)),))
    ),
    "`k_0` has a size of -1": contents((program(grid=("s - 2", 1, 1)),), _CALL),
}


@pytest.mark.parametrize("problem", _OUTSIDE)
def test_nothing_is_done_outside_of_the_memory_of_a_call(
    problem: str, stub: Stub
) -> None:
    model = CudaExecutable(_OUTSIDE[problem])

    with pytest.raises(ModelError, match="its plan is out of bounds") as caught:
        model(np.zeros((1, 8), np.float32))

    assert problem in str(caught.value)
    assert stub.count("cuLaunchKernelEx") == 0


def test_a_program_whose_scratch_is_negative_is_refused(stub: Stub) -> None:
    small = Program(("s",), ("s - 9",), (_LAUNCH,))

    with pytest.raises(ValueError, match="scratch memory of -8 bytes"):
        CudaExecutable(contents((small,), _CALL))(np.zeros((1, 8), np.float32))


_JUNK = (None, -1, 1 << 70, 1.5, "n", "x(", "", [], {}, True, [["pointer", "input", 9]])


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The key paths of all values in a JSON document."""
    yield path
    if isinstance(part, dict | list):
        for key in part if isinstance(part, dict) else range(len(part)):
            yield from places(part[key], (*path, key))


def with_junk(whole: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A JSON document with one value replaced."""
    changed = copy.deepcopy(whole)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = junk
    return changed


@pytest.mark.parametrize("part", ["plan", "signature", "kernels", "chip", "code"])
def test_whatever_stands_in_a_file_it_is_run_or_refused(
    part: str, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole.rxm"
    CudaExecutable(_WHOLE).save(whole)
    with zipfile.ZipFile(whole) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    manifest = json.loads(members["cuda.json"])
    monkeypatch.setattr(container, "manifest_digest", lambda *_: manifest["digest"])
    every = [(p, junk) for p in places(manifest[part], (part,)) for junk in _JUNK]
    outcomes: set[str] = set()

    for place, junk in random.Random(0).sample(every, min(80, len(every))):
        changed = with_junk(manifest, place, junk)
        path = tmp_path / "changed.rxm"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                is_changed = name == "cuda.json"
                archive.writestr(
                    zipfile.ZipInfo(name),
                    json.dumps(changed).encode() if is_changed else data,
                )
        outcomes.add(outcome(lambda path=path: relax_mlir.load(path)(*_inputs())))

    assert "ModelError" in outcomes


def _inputs() -> list[DeviceArray]:
    return [DeviceArray.of(np.zeros((2, 8), np.float32), device(0))]


def outcome(call: Callable[[], object]) -> str:
    """The outcome of a call; undocumented errors propagate."""
    try:
        call()
    except (RelaxError, TypeError, ValueError) as error:
        return type(error).__name__
    return "runs"
