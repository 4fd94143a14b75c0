"""Compiled models call functions of the tvm-ffi registry, Python ones included."""

import numpy as np
import pytest
import tvm_ffi

import relax_mlir
from relax_mlir import IRModule

_MODULE = """
func.func @main(%x: tensor<?x3x{0}, #relax.shape<["n", "3"]>>) -> tensor<?x3x{0}, #relax.shape<["n", "3"]>> {{
  %0 = "relax.add"(%x, %x) : (tensor<?x3x{0}, #relax.shape<["n", "3"]>>, tensor<?x3x{0}, #relax.shape<["n", "3"]>>) -> tensor<?x3x{0}, #relax.shape<["n", "3"]>>
  %1 = builtin.unrealized_conversion_cast %0, %x : tensor<?x3x{0}, #relax.shape<["n", "3"]>>, tensor<?x3x{0}, #relax.shape<["n", "3"]>> to tuple<tensor<?x3x{0}, #relax.shape<["n", "3"]>>, tensor<?x3x{0}, #relax.shape<["n", "3"]>>>
  %2 = "relax.call_dps_packed"(%1) {{callee = "test_packed.join"}} : (tuple<tensor<?x3x{0}, #relax.shape<["n", "3"]>>, tensor<?x3x{0}, #relax.shape<["n", "3"]>>>) -> tensor<?x3x{0}, #relax.shape<["n", "3"]>>
  %3 = "relax.add"(%2, %x) : (tensor<?x3x{0}, #relax.shape<["n", "3"]>>, tensor<?x3x{0}, #relax.shape<["n", "3"]>>) -> tensor<?x3x{0}, #relax.shape<["n", "3"]>>
  return %3 : tensor<?x3x{0}, #relax.shape<["n", "3"]>>
}}
"""


def module(element: str = "f32") -> IRModule:
    return IRModule.parse(_MODULE.format(element))


@pytest.fixture
def calls() -> list[list[tuple[tuple[int, ...], str]]]:
    """Registers ``out = 10 * a + b``, and tells what it was given."""
    seen: list[list[tuple[tuple[int, ...], str]]] = []

    def join(a: tvm_ffi.Tensor, b: tvm_ffi.Tensor, out: tvm_ffi.Tensor) -> None:
        arrays: list[np.ndarray] = [np.from_dlpack(t) for t in (a, b, out)]
        seen.append([(x.shape, str(x.dtype)) for x in arrays])
        np.add(arrays[0] * 10, arrays[1], out=arrays[2])

    tvm_ffi.register_global_func("test_packed.join", join, override=True)
    return seen


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f32", "float32"), ("f64", "float64"), ("i8", "int8"), ("ui16", "uint16")],
)
def test_a_registered_function_is_called(
    element: str, dtype: str, calls: list[list[tuple[tuple[int, ...], str]]]
) -> None:
    exe = relax_mlir.compile(module(element), cache=False)
    x = np.arange(6).reshape(2, 3).astype(dtype)
    np.testing.assert_array_equal(exe(x)[0], 22 * x)
    assert calls == [[((2, 3), dtype)] * 3]


def test_it_is_called_from_every_level(calls: list[object]) -> None:
    x = np.ones((2, 3), np.float32)
    for level in ("relax", "tir", "planned", "linalg", "loops", "llvm"):
        lowered = relax_mlir.lower(module(), to=level)
        np.testing.assert_array_equal(relax_mlir.run(lowered, x)[0], 22 * x)
    assert len(calls) == 6


def test_its_exception_comes_out_of_the_call() -> None:
    def fail(*_: tvm_ffi.Tensor) -> None:
        raise KeyError("nothing there")

    tvm_ffi.register_global_func("test_packed.join", fail, override=True)
    exe = relax_mlir.compile(module(), cache=False)
    with pytest.raises(KeyError, match="nothing there"):
        exe(np.ones((2, 3), np.float32))


def test_an_unknown_function_is_an_error_of_the_call() -> None:
    text = _MODULE.format("f32").replace("test_packed.join", "test_packed.nobody")
    exe = relax_mlir.compile(IRModule.parse(text), cache=False)
    with pytest.raises(ValueError, match=r"`test_packed\.nobody`: no such function"):
        exe(np.ones((2, 3), np.float32))
