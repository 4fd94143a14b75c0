"""The native runtime of compiled programs: arguments, threads, packed functions."""

import gc
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from mlir import ir

from relax_mlir.codegen import object_code
from relax_mlir.runtime import cpu
from relax_mlir.runtime.machine_code import load_code

# main: y[i] = exp(x[i]) for i < sizes[0], in tiles of 16 on the pool. shapes: a size
# derived from the symbol, which nothing but the arena uses.
EXP = """
llvm.func @relax_rt2_parallel_for(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64)
llvm.func @expf(f32) -> f32
llvm.func internal @kernel(
    %buffers: !llvm.ptr, %sizes: !llvm.ptr, %scratch: !llvm.ptr, %begin: i64, %end: i64) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %x = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %y = llvm.load %second : !llvm.ptr -> !llvm.ptr
  llvm.br ^head(%begin : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %end : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %value = llvm.load %from : !llvm.ptr -> f32
  %result = llvm.call @expf(%value) : (f32) -> f32
  llvm.store %result, %scratch : f32, !llvm.ptr
  %kept = llvm.load %scratch : !llvm.ptr -> f32
  %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  llvm.store %kept, %to : f32, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}
llvm.func @main(
    %buffers: !llvm.ptr, %sizes: !llvm.ptr, %arena: !llvm.ptr, %context: !llvm.ptr) -> i32 {
  %kernel = llvm.mlir.addressof @kernel : !llvm.ptr
  %tiles = llvm.load %sizes : !llvm.ptr -> i64
  %grain = llvm.mlir.constant(16 : i64) : i64
  %scratch = llvm.mlir.constant(4 : i64) : i64
  llvm.call @relax_rt2_parallel_for(
      %context, %kernel, %buffers, %sizes, %tiles, %grain, %scratch)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64) -> ()
  %ok = llvm.mlir.constant(0 : i32) : i32
  llvm.return %ok : i32
}
llvm.func @main_shapes(%sizes: !llvm.ptr) {
  %n = llvm.load %sizes : !llvm.ptr -> i64
  %slot = llvm.getelementptr %sizes[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %item = llvm.mlir.constant(4 : i64) : i64
  %bytes = llvm.mul %n, %item : i64
  llvm.store %bytes, %slot : i64, !llvm.ptr
  llvm.return
}
"""

# main: the status of the packed function `test_native.callee`, called with no tensors.
CALL_PACKED = """
llvm.mlir.global internal constant @name("test_native.callee\\00")
llvm.func @relax_rt2_call_packed(!llvm.ptr, i32, !llvm.ptr) -> i32
llvm.func @main(
    %buffers: !llvm.ptr, %sizes: !llvm.ptr, %arena: !llvm.ptr, %context: !llvm.ptr) -> i32 {
  %name = llvm.mlir.addressof @name : !llvm.ptr
  %none = llvm.mlir.constant(0 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %status = llvm.call @relax_rt2_call_packed(%name, %none, %null)
    : (!llvm.ptr, i32, !llvm.ptr) -> i32
  llvm.return %status : i32
}
"""

# main: adds 1 to the constant and waits until it is 2; gives up after some seconds.
MEET = """
llvm.func @main(
    %buffers: !llvm.ptr, %sizes: !llvm.ptr, %arena: !llvm.ptr, %context: !llvm.ptr) -> i32 {
  %counter = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %two = llvm.mlir.constant(2 : i64) : i64
  %patience = llvm.mlir.constant(4000000000 : i64) : i64
  %before = llvm.atomicrmw add %counter, %one seq_cst : !llvm.ptr, i64
  llvm.br ^head(%zero : i64)
^head(%turn: i64):
  %now = llvm.load volatile %counter : !llvm.ptr -> i64
  %met = llvm.icmp "sge" %now, %two : i64
  llvm.cond_br %met, ^done, ^wait
^wait:
  %next = llvm.add %turn, %one : i64
  %patient = llvm.icmp "slt" %next, %patience : i64
  llvm.cond_br %patient, ^head(%next : i64), ^alone
^done:
  %ok = llvm.mlir.constant(0 : i32) : i32
  llvm.return %ok : i32
^alone:
  %failed = llvm.mlir.constant(1 : i32) : i32
  llvm.return %failed : i32
}
"""

