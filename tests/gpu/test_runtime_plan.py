"""Hand-written launch plans: kernel arguments, and features that no rule uses yet."""

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
    BoundLaunch,
    Call,
    Copy,
    HostArray,
    HostCall,
    Launch,
    Plan,
    Pointer,
    Program,
    TensorMap,
    evaluate,
)
from relax_mlir.runtime.cuda.tensor_maps import TensorMaps
from relax_mlir.runtime.profile import KernelCall
from tests.gpu.stub import DriverLaunch, Stub
from tests.ptx_emulator.descriptors import Descriptor

# Only what the stub reads: names, the sizes of parameters, and static shared memory.
_PTX = b"""
.version 8.0
.target sm_90a
.visible .entry k_0(
	.param .u64 .ptr .align 1 k_0_param_0,
	.param .align 128 .b8 k_0_param_1[128],
	.param .u64 k_0_param_2
)
{
	.shared .align 8 .b8 __mbarrier[16];
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
        Pointer("argument", 0, "32*ceildiv(s, 2)"),
        *("FLOAT32", (8, "s//2"), (32,), (8, 16), "128B"),
    )
    fields = {
        "kernel": "k_0",
        "grid": ("ceildiv(s, 4)", 1, 1),
        "block": (128, 1, 1),
        "shared_bytes": "1024*s",
        "arguments": (Pointer("argument", 1), tensor, "s - 10"),
        "waits": False,
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

    def kernel(started: DriverLaunch) -> None:
        at_pointer, at_map, at_number = started.parameters[:3]
        pointer = ctypes.c_uint64.from_address(at_pointer).value
        descriptor = Descriptor.decoded(ctypes.string_at(at_map, 128))
        number = ctypes.c_int64.from_address(at_number).value
        seen.append((started.kernel, started.grid, pointer, descriptor, number))

    stub.on_launch(kernel)
    x = DeviceArray.of(np.zeros((6, 8), np.float32), device(0))

    (y,) = model(launch())(x)
    stub.run_all()

    float32, swizzle = 7, 3
    descriptor = Descriptor(
        x.address + 32 * 3, float32, (8, 3), (32,), (8, 16), (1, 1), swizzle
    )
    assert seen == [("k_0", (2, 1, 1), y.address, descriptor, -4)]


def test_descriptors_are_in_graphs_and_follow_the_arrays(stub: Stub) -> None:
    addresses: list[int] = []

    def kernel(started: DriverLaunch) -> None:
        at_map = started.parameters[1]
        addresses.append(ctypes.c_uint64.from_address(at_map).value)

    stub.on_launch(kernel)
    made = model(launch(), launch())
    first, then, out = (
        DeviceArray.of(np.zeros((6, 8), np.float32), device(0)) for _ in range(3)
    )

    for x in (first, first, then, first):
        made(x, out=[out])
    stub.run_all()

    places = [x.address + 32 * 3 for x in (first, first, then, first) for _ in range(2)]
    assert addresses == places
    assert stub.count("cuGraphLaunch") == 2
    assert stub.count("cuTensorMapEncodeTiled") == 2  # one for every address


def maps(element: str = "FLOAT16", **changed: object) -> TensorMap:
    fields = {
        "sizes": (64, 6),
        "strides_bytes": (128,),
        "box": (64, 8),
        "swizzle": "128B",
        **changed,
    }
    fields.setdefault("pointer", Pointer("argument", 0))
    return TensorMap(element=element, **fields)


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (maps(strides_bytes=(136,)), "strides that are multiples of 16 bytes"),
        (maps(strides_bytes=(1 << 40,)), "strides from 0 to below 1099511627776 bytes"),
        (maps(box=(8, 257)), "a box of 1 to 256 in every dimension"),
        (maps(box=(8, 0)), "a box of 1 to 256 in every dimension"),
        (maps(box=(4, 8)), "rows of the box of a multiple of 16 bytes, got 8"),
        (maps(box=(128, 8)), "rows of the box up to the swizzle's 128 bytes, got 256"),
        (maps(swizzle="32B"), "rows of the box up to the swizzle's 32 bytes, got 128"),
        (maps(sizes=(64, 1 + (1 << 32))), "sizes from 1 to 4294967296"),
        (maps(box=(64, 100), steps=(1, 3)), "a box of 1 to 256 in every dimension"),
        (maps(steps=(1, 9)), "steps from 1 to 8, and 1 of the innermost dimension"),
        (maps(steps=(2, 1)), "steps from 1 to 8, and 1 of the innermost dimension"),
        (maps(pointer=Pointer("argument", 0, 8)), "an address at a multiple of 16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tensor_that_cannot_be_described_is_told(
    tensor: TensorMap, problem: str, stub: Stub
) -> None:
    made = TensorMaps(device(0).driver)
    address = 0x1000 + tensor.pointer.offset_bytes

    with pytest.raises(
        DeviceError, match=f"unsupported descriptor of .*: expected {problem}"
    ):
        made.at(tensor, address)

    assert stub.count("cuTensorMapEncodeTiled") == 0  # the driver only says: invalid


def test_an_empty_tensor_has_no_description(stub: Stub) -> None:
    found = TensorMaps(device(0).driver).at(maps(sizes=(64, 0)), 0)

    assert bytes(found) == bytes(128)
    assert stub.count("cuTensorMapEncodeTiled") == 0


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize(
    ("element", "number", "item_bytes"),
    [
        ("UINT8", 0, 1),  # 8-bit floats, too
        ("FLOAT16", 6, 2),
        ("BFLOAT16", 9, 2),
        ("FLOAT32", 7, 4),
        ("TFLOAT32", 11, 4),
    ],
)
@pytest.mark.parametrize(
    ("swizzle", "row_bytes"), [("NONE", 256), ("32B", 32), ("64B", 64), ("128B", 128)]
)
def test_tensors_of_all_kinds_have_descriptors(
    swizzle: str,
    row_bytes: int,
    element: str,
    number: int,
    item_bytes: int,
    rank: int,
    stub: Stub,
) -> None:
    sizes = (512 // item_bytes, 3, 5, 7, 2)[:rank]
    strides = (512, 512 * 3, 512 * 15, 512 * 105)[: rank - 1]
    box = (row_bytes // item_bytes, 2, 1, 3, 1)[:rank]
    tensor = TensorMap(Pointer("argument", 0), element, sizes, strides, box, swizzle)

    made = TensorMaps(device(0).driver).at(tensor, 0x7000)

    kind, steps = ["NONE", "32B", "64B", "128B"].index(swizzle), (1,) * rank
    expected = Descriptor(0x7000, number, sizes, strides, box, steps, kind)
    assert Descriptor.decoded(bytes(made)) == expected
    assert expected.encoded() == bytes(made)


def test_descriptors_are_made_once_and_not_kept_for_ever(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relax_mlir.runtime.cuda.tensor_maps._KEPT", 3)
    made = TensorMaps(device(0).driver)

    for address in (16, 32, 48, 16, 32, 48, 64, 48, 16):
        made.at(maps(), address)
    made.at(maps(box=(64, 4)), 16)

    assert stub.count("cuTensorMapEncodeTiled") == 3 + 1 + 1 + 1


def test_a_descriptor_follows_sizes(stub: Stub) -> None:
    tensor = maps(
        sizes=(8, "s", 2), strides_bytes=("32*s", "16*s"), box=(8, 2, 1), swizzle="NONE"
    )

    known = tensor.at({"s": 3})

    assert (known.sizes, known.strides_bytes) == ((8, 3, 2), (96, 48))
    assert TensorMap.from_fields(json.loads(json.dumps(tensor.fields()))) == tensor


def test_much_shared_memory_is_asked_for_once(stub: Stub) -> None:
    """Opt-in for blocks with more than 48 KiB, static shared memory included."""
    made = model(launch())

    for rows, asked in ((47, 0), (48, 1), (49, 2), (60, 3), (50, 3)):
        made(np.zeros((rows, 8), np.float32))

        assert stub.count("cuFuncSetAttribute") == asked


def test_too_much_shared_memory_is_refused(stub: Stub) -> None:
    with pytest.raises(
        DeviceError,
        match=r"kernel `scaled` \(`k_0`\), 75x1x1 blocks of 128x1x1 threads, 307200 bytes "
        r"of shared memory: with 16 static bytes 307216; GPU 0 allows 232448",
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
    with pytest.raises(ValueError, match="unknown step `jump` of a launch plan"):
        Plan.from_fields({"programs": [], "steps": [["jump"]]})


def test_programs_use_one_workspace_in_turn() -> None:
    scratch = Pointer("scratch", 1, "4*s")
    small = Program(("s",), (10, 300), (launch(arguments=(scratch,)),))
    large = Program(("s",), ("4*s",), ())
    pointers = Pointer("input", 0), Pointer("output", 0)
    steps = (Call(0, 0, pointers, ("2*n",)), Call(1, 1, pointers, ("n",)))

    known = Plan((small, large), steps).at({"n": 200})

    assert known.workspace_bytes == 1024
    (started,), nothing = known.steps
    assert (known.dynamic, nothing) == ((0, 1), ())
    assert isinstance(started, BoundLaunch)
    assert isinstance(started.launch, Launch)
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
