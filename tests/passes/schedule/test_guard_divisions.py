"""Divisions that no choice of their program guards trap neither in elements nor in lanes."""

import numpy as np
import pytest

from relax_mlir import IRModule, compile

_SIGNED = ("divsi", "remsi", "floordivsi", "ceildivsi")
_UNSIGNED = ("divui", "remui", "ceildivui")
_KERNEL = """
func.func private @kernel(%a: memref<{a}xi32>, %b: memref<{b}xi32>, %c: memref<{shape}xi32>)
    attributes {{tir.num_outputs = 1 : i64, tir.prim_func}} {{
  "tir.block"() ({{
  }}, {{
  ^bb0(%i: index, %j: index):
    %zero = arith.constant 0 : i32
    %five = arith.constant 5 : i32
    %divisor = memref.load %b[{at_b}] : memref<{b}xi32>
    %x = memref.load %a[{at_a}] : memref<{a}xi32>
    {body}
    memref.store %y, %c[%i, %j] : memref<{shape}xi32>
    gpu.yield
  }}) {{kinds = "SS", name = "divide", operandSegmentSizes = array<i32: 0, 0>,
       static_extents = array<i64: {sizes}>}} : () -> ()
  return
}}
func.func @main(%a: tensor<{a}xi32>, %b: tensor<{b}xi32>) -> tensor<{shape}xi32> {{
  %0 = builtin.unrealized_conversion_cast %a, %b
    : tensor<{a}xi32>, tensor<{b}xi32> to tuple<tensor<{a}xi32>, tensor<{b}xi32>>
  %1 = "relax.call_tir"(%0) {{callee = @kernel, relax.dataflow = -1 : i64,
    sizes = #relax.shape<[]>}}
    : (tuple<tensor<{a}xi32>, tensor<{b}xi32>>) -> tensor<{shape}xi32>
  return %1 : tensor<{shape}xi32>
}}
"""
_PLAIN = """
    %y = arith.{name} %x, %divisor : i32"""
_GUARDED = """
    %divides = arith.cmpi ne, %divisor, %zero : i32
    %y = scf.if %divides -> (i32) {{
      %q = arith.{name} %x, %divisor : i32
      scf.yield %q : i32
    }} else {{
      scf.yield %five : i32
    }}"""
# Both numbers of a division are the same in all lanes, and none may want it.
_UNIFORM = """
    %divides = arith.cmpi ne, %divisor, %zero : i32
    %wants = arith.cmpi sgt, %x, %zero : i32
    %both = arith.andi %divides, %wants : i1
    %y = scf.if %both -> (i32) {{
      %q = arith.{name} %five, %divisor : i32
      scf.yield %q : i32
    }} else {{
      scf.yield %zero : i32
    }}"""


def divided(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a`` by ``b`` as an operation of arith divides, where ``b`` is not 0."""
    if name in _UNSIGNED:
        a, b = (v.view(np.uint32) for v in (a, b))
    a, b = (v.astype(object) for v in (a, b))
    if name.startswith("rem"):
        result = abs(a) % abs(b) * np.where(a < 0, -1, 1)
    elif name.startswith("ceil"):
        result = -(-a // b)
    elif name.startswith("floor") or name in _UNSIGNED:
        result = a // b
    else:
        result = abs(a) // abs(b) * np.where((a < 0) ^ (b < 0), -1, 1)
    wrapped = [int(n) & 0xFFFFFFFF for n in result.flat]
    return np.array(wrapped, np.uint32).view(np.int32).reshape(result.shape)


def run(
    body: str,
    name: str,
    a: np.ndarray,
    b: np.ndarray,
    shape: tuple[int, int],
    **at: str,
) -> np.ndarray:
    sizes = {
        key: "x".join(map(str, v))
        for key, v in (("a", a.shape), ("b", b.shape), ("shape", shape))
    }
    at = {"at_a": "%i, %j", "at_b": "%i, %j"} | at
    text = _KERNEL.replace("{body}", body).format(
        name=name, sizes=", ".join(map(str, shape)), **sizes, **at
    )
    (c,) = compile(IRModule.parse(text), cache=False)(a, b)
    return np.asarray(c)


@pytest.fixture(params=[(1, 7), (3, 21), (5, 64)], ids=str)
def numbers(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    a = rng.integers(-(2**31), 2**31, request.param).astype(np.int32)
    b = rng.integers(1, 50, request.param).astype(np.int32)
    b *= rng.choice(np.array([-1, 1], np.int32), request.param)
    return a, b


@pytest.mark.parametrize("name", [*_SIGNED, *_UNSIGNED])
def test_lanes_past_the_end_divide_nothing(
    name: str, numbers: tuple[np.ndarray, np.ndarray]
) -> None:
    a, b = numbers
    expected = divided(name, a, b)
    np.testing.assert_array_equal(run(_PLAIN, name, a, b, a.shape), expected)


@pytest.mark.parametrize("name", [*_SIGNED, *_UNSIGNED])
def test_lanes_that_take_the_other_branch_divide_nothing(
    name: str, numbers: tuple[np.ndarray, np.ndarray]
) -> None:
    a, b = numbers
    b = np.where(a % 3 == 0, 0, b)
    expected = np.where(b == 0, 5, divided(name, a, np.where(b == 0, 1, b)))
    np.testing.assert_array_equal(run(_GUARDED, name, a, b, a.shape), expected)


def test_a_divisor_of_all_lanes_that_no_lane_divides_by(
    numbers: tuple[np.ndarray, np.ndarray],
) -> None:
    a, b = numbers
    b = b[:, 0]
    b[::2] = 0
    wants = (b[:, None] != 0) & (a > 0)
    quotient = divided("divsi", np.full_like(b, 5), np.where(b == 0, 1, b))
    np.testing.assert_array_equal(
        run(_UNIFORM, "divsi", a, b, a.shape, at_b="%i"),
        np.where(wants, quotient[:, None], 0),
    )


@pytest.mark.parametrize("shape", [(7, 9), (19, 33)], ids=str)
def test_transposed_operands(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-1000, 1000, shape[::-1]).astype(np.int32)
    b = rng.integers(1, 50, shape).astype(np.int32)
    np.testing.assert_array_equal(
        run(_PLAIN, "divsi", a, b, shape, at_a="%j, %i"),
        divided("divsi", a.T, b),
    )


@pytest.mark.parametrize("name", [*_SIGNED, *_UNSIGNED])
def test_undefined_divisions_end_nothing(name: str) -> None:
    """Their results are open; those beside them are not."""
    a = np.array([[7, -(2**31), 9, -8, 6]], np.int32)
    b = np.array([[0, -1, 3, 5, 0]], np.int32)
    quotients = run(_PLAIN, name, a, b, a.shape)
    np.testing.assert_array_equal(
        quotients[:, 2:4], divided(name, a[:, 2:4], b[:, 2:4])
    )
