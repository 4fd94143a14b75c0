"""Sizes of calls of tensor programs: a call is right, or refused; it never reads outside.

The calls run between guard pages, so an access out of bounds is an error of another class.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relax_mlir
from relax_mlir.analysis.access_bounds import required_sizes
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.tvm.relax.transform import FuseOps, FuseTIR, LegalizeOps
from relax_mlir.tvm.script import from_source

_HEADER = """
from relax_mlir.tvm.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
"""


def script(text: str) -> IRModule:
    return from_source(_HEADER + text)


def script_again(text: str) -> str:
    """What a script is that is read and printed."""
    return from_source(text).script()


def program(shapes: str, body: str, params: str = "a: T.handle, b: T.handle") -> str:
    """The text of a program of buffers ``A`` and ``B``."""
    first, second = shapes.split(" -> ")
    return f"""
    @T.prim_func(private=True)
    def f({params}):
        n = T.int64(); m = T.int64()
        A = T.match_buffer(a, {first}, "float32")
        B = T.match_buffer(b, {second}, "float32")
{body}
"""


def loop(extent: str, read: str, guard: str = "") -> str:
    return f"""
        for i in range({extent}):
            with T.block("B"):
                v = T.axis.spatial({extent}, i)
                {guard}
                B[v] = A[{read}]
"""


def required(text: str) -> list[str]:
    function = script(text).func_op("f")
    with function.context:
        return [str(c) for c in required_sizes(function)]


@pytest.mark.parametrize(
    ("shapes", "extent", "read", "expected"),
    [
        ("(n,) -> (n,)", "n", "v", []),
        ("(m,) -> (n,)", "n", "v", ["m >= n"]),
        ("(m,) -> (n,)", "n", "v + 2", ["m >= n + 2"]),
        ("(m,) -> (n,)", "n", "2 * v", ["m >= 2*n - 1"]),
        ("(m,) -> (n,)", "n", "v // 2", ["m >= ceildiv(n, 2)"]),
        ("(m,) -> (n,)", "n", "v // 4 * 4 + v % 4", ["m >= n"]),
        ("(m,) -> (n,)", "n", "T.min(v, 7)", ["m >= min(n, 8)"]),
        ("(n,) -> (n,)", "n", "n - 1 - v", []),
        ("(m,) -> (n,)", "n", "n - 1 - v", ["m >= n"]),
        ("(m,) -> (n,)", "4", "v", ["m >= 4", "n >= 4"]),
        ("(n * 2,) -> (n,)", "n", "2 * v + 1", []),
    ],
)
def test_accesses_tell_what_sizes_must_be(
    shapes: str, extent: str, read: str, expected: list[str]
) -> None:
    assert required(program(shapes, loop(extent, read))) == expected


def test_guarded_accesses_need_nothing() -> None:
    guarded = loop("n", "v", "T.where(i < m)")

    assert required(program("(m,) -> (n,)", guarded)) == []


def test_indices_that_rise_and_fall_need_nothing() -> None:
    """Their span is not exact: a bound would refuse sizes that fit."""
    assert required(program("(m,) -> (n,)", loop("n", "v % 5"))) == []


def test_index_below_zero_is_refused() -> None:
    with pytest.raises(
        ValueError, match="index 0: expected 0 to m - 1, got -1 to n - 2"
    ):
        required(program("(m,) -> (n,)", loop("n", "v - 1")))


_COPY = program("(n,) -> (n,)", loop("n", "v"))
_HEAD = program("(m,) -> (n,)", loop("n", "v"))
_TEN = program("(10,) -> (10,)", loop("10", "v"))

_CALL = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        n = T.int64(); m = T.int64()
        cls = Module
        {body}
        return z
"""


def call(text: str, body: str) -> IRModule:
    return script(text + _CALL.format(body=body))


def outcome(function: Callable[..., Any], *arrays: np.ndarray) -> "np.ndarray | str":
    """The result of a call, or what refuses it."""
    try:
        result = function(*arrays)
    except ValueError as error:
        return str(error)
    return np.asarray(result[0] if isinstance(result, (tuple, list)) else result)


@pytest.fixture(autouse=True)
def _guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAX_MLIR_GUARD", "1")


@pytest.mark.parametrize(
    ("text", "body", "message"),
    [
        (
            _HEAD,
            "z = R.call_tir(cls.f, (y,), out_sinfo=R.Tensor((n,), 'float32'))",
            r"`m` to be at least `n`|dimension 0 .*of argument `y`",
        ),
        (
            _COPY,
            "z = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((m,), 'float32'))",
            "argument 1 `y`: dimension 0 .*expected 4 .*got 3",
        ),
        (
            _TEN,
            "z = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((10,), 'float32'))",
            "argument 0 `x`: dimension 0: expected 10, got 4",
        ),
        (
            _TEN,
            "z = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((m,), 'float32'))",
            "argument 0 `x`: dimension 0: expected 10, got 4",
        ),
    ],
)
def test_call_whose_sizes_contradict_the_program_is_refused(
    text: str, body: str, message: str
) -> None:
    model = relax_mlir.compile(call(text, body))

    with pytest.raises(ValueError, match=message):
        model(np.ones(4, np.float32), np.ones(3, np.float32))


