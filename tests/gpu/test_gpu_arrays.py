"""GPU arrays with TVM's interface: writes, and stream ordering."""

import threading

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from relax_mlir import tvm
from relax_mlir.errors import OutOfMemoryError, RunError
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Event, device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.gpu_array import GPUArray
from relax_mlir.runtime.ndarray import shared
from relax_mlir.runtime.registry import get_global_func
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from tests.gpu.example import Dlpack, Interface, expected, inputs, shifted
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.gpu.test_kernel_modules import X, compiled
from tests.runtime.host.test_kernels import scale

# ruff: noqa: N803, N805, N806, RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false


@I.ir_module
class InPlace:
    """A PrimFunc that updates an argument in place, called from Python."""

    @T.prim_func
    def add(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("add"):
                vi = T.axis.spatial(n, i)
                A[vi] = A[vi] + B[vi]

    @R.function(pure=False)
    def main(
        x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = InPlace
        R.call_packed("test_gpu.nothing", x, sinfo_args=R.Tuple)
        z = R.call_tir_inplace(
            cls.add,
            (x, y),
            inplace_indices=[0],
            out_sinfo=[R.Tensor((n,), "float32")],
        )
        return z


@tvm.register_func("test_gpu.nothing", override=True)
def _nothing(array: tvm.nd.NDArray) -> None:
    pass


def on_gpu(array: np.ndarray) -> GPUArray:
    made = tvm.nd.array(array, tvm.cuda(0))
    assert isinstance(made, GPUArray)
    return made


def code_of_scale() -> CudaExecutable:
    code = compiled(scale).kernels["scale"].code
    assert isinstance(code, CudaExecutable)
    return code


# What is written is not lost.


def test_programs_of_the_cpu_write_to_no_copy(stub: Stub) -> None:
    kernel = tvm.compile(scale, target="llvm", cache=False)
    y = on_gpu(np.full((4, 3), -1, "float32"))

    for written in (y, y.data, Dlpack(y.data)):
        with pytest.raises(RunError, match=r"expected an array on the CPU.*cuda\(0\)"):
            kernel(X, 2.0, 1, written)

    np.testing.assert_array_equal(y.numpy(), -1)
    made = np.zeros((4, 3), "float32")
    kernel(on_gpu(X), 2.0, 1, made)  # what is only read may be anywhere
    np.testing.assert_array_equal(made, 2 * X + 1)


def test_machines_of_the_cpu_write_to_no_copy(stub: Stub) -> None:
    made = tvm.compile(InPlace, target="llvm", cache=False)
    machine = relax.VirtualMachine(made, tvm.cpu())
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")

    with pytest.raises(RunError, match="expected an array on the CPU"):
        machine["main"](on_gpu(x), on_gpu(y))

    np.testing.assert_array_equal(machine["main"](x, y).numpy(), [1, 2, 3, 4])


def test_what_is_written_over_is_no_hidden_copy(emulation: Emulation) -> None:
    made = tvm.compile(InPlace, target=TARGET, cache=False)
    machine = relax.VirtualMachine(made, tvm.cuda(0))
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    fit, unfit = DeviceArray.of(x, device(0)), shifted(x)

    machine["main"](Dlpack(fit), y)
    with pytest.raises(RunError, match=r"argument 0 `A`: .* got a copy of one that"):
        machine["main"](Dlpack(unfit), y)

    np.testing.assert_array_equal(fit.numpy(), x + 1)
    np.testing.assert_array_equal(unfit.numpy(), x)
    kernel = tvm.compile(scale, target=TARGET, cache=False)
    with pytest.raises(RunError, match=r"16 bytes, got one of .* at address 0x.*4 of"):
        kernel(X, 1.0, 0, Dlpack(shifted(X)))


def test_programs_run_where_their_machine_does(
    emulation: Emulation, stub: Stub
) -> None:
    stub.device(count=2)
    made = tvm.compile(InPlace, target=TARGET, cache=False)
    x, y = (tvm.nd.array(np.arange(4, dtype="float32"), tvm.cuda(1)) for _ in range(2))

    z = relax.VirtualMachine(made, tvm.cuda(1))["main"](x, y)

    assert z.device == tvm.cuda(1)
    np.testing.assert_array_equal(x.numpy(), [0, 2, 4, 6])


def test_a_copy_of_an_array_of_others_is_read_only(stub: Stub) -> None:
    array = tvm.nd.from_dlpack(Dlpack(shifted(X)))

    np.testing.assert_array_equal(array.numpy(), X)
    with pytest.raises(ValueError, match="expected an array to write to, got a copy"):
        array[0] = 1
    with pytest.raises(ValueError, match="expected an array to write to, got a copy"):
        array.copyfrom(on_gpu(X))
    with pytest.raises(BufferError, match="got a copy"):
        array.__dlpack__()
    assert isinstance(array, GPUArray)
    assert array.__cuda_array_interface__["data"] == (array.data.address, True)


def test_tvm_ffi_functions_get_arrays_where_they_are(stub: Stub) -> None:
    given: list[tvm_ffi.Tensor] = []

    def note(tensor: tvm_ffi.Tensor) -> tvm_ffi.Tensor:
        given.append(tensor)
        return tensor

    tvm.register_func("test_gpu.note", tvm_ffi.convert(note), override=True)
    array = on_gpu(X)

    result = get_global_func("test_gpu.note")(array)

    assert given.pop().__dlpack_device__() == (2, 0)  # the function is there to stay
    assert isinstance(result, GPUArray)
    assert result.data.address == array.data.address
    # Those of the native runtime read on the host.
    places = get_global_func("relax_mlir.nonzero")(on_gpu(np.array([0.0, 2.0])))
    assert places.device == tvm.cpu()
    np.testing.assert_array_equal(places.numpy(), [[1]])


def test_what_a_program_writes_is_on_the_gpu(emulation: Emulation) -> None:
    code = code_of_scale()
    given = (X, np.float32(2), np.int32(1))

    for y in (np.zeros((4, 3), "float32"), shifted(X)):
        with pytest.raises(ValueError, match="argument 3 `y`: expected a writable"):
            code(*given, y, stay=True, written=(3,))
    array = on_gpu(X)
    code(*given, array, stay=True, written=(3,))

    np.testing.assert_array_equal(array.numpy(), 2 * X + 1)


# Calls on other streams are waited for.


def test_outputs_on_a_stream_are_waited_for(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    stream = device(0).make("cuStreamCreate", "test")
    out = on_gpu(np.full((4, 8), -1, "float32"))

    (result,) = model(on_gpu(x), on_gpu(w), out=[out], stream=stream)

    assert result is out
    np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-5)


def test_inputs_on_a_stream_are_not_written_to_early(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    stream = device(0).make("cuStreamCreate", "test")
    given, out = on_gpu(x), on_gpu(np.zeros((4, 8), "float32"))

    model(given, on_gpu(w), out=[out], stream=stream)
    given[:] = 0

    np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-5)


def test_arrays_that_a_program_reads_or_writes_are_waited_for(
    model: CudaExecutable, stub: Stub
) -> None:
    x, w = inputs(4)
    stream = device(0).make("cuStreamCreate", "test")
    given, out = DeviceArray.of(x, device(0)), on_gpu(np.zeros((4, 8), "float32"))

    model(given, w, out=[out], stream=stream)
    given.write(np.zeros_like(x))  # overwrites what kernels are to read

    np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-5)


def test_written_inputs_are_waited_for(emulation: Emulation, stub: Stub) -> None:
    code = code_of_scale()
    streams = [device(0).make("cuStreamCreate", "test") for _ in range(2)]
    array, made, number = on_gpu(X), on_gpu(X), np.int32(1)

    code(X, np.float32(3), number, array, stay=True, written=(3,), stream=streams[0])
    other = code.on(0)
    other(
        array, np.float32(2), number, made, stay=True, written=(3,), stream=streams[1]
    )
    stub.run(streams[1])

    np.testing.assert_array_equal(made.numpy(), 2 * (3 * X + 1) + 1)


def test_readers_are_waited_for(emulation: Emulation, stub: Stub) -> None:
    code = code_of_scale()
    streams = [device(0).make("cuStreamCreate", "test") for _ in range(2)]
    array, made = on_gpu(X), on_gpu(X)
    number = np.int32(1)

    code(X, np.float32(3), number, array, stay=True, written=(3,), stream=streams[0])
    # Another model reads it on a stream of its own, a third call writes it again.
    other = code.on(0)
    other(
        array, np.float32(2), number, made, stay=True, written=(3,), stream=streams[1]
    )
    code(X, np.float32(0), number, array, stay=True, written=(3,), stream=streams[0])
    stub.run(streams[0])

    np.testing.assert_array_equal(made.numpy(), 2 * (3 * X + 1) + 1)
    np.testing.assert_array_equal(array.numpy(), np.ones_like(X))


def test_uses_of_models_that_are_gone_are_forgotten(model: CudaExecutable) -> None:
    x, w = inputs(4)
    given = DeviceArray.of(x, device(0))

    for _ in range(5):
        (y,) = model.on(0)(given, w)
        y.numpy()

    assert len(given._uses) == 1


def test_models_in_threads_may_share_an_input(stub: Stub) -> None:
    array = DeviceArray.of(X, device(0))
    events = 4000
    with device(0).current():
        made = [Event(device(0), 0) for _ in range(64)]
    errors: list[BaseException] = []

    def note(first: int) -> None:
        try:
            with device(0).current():
                for n in range(events):
                    array.note_use(first + n % 32, made[first + n % 32])
                    array.let_wait(0, is_written=True)
                    if n % 40 == 0:
                        array.note_use(first, made[first], is_written=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=note, args=(n,)) for n in (0, 32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not errors


# Copies, sizes, places.


def test_arrays_on_a_gpu_are_copied_there(stub: Stub) -> None:
    array = on_gpu(X)
    made = tvm.nd.empty((4, 3), "float32", tvm.cuda(0))
    up, down = (stub.count(f"cuMemcpy{way}Async_v2") for way in ("HtoD", "DtoH"))

    made.copyfrom(array)
    again = tvm.nd.array(array, tvm.cuda(0))

    assert stub.count("cuMemcpyHtoDAsync_v2") == up
    assert stub.count("cuMemcpyDtoHAsync_v2") == down
    array[:] = 0
    for copy in (made, again):
        np.testing.assert_array_equal(copy.numpy(), X)


def test_copies_wait_and_are_waited_for(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    stream = device(0).make("cuStreamCreate", "test")
    out, copy = (on_gpu(np.zeros((4, 8), "float32")) for _ in range(2))

    model(on_gpu(x), on_gpu(w), out=[out], stream=stream)
    copy.copyfrom(out)
    out[:] = 0

    np.testing.assert_allclose(copy.numpy(), expected(x, w), rtol=1e-5)


def test_copies_are_not_made_early(model: CudaExecutable, stub: Stub) -> None:
    x, w = inputs(4)
    stream = device(0).make("cuStreamCreate", "test")
    given, out = on_gpu(x), on_gpu(np.zeros((4, 8), "float32"))

    model(given, on_gpu(w), out=[out], stream=stream)
    given.copyfrom(on_gpu(np.zeros_like(x)))  # overwrites what kernels are to read
    assert not given.numpy().any()

    np.testing.assert_allclose(out.numpy(), expected(x, w), rtol=1e-5)


def test_arrays_of_others_are_read_through_copies(stub: Stub) -> None:
    theirs = DeviceArray.of(X, device(0))
    array = on_gpu(np.zeros((4, 3), "float32"))

    for source in (theirs, Dlpack(theirs), Dlpack(shifted(X))):
        np.testing.assert_array_equal(tvm.nd.array(source).numpy(), X)
        np.testing.assert_array_equal(tvm.nd.array(source, tvm.cuda(0)).numpy(), X)
        array.copyfrom(source)
        np.testing.assert_array_equal(array.numpy(), X)
        array[:] = 0
        array[1:3] = tvm.nd.array(X)[1:3]
        array[...] = source
        np.testing.assert_array_equal(array.numpy(), X)


def test_devices_go_by_their_names(stub: Stub) -> None:
    stub.device(count=2)

    assert tvm.nd.array(X, "cuda").device == tvm.cuda(0)
    assert tvm.nd.empty((2,), device="cuda:1").device == tvm.cuda(1)
    with pytest.raises(ValueError, match=r"unknown device `cada`.*`cuda`"):
        tvm.nd.array(X, "cada")


@pytest.mark.parametrize(
    ("shape", "size_bytes"),
    [((2**32, 2**32), 2**64), ((2**32 + 1, 2**32), 2**64 + 2**32)],
)
def test_sizes_beyond_all_numbers(
    stub: Stub, shape: tuple[int, ...], size_bytes: int
) -> None:
    with pytest.raises(OutOfMemoryError, match=f"out of memory for {size_bytes} bytes"):
        tvm.nd.empty(shape, "uint8", tvm.cuda(0))


def test_negative_sizes(stub: Stub) -> None:
    with pytest.raises(ValueError, match=r"expected sizes of at least 0, got \(-3,\)"):
        tvm.nd.empty((-3,), "float32", tvm.cuda(0))


# Arrays of which only the array interface is known.


def test_arrays_with_the_array_interface(emulation: Emulation, stub: Stub) -> None:
    kernel = tvm.compile(scale, target=TARGET, cache=False)
    given, made = DeviceArray.of(X, device(0)), DeviceArray.of(X - X, device(0))

    kernel(Interface.of(given), 2.0, 1, Interface.of(made))
    np.testing.assert_array_equal(made.numpy(), 2 * X + 1)
    with pytest.raises(RunError, match="argument 3 `y`: expected memory of its own"):
        kernel(Interface.of(given), 2.0, 1, given)

    machine = relax.VirtualMachine(
        tvm.compile(InPlace, target=TARGET, cache=False), tvm.cuda(0)
    )
    x = DeviceArray.of(X[:, 0].copy(), device(0))
    machine["main"](Interface.of(x), X[:, 1].copy())
    np.testing.assert_array_equal(x.numpy(), X[:, 0] + X[:, 1])
    fixed = Interface(x, data=(x.address, True))
    with pytest.raises(RunError, match="argument 0 `A`"):
        machine["main"](fixed, X[:, 1].copy())


def test_the_array_interface_does_not_say_which_gpu(stub: Stub) -> None:
    stub.device(count=2)
    stub.pointer_device(1)
    theirs = DeviceArray.of(X, device(1))

    array = shared(Interface.of(theirs))

    assert array.device == tvm.cuda(1)
    np.testing.assert_array_equal(array.numpy(), X)
    nothing = Interface.of(DeviceArray.of(X[:0], device(1)))
    assert shared(nothing).shape == (0, 3)


# Element types that only ml_dtypes has.


@T.prim_func
def doubled(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
    for i in range(8):
        with T.block("doubled"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + A[vi]


def test_programs_take_narrow_floats(emulation: Emulation) -> None:
    kernel = tvm.compile(doubled, target=TARGET, cache=False)
    x = np.arange(8).astype(ml_dtypes.bfloat16)
    x.flags.writeable = False
    y = np.zeros(8, ml_dtypes.bfloat16)

    for given in (x, tvm.nd.array(x), on_gpu(x)):
        kernel(given, y)
        np.testing.assert_array_equal(y, np.add(x, x))
        y[:] = 0


def test_machines_take_narrow_floats(emulation: Emulation) -> None:
    @I.ir_module
    class Doubled:
        @R.function
        def main(x: R.Tensor((4,), "bfloat16")) -> R.Tensor((4,), "bfloat16"):
            y = R.add(x, x)
            return y

    made = tvm.compile(Doubled, target=TARGET, cache=False)
    machine = relax.VirtualMachine(made, tvm.cuda(0))
    x = np.arange(4).astype(ml_dtypes.bfloat16)

    for given in (x, tvm.nd.array(x), on_gpu(x)):
        np.testing.assert_array_equal(machine["main"](given).numpy(), np.add(x, x))
