"""Plans written by hand: what kernels get, and what no rule uses yet."""

import ctypes
import json

import numpy as np
import pytest

from relax_mlir.errors import DeviceError
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
    Started,
    TensorMap,
    evaluate,
)
from relax_mlir.runtime.profile import KernelCall
from tests.gpu.stub import Stub

# Only what the stub reads: names, and the sizes of parameters.
_PTX = b"""
.version 8.0
.target sm_90a
.visible .entry k_0(
	.param .u64 .ptr .align 1 k_0_param_0,
	.param .align 64 .b8 k_0_param_1[128],
	.param .u64 k_0_param_2
)
{
	ret;
}
"""
_SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", "8"]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["n", "8"]}],
    "symbols": ["n"],
    "derived": [],
    "constraints": [],
    "arena": "0",
    "constants": [],
}


def launch(**changed: object) -> Launch:
    tensor = TensorMap(
        Pointer("argument", 0, "32*s"), "FLOAT32", (8, "s"), (32,), (8, 16), "128B"
    )
    fields = {
        "kernel": "k_0",
        "grid": ("ceildiv(s, 4)", 1, 1),
        "block": (128, 1, 1),
        "shared_bytes": "1024*s",
        "arguments": (Pointer("argument", 1), tensor, "s - 10"),
        **changed,
    }
    return Launch(**fields)


def model(*launches: Launch) -> CudaExecutable:
    program = Program(("s",), (), launches)
    pointers = Pointer("input", 0), Pointer("output", 0)
    plan = Plan((program,), (Call(0, 0, pointers, ("n",)),))
    kernels = (KernelCall("scaled", "ByHand"),)
    return CudaExecutable(Contents((_PTX,), plan, _SIGNATURE, "sm_90a", {}, kernels))


def test_a_kernel_gets_pointers_descriptors_and_numbers(stub: Stub) -> None:
    seen: list[tuple[object, ...]] = []

    def kernel(name: str, grid: tuple[int, ...], parameters: list[int]) -> None:
        pointer = ctypes.c_uint64.from_address(parameters[0]).value
        words = (ctypes.c_uint64 * 6).from_address(parameters[1])
        number = ctypes.c_int64.from_address(parameters[2]).value
        seen.append((name, grid, pointer, list(words), number, parameters[1] % 64))

    stub.on_launch(kernel)
    x = DeviceArray.of(np.zeros((6, 8), np.float32), device(0))

    (y,) = model(launch())(x)

    shape, float32, swizzle = [8, 6], 7, 3
    words = [x.address + 32 * 6, float32, 2, swizzle, *shape]
    assert seen == [("k_0", (2, 1, 1), y.address, words, -4, 0)]


def test_descriptors_are_in_graphs_and_follow_the_arrays(stub: Stub) -> None:
    addresses: list[int] = []

    def kernel(name: str, grid: tuple[int, ...], parameters: list[int]) -> None:
        addresses.append(ctypes.c_uint64.from_address(parameters[1]).value)

    stub.on_launch(kernel)
    made = model(launch(), launch())
    first, then, out = (
        DeviceArray.of(np.zeros((6, 8), np.float32), device(0)) for _ in range(3)
    )

    for x in (first, first, then, first):
        made(x, out=[out])

    places = [x.address + 32 * 6 for x in (first, first, then, first) for _ in range(2)]
    assert addresses == places
    assert stub.count("cuGraphLaunch") == 2
    assert stub.count("cuTensorMapEncodeTiled") == 2 * 2


def test_a_tensor_that_cannot_be_described_is_told(stub: Stub) -> None:
    tensor = TensorMap(Pointer("argument", 0), "FLOAT32", (8, "s"), (24,), (8, 16))
    arguments = (Pointer("argument", 1), tensor, 0)

    with pytest.raises(
        DeviceError, match=r"of FLOAT32: sizes \(8, 6\), strides \(24,\) bytes.*_VALUE"
    ):
        model(launch(arguments=arguments))(np.zeros((6, 8), np.float32))


def test_much_shared_memory_is_asked_for_once(stub: Stub) -> None:
    made = model(launch())

    for rows in (48, 49, 60, 50):
        made(np.zeros((rows, 8), np.float32))

    assert stub.count("cuFuncSetAttribute") == 2


def test_too_much_shared_memory_is_refused(stub: Stub) -> None:
    with pytest.raises(
        DeviceError,
        match=r"kernel `scaled` \(`k_0`\), 75x1x1 blocks of 128x1x1 threads, 307200 bytes "
        r"of shared memory: a block of GPU 0 may have 232448",
    ):
        model(launch())(np.zeros((300, 8), np.float32))


def test_a_kernel_that_is_not_there_is_told(stub: Stub) -> None:
    with pytest.raises(DeviceError, match=r"kernel `scaled` \(`k_7`\).*NOT_FOUND"):
        model(launch(kernel="k_7"))(np.zeros((3, 8), np.float32))


def test_a_launch_that_the_driver_refuses_tells_its_grid(stub: Stub) -> None:
    with pytest.raises(
        DeviceError, match=r"1x1x1 blocks of 2048x1x1 threads.*INVALID_VALUE \(1\)"
    ):
        model(launch(block=(2048, 1, 1)))(np.zeros((3, 8), np.float32))


def test_a_launch_that_no_gpu_has_is_refused(stub: Stub) -> None:
    with pytest.raises(
        DeviceError, match=r"4294967296x1x1 blocks .* at most 2147483647 of each"
    ):
        model(launch(grid=("1431655765*s + 1", 1, 1)))(np.zeros((3, 8), np.float32))


def test_plans_are_json() -> None:
    pointers = Pointer("input", 0), Pointer("arena", 0, "16*n")
    host = HostCall("f", (HostArray(pointers[1], "float32", ("n", 2)),))
    steps = (Call(0, 0, pointers, ("n",)), Copy(*pointers, "4*n"), host)
    plan = Plan((Program(("s",), ("4*s",), (launch(),)),), steps)

    read = Plan.from_fields(json.loads(json.dumps(plan.fields())))

    assert read == plan
    assert read.calls_host
    with pytest.raises(ValueError, match="unknown step `jump` of a plan"):
        Plan.from_fields({"programs": [], "steps": [["jump"]]})


def test_programs_use_one_workspace_in_turn() -> None:
    scratch = Pointer("scratch", 1, "4*s")
    small = Program(("s",), (10, 300), (launch(arguments=(scratch,)),))
    large = Program(("s",), ("4*s",), ())
    pointers = Pointer("input", 0), Pointer("output", 0)
    steps = (Call(0, 0, pointers, ("2*n",)), Call(1, 1, pointers, ("n",)))

    known = Plan((small, large), steps).at({"n": 200})

    assert known.workspace_bytes == 1024
    (started,) = known.steps
    assert isinstance(started, Started)
    assert started.launch.arguments == (Pointer("workspace", 0, 256 + 1600),)


@pytest.mark.parametrize(
    ("expression", "value"),
    [(7, 7), ("n", 5), ("4*ceildiv(n, 2)", 12), ("min(n, 3) + mod(n, 4)", 4)],
)
def test_expressions_have_values(expression: int | str, value: int) -> None:
    assert evaluate(expression, {"n": 5}) == value


@pytest.mark.parametrize("expression", ["m", "n +", "__import__('os')"])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="cannot"):
        evaluate(expression, {"n": 5})