N = (cpu.SYMBOL, 0)


# The same, and each thread asks for more scratch than there are addresses.
VAST_EXP = EXP.replace(
    "%scratch = llvm.mlir.constant(4 : i64)",
    f"%scratch = llvm.mlir.constant({1 << 60} : i64)",
)


def load(source: str, *symbols: str) -> tuple[object, Mapping[str, int]]:
    triple, processor, features = object_code.host_cpu()
    with ir.Context(), ir.Location.unknown():
        data = object_code.compile_object(
            ir.Module.parse(source), triple=triple, cpu=processor, features=features
        )
    return load_code(object_code.machine_code([data], symbols), symbols)


def make_exp(threads: int = 1, source: str = EXP) -> tvm_ffi.Function:
    library, address = load(source, "main", "main_shapes")
    return cpu.make_executable(
        address["main"],
        address["main_shapes"],
        "main",
        [("x", "float32", N)],
        [("y", "float32", N)],
        ["n", "8*n"],
        [0, 0, 1, 0],
        [],
        (cpu.DERIVED, 1),
        [],
        threads,
        library,
    )


def make_plain(source: str, constants: Sequence[int] = ()) -> tvm_ffi.Function:
    """A program without inputs and outputs."""
    library, address = load(source, "main")
    where = (address["main"], 0, "main")
    return cpu.make_executable(
        *where, [], [], [], [], [], (cpu.STATIC, 0), constants, 1, library
    )


@pytest.fixture(scope="module")
def exp() -> tvm_ffi.Function:
    return make_exp()


@pytest.mark.parametrize("n", [0, 1, 16, 17, 1000])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_compiled_program_runs_on_any_number_of_threads(n: int, threads: int) -> None:
    x = np.linspace(-2, 2, n, dtype=np.float32)

    (y,) = make_exp(threads)(x)

    # expf of libm is within 1 ulp.
    np.testing.assert_allclose(np.from_dlpack(y), np.exp(x), rtol=2e-7)


