"""The emulator tells what a kernel must not do."""

import numpy as np
import pytest

from relax_mlir.emulator import EmulationError, emulate_kernel
from relax_mlir.module import IRModule

_KERNEL = """
#shared = #gpu.address_space<workgroup>
func.func @k(%x: memref<64xf32>, %y: memref<64xf32>) {{
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1)
             threads(%t, %ty, %tz) in (%nt = %c64, %nty = %c1, %ntz = %c1) {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %last = arith.constant 63 : index
    %half = arith.constant 32 : index
    %s = memref.alloc() : memref<64xf32, #shared>
    %v = memref.load %x[%t] : memref<64xf32>
    {body}
    gpu.terminator
  }}
  return
}}"""

_TURNED = """memref.store %v, %s[%t] : memref<64xf32, #shared>
    {barrier}
    %other = arith.subi %last, %t : index
    %w = memref.load %s[%other] : memref<64xf32, #shared>
    memref.store %w, %y[%t] : memref<64xf32>"""


def run(body: str) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(64, dtype=np.float32)
    y = np.zeros(64, np.float32)
    emulate_kernel(IRModule.parse(_KERNEL.format(body=body)), "k", [x, y])
    return x, y


def test_threads_meet_at_a_barrier() -> None:
    x, y = run(_TURNED.format(barrier="gpu.barrier"))
    np.testing.assert_array_equal(y, x[::-1])


def test_without_it_they_race() -> None:
    with pytest.raises(EmulationError, match=r"race: thread .* reads what another has"):
        run(_TURNED.format(barrier=""))


def test_what_is_read_may_not_be_overwritten() -> None:
    body = _TURNED.format(barrier="gpu.barrier")
    body += "\n memref.store %w, %s[%t] : memref<64xf32, #shared>"
    with pytest.raises(EmulationError, match="writes what another has just read"):
        run(body)


def test_two_threads_may_not_write_one_element() -> None:
    body = "memref.store %v, %s[%zero] : memref<64xf32, #shared>"
    with pytest.raises(EmulationError, match="writes what another writes"):
        run(body)
    with pytest.raises(EmulationError, match="two threads write element 0"):
        run("memref.store %v, %y[%zero] : memref<64xf32>")


def test_threads_of_a_launch_exchange_nothing_through_memory() -> None:
    body = """memref.store %v, %y[%t] : memref<64xf32>
    %other = arith.subi %last, %t : index
    %w = memref.load %y[%other] : memref<64xf32>
    memref.store %w, %s[%t] : memref<64xf32, #shared>"""
    with pytest.raises(EmulationError, match="which another one of the launch has"):
        run(body)


def test_all_threads_must_come_to_a_barrier() -> None:
    body = """%c = arith.cmpi ult, %t, %half : index
    scf.if %c { gpu.barrier }"""
    with pytest.raises(EmulationError, match="some threads of a block do not come"):
        run(body)


def test_a_buffer_has_an_end() -> None:
    body = """%n = arith.addi %t, %one : index
    memref.store %v, %y[%n] : memref<64xf32>"""
    with pytest.raises(EmulationError, match="thread 63: element 64 of a buffer of 64"):
        run(body)


def test_inactive_threads_may_be_anywhere() -> None:
    body = """%n = arith.addi %t, %half : index
    %c = arith.cmpi ule, %n, %last : index
    scf.if %c { memref.store %v, %y[%n] : memref<64xf32> }"""
    x, y = run(body)
    np.testing.assert_array_equal(y[32:], x[:32])


def test_shared_memory_begins_with_no_number() -> None:
    body = """%w = memref.load %s[%t] : memref<64xf32, #shared>
    memref.store %w, %y[%t] : memref<64xf32>"""
    assert np.isnan(run(body)[1]).all()


def test_a_shuffle_needs_its_partner() -> None:
    shuffle = """%d = arith.constant 1 : i32
    %w32 = arith.constant 32 : i32
    %w, %ok = gpu.shuffle xor %v, %d, %w32 : f32
    memref.store %w, %y[%t] : memref<64xf32>"""
    x, y = run(shuffle)
    np.testing.assert_array_equal(y, x.reshape(-1, 2)[:, ::-1].reshape(-1))
    alone = "%c = arith.cmpi eq, %t, %zero : index\n scf.if %c {" + shuffle + "}"
    with pytest.raises(EmulationError, match="a thread that does not take part"):
        run(alone)


