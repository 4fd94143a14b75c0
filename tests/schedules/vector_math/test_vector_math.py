"""Vector math functions: error bounds, special values, lane counts."""

import ctypes
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from mlir import ir

import relax_mlir
from relax_mlir.codegen import object_code
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.pipeline import opt
from relax_mlir.rewrite.patterns import replace
from relax_mlir.runtime.machine_code import load_code
from relax_mlir.schedules import vector_math

HOST = object_code.host_cpu()
AVX2 = ("x86_64-unknown-linux-gnu", "haswell", "")
NEON = ("aarch64-unknown-linux-gnu", "neoverse-n1", "")
TO_LLVM = (
    "schedule-expand-math,canonicalize,cse,convert-scf-to-cf,convert-math-to-llvm,"
    "convert-math-to-libm,convert-vector-to-llvm,finalize-memref-to-llvm,"
    "convert-arith-to-llvm,convert-index-to-llvm,convert-cf-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true},"
    "reconcile-unrealized-casts"
)
CHUNK = 4096  # elements a compiled function works on
INF, NAN = math.inf, math.nan
POWER = ("f32", "f32", "f32")

# Error bounds of docs/vector-maths.md in units in the last place, over all floats.
BOUNDS_ULP = {
    "acos": 1.12,
    "acosh": 2.03,
    "asin": 1.36,
    "asinh": 1.88,
    "atan": 1.36,
    "atanh": 1.75,
    "cos": 1.67,
    "cosh": 1.4,
    "erf": 1.36,
    "exp": 0.91,
    "exp2": 0.92,
    "expm1": 1.33,
    "gelu": 1.95,
    "gelu_tanh": 1.94,
    "log": 0.94,
    "log10": 0.95,
    "log1p": 1.5,
    "log2": 0.99,
    "rsqrt": 1.5,
    "sigmoid": 1.72,
    "silu": 1.8,
    "sin": 1.54,
    "sinh": 1.7,
    "tan": 1.45,
    "tanh": 1.95,
}
# Each is one function, however its operation is written.
ACTIVATIONS = {
    "gelu": vector_math.gelu,
    "gelu_tanh": vector_math.gelu_tanh,
    "sigmoid": vector_math.sigmoid,
    "silu": vector_math.silu,
}
# Breakpoints of polynomials, rounding and clamping; their neighbourhoods are swept.
HARD_PLACES = (
    *(0.0, 0.5, 1.0, 2.0, 2.0**-12, 2.0**17, 2.0**20, 2.0**24, 2.0**30, 2.0**-126),
    *(88.72284, 88.37, 87.33655, 103.97208, 128.0, 149.0, 18.0, 17.32868, 9.01),
    *(0.78125, 0.85, 0.5625, 14.3, 6.0, 10.1, 13.1, 4.0, 0.34657359, 0.7071068),
    *(n * math.log(2) / 2 for n in range(1, 256, 2)),
    *(n * math.pi / 2 for n in (*range(1, 300), 2**12, 2**16, 2**18, 2**22, 2**23)),
)


def _gelu(x: np.ndarray) -> np.ndarray:
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return x / 2 * erfc(-x * math.sqrt(0.5))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + np.exp(-2 * inner))