@pytest.mark.parametrize("threads", [1, 2])
def test_kernel_without_memory_for_its_scratch_is_an_error(threads: int) -> None:
    x = np.zeros(1000, np.float32)

    with pytest.raises(
        MemoryError, match="`main`: out of memory for the scratch of a kernel"
    ):
        make_exp(threads, VAST_EXP)(x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::-1],
        lambda x: x[::3],
        lambda x: np.broadcast_to(x[:1], 7),
        lambda x: (
            np.concatenate([[0], x.view(np.uint8)]).astype(np.uint8)[1:].view("f4")
        ),
    ],
    ids=["backwards", "strided", "broadcast", "misaligned"],
)
def test_input_of_any_layout(
    exp: tvm_ffi.Function, view: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = view(np.arange(30, dtype=np.float32) / 10)

    (y,) = exp(cpu.tensor_of(x))  # takes a read-only array too

    np.testing.assert_allclose(np.from_dlpack(y), np.exp(x), rtol=2e-7)


def test_given_output_is_written_and_returned(exp: tvm_ffi.Function) -> None:
    x = np.arange(4, dtype=np.float32)
    buffer = np.zeros(8, np.float32)

    (y,) = exp(x, buffer[::2])

    np.testing.assert_allclose(buffer[::2], np.exp(x), rtol=2e-7)
    np.testing.assert_array_equal(buffer[1::2], np.zeros(4))
    assert np.shares_memory(np.from_dlpack(y), buffer)


def test_output_may_be_the_input(exp: tvm_ffi.Function) -> None:
    x = np.arange(20, dtype=np.float32)
    expected = np.exp(x[:-1])

    exp(x[:-1], x[1:])

    np.testing.assert_allclose(x[1:], expected, rtol=2e-7)


def test_errors_are_python_exceptions(exp: tvm_ffi.Function) -> None:
    x = np.zeros(4, np.float32)

    with pytest.raises(
        TypeError, match=r"`main`: argument 0 `x`: .* float32, got float64"
    ):
        exp(x.astype(np.float64))
    with pytest.raises(
        TypeError, match=r"argument 0 `x`: expected a tensor, got ffi\.Str"
    ):
        exp("a text that is longer than fits in place")
    with pytest.raises(ValueError, match=r"argument 0 `x`: expected rank 1, got 2"):
        exp(x.reshape(2, 2))
    with pytest.raises(
        ValueError,
        match=r"output 0 `y`: dimension 0 \(`n`\): expected 4 "
        r"\(bound by argument `x` dimension 0\), got 3",
    ):
        exp(x, x[:3])
    with pytest.raises(
        TypeError, match="expected 1 arguments, or 2 with outputs, got 3"
    ):
        exp(x, x, x)


def test_outputs_outlive_the_function() -> None:
    exp = make_exp()
    (y,) = exp(np.zeros(100, np.float32))
    del exp
    gc.collect()

    np.testing.assert_array_equal(np.from_dlpack(y), np.ones(100))


def test_owner_lives_as_long_as_the_function() -> None:
    class Owner:
        pass

    library, address = load(CALL_PACKED, "main")
    owner = Owner()
    alive = weakref.ref(owner)
    main = cpu.make_executable(
        address["main"],
        0,
        "main",
        [],
        [],
        [],
        [],
        [],
        (cpu.STATIC, 0),
        [],
        1,
        [library, owner],
    )
    del owner
    gc.collect()
    assert alive() is not None

    del main
    gc.collect()
    assert alive() is None


def test_two_threads_run_at_once() -> None:
    """Each call waits, in compiled code, for the other: the GIL must be free."""
    counter = np.zeros(1, np.int64)
    meet = make_plain(MEET, [counter.ctypes.data])

    threads = [threading.Thread(target=meet, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert counter[0] == 2
    assert not any(thread.is_alive() for thread in threads)


def test_packed_call_reaches_the_python_function_of_the_moment() -> None:
    main = make_plain(CALL_PACKED)
    calls: list[str] = []

    tvm_ffi.register_global_func(
        "test_native.callee", lambda: calls.append("first"), override=True
    )
    main()
    tvm_ffi.register_global_func(
        "test_native.callee", lambda: calls.append("second"), override=True
    )
    main()

    assert calls == ["first", "second"]


def test_exception_of_a_packed_function_comes_back() -> None:
    def fail() -> None:
        raise KeyError("no such weight")

    tvm_ffi.register_global_func("test_native.callee", fail, override=True)
    main = make_plain(CALL_PACKED)

    with pytest.raises(KeyError, match="no such weight"):
        main()
    tvm_ffi.registry.remove_global_func("test_native.callee")
    with pytest.raises(ValueError, match=r"`test_native\.callee`: no such function"):
        main()


NUMPY_TYPES = (
    ["bool", "float16", "float32", "float64"]
    + [f"int{bits}" for bits in (8, 16, 32, 64)]
    + [f"uint{bits}" for bits in (8, 16, 32, 64)]
)
NARROW_TYPES = [
    "bfloat16",
    "float4_e2m1fn",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "int2",
    "int4",
    "uint2",
    "uint4",
]


def some_values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values with ties, both zeros and NaN, as far as the type has them."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    random = np.random.default_rng(0)
    x = random.integers(0, 4, shape).astype(dtype)
    if name in ("bool", "uint2") or dtype.itemsize == 0:
        return x
    specials = (
        [0.0, -0.0, np.nan, np.inf, -1.5, 1e-3] if is_float(name) else [-1, -2, 3]
    )
    if name.startswith("uint"):
        specials = [1, 3]
    with np.errstate(all="ignore"):
        values = np.array(specials).astype(dtype)
    places = random.random(shape) < 0.6
    return np.where(places, random.choice(values, shape), x).astype(dtype)


def is_float(name: str) -> bool:
    return "float" in name


def order_of(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Stable order in which NaN is the greatest value; float64 holds every type here."""
    is_wide = x.dtype.kind in "iu" and x.dtype.itemsize == 8
    keys = x if is_wide else x.astype(np.float64)
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable")  # numpy puts NaN last
    # Backwards twice: descending, and equal values in their order.
    flipped = np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - flipped


def bits_of(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


@pytest.mark.parametrize("name", NUMPY_TYPES + NARROW_TYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_argsort_and_topk_of_every_type(name: str, descending: bool) -> None:
    x = some_values(name, (3, 9, 2))
    order = order_of(x, 1, descending)
    sorted_x = np.take_along_axis(x, order, axis=1)
    values, top = np.empty_like(x), np.empty_like(x[:, :4])
    indices = np.empty(x.shape, np.int64)
    places = np.empty(top.shape, np.int64)

    tensor = cpu.tensor_of(x)
    call("sort", tensor, 1, descending, cpu.tensor_of(values))
    call("argsort", tensor, -2, descending, indices)
    call("topk", tensor, 1, descending, cpu.tensor_of(top), places)

    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(bits_of(values), bits_of(sorted_x))
    np.testing.assert_array_equal(places, order[:, :4])
    np.testing.assert_array_equal(bits_of(top), bits_of(sorted_x[:, :4]))


@pytest.mark.parametrize(
    "name", [*NUMPY_TYPES, *NARROW_TYPES, "complex64", "complex128"]
)
def test_nonzero_of_every_type(name: str) -> None:
    if name.startswith("complex"):
        x = np.array([[0, 1j, -0.0], [1, 0, complex(np.nan, 0)]], name)
    else:
        x = some_values(name, (3, 4))

    found = call("nonzero", cpu.tensor_of(x.T))

    with np.errstate(invalid="ignore"):
        expected = np.array(np.nonzero(x.T.astype(complex)))
    np.testing.assert_array_equal(np.from_dlpack(found), expected)


def test_sort_of_64_bit_extremes() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = np.array([high, 0, low, -1, high - 1])
    values = np.empty_like(x)

    call("sort", x, 0, False, values)

    np.testing.assert_array_equal(values, np.sort(x))


def test_arrays_of_all_types_go_in_and_out_without_a_copy() -> None:
    for name in [*NUMPY_TYPES, *NARROW_TYPES, "complex64"]:
        x = some_values(name, (3, 4)) if name != "complex64" else np.ones((3, 4), name)
        x.flags.writeable = False
        for view in (x, x.T, x[:, ::-2]):
            back = cpu.array_of(cpu.tensor_of(view))
            assert back.dtype == x.dtype
            assert back.shape == view.shape
            assert np.shares_memory(back, x)
            np.testing.assert_array_equal(bits_of(back.copy()), bits_of(view.copy()))


def test_array_of_uneven_strides_is_copied() -> None:
    record = np.zeros(3, [("a", "i1"), ("b", "f4")])
    record["b"] = [1, 2, 3]

    back = cpu.array_of(cpu.tensor_of(record["b"]))

    np.testing.assert_array_equal(back, [1, 2, 3])


def test_missing_library_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cpu, "__file__", str(tmp_path / "cpu.py"))
    load_library = cpu.load_library.__wrapped__  # without its cache

    with pytest.raises(
        ImportError, match=r"is not built\. Run `pip install -e packaging/runtime`"
    ):
        load_library()
    (tmp_path / "librelax_mlir_rt.so").write_text("no library")
    with pytest.raises(ImportError, match="Build it again"):
        load_library()


def test_cpu_count_is_within_the_affinity() -> None:
    assert 1 <= cpu.cpu_count() <= len(os.sched_getaffinity(0))


def call(name: str, *args: object) -> tvm_ffi.Tensor:
    cpu.load_library()
    return tvm_ffi.get_global_func(f"relax_mlir.{name}")(*args)