def test_loops_end_for_each_thread_by_itself() -> None:
    body = """%start = arith.constant 0.0 : f32
    %sum = scf.for %i = %zero to %t step %one iter_args(%a = %start) -> (f32) {
      %w = memref.load %x[%i] : memref<64xf32>
      %next = arith.addf %a, %w : f32
      scf.yield %next : f32
    }
    memref.store %sum, %y[%t] : memref<64xf32>"""
    x, y = run(body)
    np.testing.assert_array_equal(y, np.cumsum(x) - x)


def test_an_unknown_operation_is_named() -> None:
    body = """%a = memref.atomic_rmw addf %v, %y[%t] : (f32, memref<64xf32>) -> f32"""
    with pytest.raises(
        EmulationError, match=r"atomic_rmw.*does not know this operation"
    ):
        run(body)


_DESCRIBED = """
func.func @k(%x: memref<{shape}xf16>) {{
  %cast = memref.cast %x : memref<{shape}xf16> to memref<*xf16>
  {box}
  %d = nvgpu.tma.create.descriptor %cast box[{names}] {{{attributes}}} : memref<*xf16>
    -> !nvgpu.tensormap.descriptor<tensor = memref<{tile}xf16, 3>, swizzle = swizzle_128b,
       l2promo = none, oob = {outside}, interleave = none>
  return
}}"""


def describe(
    shape: tuple[int, ...], box: tuple[int, ...], outside: str, attributes: str
) -> None:
    text = _DESCRIBED.format(
        shape="x".join(map(str, shape)),
        tile="x".join(map(str, box)),
        box="\n  ".join(
            f"%b{i} = arith.constant {n} : index" for i, n in enumerate(box)
        ),
        names=", ".join(f"%b{i}" for i in range(len(box))),
        outside=outside,
        attributes=attributes,
    )
    emulate_kernel(IRModule.parse(text), "k", [np.zeros(shape, np.float16)])


def test_tensors_are_described() -> None:
    describe((4, 64), (2, 64), "zero", "")
    describe((4, 4, 64), (1, 2, 64), "zero", "tir.steps = array<i64: 1, 2, 1>")


@pytest.mark.parametrize(
    ("shape", "box", "outside", "attributes", "reason"),
    [
        ((4, 60), (2, 64), "zero", "", "expected multiples of 16 bytes"),
        ((9, 64), (2, 64), "zero", "tir.steps = array<i64: 9, 1>", "expected 1 to 8"),
        ((999, 64), (200, 64), "zero", "tir.steps = array<i64: 2, 1>", "at most 256"),
        ((4, 64), (2, 64), "nan", "", "does not know"),
    ],
)
def test_what_the_driver_does_not_describe(
    shape: tuple[int, ...],
    box: tuple[int, ...],
    outside: str,
    attributes: str,
    reason: str,
) -> None:
    with pytest.raises(EmulationError, match=reason):
        describe(shape, box, outside, attributes)


_WARPGROUPS = """
func.func @k(%x: memref<256xf32>) {{
  %c1 = arith.constant 1 : index
  %c256 = arith.constant 256 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1)
             threads(%t, %ty, %tz) in (%nt = %c256, %nty = %c1, %ntz = %c1) {{
    %half = arith.constant 128 : index
    %barriers = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = 3>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %count = arith.constant 256 : i32
    %fewer = arith.constant 128 : i32
    %warp = arith.divui %t, %half : index
    %same = arith.index_cast %warp : index to i32
    %width = arith.constant 32 : i32
    %whole, %valid = gpu.shuffle idx %same, %zero, %width : i32
    %is_first = arith.cmpi eq, %whole, %zero : i32
    scf.if %is_first {{ {first} }} else {{ {second} }}
    gpu.terminator
  }}
  return
}}"""

_MEET = "nvvm.barrier id = %one number_of_threads = %count"
_COME = "nvvm.barrier.arrive id = %one number_of_threads = %count"


def meet(first: str, second: str) -> None:
    text = _WARPGROUPS.format(first=first, second=second)
    emulate_kernel(IRModule.parse(text), "k", [np.zeros(256, np.float32)])


def test_warpgroups_meet_at_a_barrier_by_number() -> None:
    meet(_COME, _MEET)
    meet(_MEET, _MEET)
    meet(f"{_MEET} {_MEET}", f"{_MEET} {_COME}")


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (_MEET, "", "deadlock"),
        (_COME, "", "a barrier that never opens"),
        (f"{_COME} {_COME}", "", "twice before it opens"),
        (_MEET.replace("%one", "%zero"), "", "barrier 0"),
        (_COME, _MEET.replace("%count", "%fewer"), "threads elsewhere"),
    ],
)
def test_barriers_by_number_open(first: str, second: str, reason: str) -> None:
    with pytest.raises(EmulationError, match=reason):
        meet(first, second)