def test_program_that_is_out_of_bounds_for_all_sizes_is_refused_when_compiled() -> None:
    beyond = program("(10,) -> (20,)", loop("20", "v"))
    module = call(
        beyond,
        "t = R.match_cast(x, R.Tensor((10,), 'float32'))\n"
        "        z = R.call_tir(cls.f, (t,), out_sinfo=R.Tensor((20,), 'float32'))",
    )

    for made in (module, script(beyond.replace("private=True", ""))):
        with pytest.raises(PassError, match="index 0: expected 0 to 9, got 0 to 19"):
            relax_mlir.compile(made)


def test_program_called_by_itself_checks_its_arrays() -> None:
    kernel = relax_mlir.compile(script(_HEAD.replace("private=True", "")))
    out = np.zeros(4, np.float32)

    with pytest.raises(ValueError, match="sizes do not fit"):
        kernel["f"](np.ones(3, np.float32), out)
    kernel["f"](np.ones(5, np.float32), out)

    np.testing.assert_array_equal(out, np.ones(4, np.float32))


@pytest.mark.slow
def test_fused_calls_check_what_their_programs_need() -> None:
    module = call(
        _HEAD,
        "with R.dataflow():\n"
        "            a = R.call_tir(cls.f, (y,), out_sinfo=R.Tensor((n,), 'float32'))\n"
        "            z = R.add(a, x)\n"
        "            R.output(z)",
    )
    legal = LegalizeOps()(module)
    x, y = np.ones(4, np.float32), np.ones(3, np.float32)

    for made in (legal, FuseOps()(legal), FuseTIR()(FuseOps()(legal))):
        assert isinstance(outcome(relax_mlir.compile(made), x, y), str)


@dataclass(frozen=True)
class _Operator:
    """An operator on two tensors, and what it is defined to give."""

    text: str
    shapes: tuple[tuple[str | int, ...], tuple[str | int, ...]]
    reference: Callable[[np.ndarray, np.ndarray], np.ndarray]

    @cached_property
    def legalized(self) -> IRModule:
        quoted = [
            "("
            + ", ".join(f'"{s}"' if isinstance(s, str) else str(s) for s in t)
            + ",)"
            for t in self.shapes
        ]
        module = script(f"""
    @R.function
    def main(x: R.Tensor({quoted[0]}, "float32"), y: R.Tensor({quoted[1]}, "float32")):
        z = {self.text}
        return z
""")
        return LegalizeOps()(module)

    @cached_property
    def compiled(self) -> Any:
        return relax_mlir.compile(self.legalized)


_OPERATORS = {
    "matmul": _Operator("R.matmul(x, y)", (("n", "k"), (5, "m")), np.matmul),
    "reshape": _Operator(
        "R.reshape(x, (3, 4))", (("n", "k"), ("m",)), lambda x, y: x.reshape(3, 4)
    ),
    "broadcast_to": _Operator(
        "R.broadcast_to(x, (3, 4))",
        (("n",), ("m",)),
        lambda x, y: np.broadcast_to(x, (3, 4)),
    ),
    "windows": _Operator(
        "R.nn.avg_pool2d(x, pool_size=(3, 1))",
        ((1, 1, "n", "k"), ("m",)),
        lambda x, y: np.lib.stride_tricks.sliding_window_view(x, (3, 1), (2, 3)).mean(
            (-1, -2)
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _OPERATORS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_legalized_operator_is_right_or_refused_for_all_sizes(
    name: str, data: st.DataObject
) -> None:
    """The sizes that are refused are those that the operator itself refuses."""
    operator = _OPERATORS[name]
    sizes = data.draw(st.fixed_dictionaries({s: st.integers(0, 12) for s in "nkm"}))
    shapes = [
        [s if isinstance(s, int) else sizes[s] for s in shape]
        for shape in operator.shapes
    ]
    arrays = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes]

    found = outcome(operator.compiled, *arrays)

    try:
        expected = operator.reference(*arrays)
    except ValueError:
        assert isinstance(found, str)
        return
    if isinstance(found, str):  # a size of 1 that would stretch is taken for a mistake
        assert name == "broadcast_to"
        assert arrays[0].shape == (1,)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_legalized_module_says_what_its_operators_assumed() -> None:
    text = _OPERATORS["matmul"].legalized.script()
    window = _OPERATORS["windows"].legalized.script()

    assert "R.match_cast(R.shape([k]), R.Shape([5]))" in text
    assert (
        "R.match_cast(R.shape([n, k]), R.Shape([T.max(n, 3), T.max(k, 1)]))" in window
    )
    assert script_again(text) == text


@pytest.mark.slow
def test_sizes_are_divided_by_differences() -> None:
    body = """
        for i, j in T.grid(n, m // (7 - n)):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[w]
    """
    text = program("(m,) -> (n, m // (7 - n))", body).replace("private=True", "")
    kernel = relax_mlir.compile(script(text))
    read, out = np.arange(9, dtype=np.float32), np.zeros((3, 2), np.float32)

    kernel["f"](read, out)

    np.testing.assert_array_equal(out, [[0, 1]] * 3)
    with pytest.raises(ValueError, match=r"dimension 1 .*expected 9, got 2"):
        kernel["f"](read, np.zeros((6, 2), np.float32))