IN_DOUBLE: dict[str, Callable[..., np.ndarray]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "powf": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def loop(operation: str, types: Sequence[str], lanes: int) -> str:
    """A function that maps an operation over arrays; the last type is that of the result."""

    def shaped(type_: str) -> str:
        return f"vector<{lanes}x{type_}>" if lanes else type_

    suffix = "vector.load", "vector.store"
    load, store = suffix if lanes else ("memref.load", "memref.store")
    *inputs, output = types
    arguments = [f"%a{i}: memref<{CHUNK}x{t}>" for i, t in enumerate(inputs)]

    def typed(type_: str) -> str:
        memref = f"memref<{CHUNK}x{type_}>"
        return f"{memref}, {shaped(type_)}" if lanes else memref

    loads = [f"%v{i} = {load} %a{i}[%i] : {typed(t)}" for i, t in enumerate(inputs)]
    operands = ", ".join(f"%v{i}" for i in range(len(inputs)))
    is_mixed = operation == "fpowi"
    of = ", ".join(shaped(t) for t in (inputs if is_mixed else [output]))
    newline = "\n"
    return f"""
    func.func @apply({", ".join(arguments)}, %o: memref<{CHUNK}x{output}>) {{
      %zero = arith.constant 0 : index
      %end = arith.constant {CHUNK - CHUNK % max(lanes, 1)} : index
      %step = arith.constant {max(lanes, 1)} : index
      scf.for %i = %zero to %end step %step {{
        {newline.join(loads)}
        %r = math.{operation} {operands} : {of}
        {store} %r, %o[%i] : {typed(output)}
      }}
      return
    }}"""


def lowered(text: str) -> IRModule:
    return opt(IRModule.parse(text), TO_LLVM)


def compiled(module: IRModule) -> bytes:
    triple, cpu, features = HOST
    return object_code.compile_object(
        module.mlir, triple=triple, cpu=cpu, features=features
    )


class Kernel:
    """A compiled loop, called with arrays of any length."""

    def __init__(self, library: object, address: int, dtype: str) -> None:
        self._library = library  # keeps the code in memory
        self._address, self._dtype = address, np.dtype(dtype)

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        count = arrays[0].size
        chunks = -(-count // CHUNK)
        padded = [np.resize(a, chunks * CHUNK) for a in arrays]
        output = np.zeros(chunks * CHUNK, self._dtype)
        arrays = (*padded, output)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(
            self._address
        )
        for start in range(0, chunks * CHUNK, CHUNK):
            function(*(a.ctypes.data + start * a.itemsize for a in arrays))
        return output[:count]


@cache
def kernel(
    operation: str, types: tuple[str, ...] = ("f32", "f32"), lanes: int = 16
) -> Kernel:
    """The compiled loop; 0 lanes is a scalar."""
    if operation in ACTIVATIONS:
        return expanded("exp", ACTIVATIONS[operation], lanes)
    return kernel_of(loop(operation, types, lanes), types[-1])


def kernel_of(text: str, result: str = "f32") -> Kernel:
    code = object_code.machine_code([compiled(lowered(text))], ["apply"])
    library, addresses = load_code(code, ["apply"])
    dtype = result.replace("f", "float").replace("i", "int")
    return Kernel(library, addresses["apply"], dtype)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@cache
def sweep() -> np.ndarray:
    """All signs and exponents with 96 mantissas each, random points near 0, hard cases."""
    rng = np.random.default_rng(0)
    fractions = np.concatenate([[0, 1, 2**23 - 1], rng.integers(0, 2**23, 93)])
    exponents = np.arange(255, dtype=np.uint32) << 23
    bits = (exponents[:, None] | fractions.astype(np.uint32)).ravel()
    near = rng.uniform(-20, 20, 2**15), rng.uniform(-1, 1, 2**15)
    centres = np.array(HARD_PLACES, np.float32).view(np.uint32)
    around = np.maximum(centres[:, None].astype(np.int64) + np.arange(-8, 9), 0)
    hard = around.ravel().astype(np.uint32).view(np.float32)
    values = bits.view(np.float32), hard, -hard, *near
    return np.concatenate([*values, -values[0]]).astype(np.float32)


@np.errstate(all="ignore")
def in_double(name: str, *arrays: np.ndarray) -> np.ndarray:
    function = IN_DOUBLE.get(name) or getattr(np, name)
    return function(*(a.astype(np.float64) for a in arrays))


@np.errstate(all="ignore")
def error_ulp(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The distance in units in the last place of f32, 2**-149 for subnormal numbers.

    Infinity counts as 2**128; NaN or a sign on one side alone is infinitely far away.
    """
    _, exponent = np.frexp(exact)
    unit = np.ldexp(1.0, np.clip(exponent - 1, -126, 127) - 23)
    top = 2.0**128
    wide = np.clip(actual.astype(np.float64), -top, top)
    distance = np.abs(wide - np.clip(exact, -top, top)) / unit
    distance[np.signbit(actual) != np.signbit(exact)] = INF
    is_nan = np.isnan(actual) & np.isnan(exact)
    return np.where(is_nan, 0, np.nan_to_num(distance, nan=INF, posinf=INF))


@pytest.mark.parametrize("name", BOUNDS_ULP)
def test_errors_stay_below_the_stated_bound(name: str) -> None:
    x = sweep()

    errors = error_ulp(kernel(name)(x), in_double(name, x))

    worst = errors.argmax()
    assert errors[worst] <= BOUNDS_ULP[name], f"{name}({x[worst]!r})"


@pytest.mark.sampled(5)
@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS_ULP)
def test_errors_stay_below_the_stated_bound_everywhere(name: str) -> None:
    """Every 97th float: six seconds per function."""
    for start in range(0, 2**32, 97 * 2**20):
        end = min(start + 97 * 2**20, 2**32)
        x = np.arange(start, end, 97).astype(np.uint32).view(np.float32)
        x = x[np.isfinite(x)]

        errors = error_ulp(kernel(name)(x), in_double(name, x))

        worst = errors.argmax() if x.size else 0
        assert not x.size or errors[worst] <= BOUNDS_ULP[name], f"{name}({x[worst]!r})"


def test_the_page_states_these_bounds() -> None:
    page = Path(__file__).parents[3] / "docs" / "vector-maths.md"
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page.read_text("utf-8"), re.M)

    stated = {name: float(bound) for name, bound in rows}
    assert stated == BOUNDS_ULP | {"pow": 0.53, "exp_not_positive": 0.91}


SPECIAL_VALUES = [
    ("exp", -INF, 0.0),
    ("exp", -104.0, 0.0),
    ("exp", 88.72284, INF),
    ("exp", INF, INF),
    ("exp", 0.0, 1.0),
    ("exp2", -150.0, 0.0),
    ("exp2", -149.0, 2.0**-149),
    ("exp2", 128.0, INF),
    ("expm1", -INF, -1.0),
    ("expm1", -0.0, -0.0),
    ("log", 0.0, -INF),
    ("log", -0.0, -INF),
    ("log", -1.0, NAN),
    ("log", -INF, NAN),
    ("log", INF, INF),
    ("log", 1.0, 0.0),
    ("log2", 2.0**-149, -149.0),
    ("log10", 1000.0, 3.0),
    ("log1p", -1.0, -INF),
    ("log1p", -1.5, NAN),
    ("log1p", -0.0, -0.0),
    ("tanh", INF, 1.0),
    ("tanh", -INF, -1.0),
    ("tanh", -0.0, -0.0),
    ("tanh", 0.0, 0.0),
    ("tanh", 2.0**-149, 2.0**-149),
    ("erf", INF, 1.0),
    ("erf", -INF, -1.0),
    ("erf", -0.0, -0.0),
    ("sin", INF, NAN),
    ("sin", -0.0, -0.0),
    ("sin", -(2.0**-149), -(2.0**-149)),
    ("cos", -INF, NAN),
    ("cos", 0.0, 1.0),
    ("tan", INF, NAN),
    ("tan", -0.0, -0.0),
    ("rsqrt", 0.0, INF),
    ("rsqrt", -0.0, -INF),
    ("rsqrt", -1.0, NAN),
    ("rsqrt", INF, 0.0),
    ("asin", 1.0000001, NAN),
    ("acos", 1.0, 0.0),
    ("acos", -1.0000001, NAN),
    ("atan", -0.0, -0.0),
    ("atan", INF, math.pi / 2),
    ("sinh", -INF, -INF),
    ("cosh", -INF, INF),
    ("acosh", 0.99999994, NAN),
    ("acosh", INF, INF),
    ("asinh", -INF, -INF),
    ("atanh", 1.0, INF),
    ("atanh", -1.0000001, NAN),
    ("sigmoid", -INF, 0.0),
    ("sigmoid", INF, 1.0),
    ("sigmoid", -0.0, 0.5),
    ("sigmoid", -103.0, 2.0**-149),
    ("silu", INF, INF),
    ("silu", -INF, NAN),
    ("silu", -1e30, -0.0),
    ("silu", 3e38, 3e38),
    ("silu", -0.0, -0.0),
    ("silu", 2.0**-126, 2.0**-127),
    ("gelu", INF, INF),
    ("gelu", -INF, NAN),
    ("gelu", -1e30, -0.0),
    ("gelu", 3e38, 3e38),
    ("gelu", -0.0, -0.0),
    ("gelu", 2.0**-126, 2.0**-127),
    ("gelu_tanh", INF, INF),
    ("gelu_tanh", -INF, NAN),
    ("gelu_tanh", -1e30, -0.0),
    ("gelu_tanh", 3e38, 3e38),
    ("gelu_tanh", -0.0, -0.0),
    ("gelu_tanh", 2.0**-126, 2.0**-127),
]


@pytest.mark.parametrize(("name", "x", "expected"), SPECIAL_VALUES)
def test_special_values_are_those_of_libm(name: str, x: float, expected: float) -> None:
    actual = kernel(name)(floats(x))

    # equal_nan, and the sign of zero
    np.testing.assert_array_equal(actual, floats(expected))
    assert math.isnan(expected) or np.signbit(actual[0]) == np.signbit(expected)


@pytest.mark.parametrize("name", BOUNDS_ULP)
def test_nan_is_propagated(name: str) -> None:
    quiet = np.array([0x7FC00000, 0xFFC00001, 0x7FFFFFFF], np.uint32)

    assert np.isnan(kernel(name)(quiet.view(np.float32))).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_huge_angle_does_not_affect_other_lanes(name: str) -> None:
    x = np.linspace(-100, 100, 64, dtype=np.float32)
    mixed = x.copy()
    mixed[::16] = 3e38, 2.0**17, -1e10, INF

    alone, together = kernel(name)(x), kernel(name)(mixed)

    keep = np.arange(64) % 16 != 0
    np.testing.assert_array_equal(alone[keep], together[keep])


@pytest.mark.parametrize("lanes", [1, 3, 4, 8])  # 4 and 8 are vectors of 128, 256 bits
@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "tanh", "erf", "gelu", "sigmoid"]
)
def test_results_do_not_depend_on_the_lane_count(name: str, lanes: int) -> None:
    x = sweep()[:: 2**5][: CHUNK - CHUNK % lanes]

    narrow = kernel(name, lanes=lanes)(x)

    np.testing.assert_array_equal(narrow, kernel(name)(x))


def test_exp_not_positive_is_as_accurate_as_exp_for_normal_results() -> None:
    exp_not_positive = expanded("exp", vector_math.exp_not_positive, 16)
    x = np.linspace(-87.3, 0, 2**15, dtype=np.float32)

    assert error_ulp(exp_not_positive(x), in_double("exp", x)).max() <= 0.91
    edges = exp_not_positive(floats(-INF, -1e30, -87.7, -0.0, NAN))
    np.testing.assert_array_equal(edges, floats(0, 0, 0, 1, NAN))


def expanded(name: str, function: Callable[[ir.Value], ir.Value], lanes: int) -> Kernel:
    """A compiled loop over an operation, expanded by another function than the pass uses."""
    module = IRModule.parse(loop(name, ("f32", "f32"), lanes))
    _expand(module, f"math.{name}", function)
    return kernel_of(str(module))


def _expand(
    module: IRModule, name: str, function: Callable[[ir.Value], ir.Value]
) -> None:
    """Expand operations by another function than the pass uses."""
    for op in list(walk(module.mlir.operation)):
        if op.operation.name == name:
            with ir.InsertionPoint(op), op.location:
                replacement = function(op.operands[0])
            replace(op, replacement)


def nodes(text: str) -> np.ndarray:
    """The result of a model of these nodes for :func:`signed_numbers`."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[4096] x) => (float[4096] y) {{{text}}}'
    )
    return relax_mlir.compile(proto.SerializeToString())(signed_numbers())[0]


def signed_numbers() -> np.ndarray:
    return np.linspace(-20, 20, 4096, dtype=np.float32)


WRITTEN_OUT = {
    "sigmoid": "y = Sigmoid(x)",
    "silu": "s = Sigmoid(x) y = Mul(s, x)",
    "gelu": """
        root = Constant<value_float=1.4142135>() one = Constant<value_float=1.0>()
        half = Constant<value_float=0.5>() z = Div(x, root) e = Erf(z)
        total = Add(e, one) product = Mul(x, total) y = Mul(product, half)""",
    "gelu_tanh": """
        slope = Constant<value_float=0.7978846>() one = Constant<value_float=1.0>()
        cubic = Constant<value_float=0.044715>() three = Constant<value_float=3.0>()
        half = Constant<value_float=0.5>() p = Pow(x, three) c = Mul(p, cubic)
        s = Add(x, c) z = Mul(s, slope) e = Tanh(z) total = Add(e, one)
        product = Mul(x, half) y = Mul(product, total)""",
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_activations_of_models_are_as_accurate_as_the_functions(name: str) -> None:
    x = signed_numbers()

    errors = error_ulp(nodes(WRITTEN_OUT[name]), in_double(name, x))

    assert errors.max() <= BOUNDS_ULP[name]


@pytest.mark.parametrize(
    "name", [*(n for n in BOUNDS_ULP if n not in ACTIVATIONS), "powf", "fpowi"]
)
def test_only_operations_with_an_instruction_remain(name: str) -> None:
    types = {"powf": POWER, "fpowi": ("f32", "i32", "f32")}.get(name, ("f32", "f32"))

    expanded = opt(IRModule.parse(loop(name, types, 16)), "schedule-expand-math")

    left = set(re.findall(r"math\.\w+", str(expanded)))
    assert left <= {"math.absf", "math.fma", "math.sqrt", "math.trunc"}


@pytest.mark.parametrize("target", [AVX2, NEON], ids=["avx2", "neon"])
@pytest.mark.parametrize("name", ["powf", "rsqrt", "sin"])
def test_no_library_is_called(name: str, target: tuple[str, str, str]) -> None:
    types = POWER if name == "powf" else ("f32", "f32")
    triple, cpu, features = target

    text = object_code.assembly(
        lowered(loop(name, types, 8)).mlir, triple=triple, cpu=cpu, features=features
    )

    assert re.findall(r"^\s+(?:callq?|bl)\s+(.*)", text, re.MULTILINE) == []
