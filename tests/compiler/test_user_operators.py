"""Operators that a program defines."""

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.compiler.user_operators import TensorType
from relax_mlir.dialects import op_interface
from relax_mlir.dialects.tir import Buffer, Builder
from relax_mlir.errors import ModelError

_X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test defines is gone after it."""
    monkeypatch.setattr(
        op_interface, "_RULES", {k: dict(v) for k, v in op_interface._RULES.items()}
    )


def model(body: str, shape: str = "n, 3") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'
        f"g (float[{shape}] x) => (float[p, q] y) {{ {body} }}"
    )


def shifted(b: Builder, x: Buffer, y: Buffer, *, by: float = 1.0) -> Buffer:
    return b.map(lambda x, y: x + y * by, x, y, name="shifted")


@pytest.mark.slow  # compiles
def test_it_is_compiled_for_open_sizes_and_each_attribute() -> None:
    relax_mlir.op("own::Shifted")(shifted)
    body = "a = own.Shifted <by = 2.0> (x, x) b = Neg(a) y = own.Shifted (b, x)"

    compiled = relax_mlir.compile(relax_mlir.import_onnx(model(body)))

    assert isinstance(compiled, relax_mlir.Executable)
    for x in (_X, _X[:1]):
        np.testing.assert_array_equal(compiled(x)[0], -2 * x)


@pytest.mark.slow  # compiles
def test_several_results_of_other_shapes() -> None:
    def halves(b: Builder, x: Buffer) -> list[Buffer]:
        rows = x.shape[0] // 2
        half = b.dim(rows)
        first = b.compute((rows, x.shape[1]), lambda i, j: x[i, j], x.dtype)
        return [first, b.compute((rows,), lambda i: x[i + half, 0], x.dtype)]

    def shape(x: TensorType) -> list[TensorType]:
        rows = x.shape[0] // 2
        return [TensorType((rows, x.shape[1]), x.dtype), TensorType((rows,), x.dtype)]

    made = relax_mlir.op(
        "own::Halves", shape=shape, reference=lambda x: (x[:2], x[2:, 0])
    )(halves)

    made.check(np.arange(12, dtype=np.float32).reshape(4, 3))


@pytest.mark.slow  # compiles
def test_sizes_of_results_are_expressions_of_open_sizes() -> None:
    @relax_mlir.op("own::Pairs")
    def pairs(b: Builder, x: Buffer) -> Buffer:
        rows, width = x.shape
        half = rows // 2
        return b.compute((half, width + 1), lambda i, j: x[i * 2, j % width], x.dtype)

    module = relax_mlir.import_onnx(model("a = own.Pairs (x) y = Neg (a)"))

    assert 'R.Tensor((n // 2, 4), dtype="float32")' in module.script()
    (y,) = relax_mlir.compile(module)(_X)
    np.testing.assert_array_equal(y, -_X[:1, [0, 1, 2, 0]])


@pytest.mark.slow  # compiles
def test_an_input_may_be_a_result() -> None:
    same = relax_mlir.op("own::Same", reference=lambda x: (x, x))(lambda b, x: [x, x])

    same.check(_X)


def test_a_function_returns_buffers() -> None:
    relax_mlir.op("own::Shape")(lambda b, x: x.shape)

    with pytest.raises(ModelError, match="expected a buffer or a list of buffers, got"):
        relax_mlir.import_onnx(model("y = own.Shape (x)"))


@pytest.mark.slow  # compiles
def test_a_check_finds_what_is_wrong() -> None:
    made = relax_mlir.op("own::Shifted", reference=lambda x, y, by: x)(shifted)

    with pytest.raises(AssertionError, match="own::Shifted: result 0"):
        made.check(_X, _X, by=1.0)


def test_a_shape_rule_is_held_against_the_program() -> None:
    made = relax_mlir.op(
        "own::Shifted", shape=lambda x, y, by=1.0: TensorType((7,), "float32")
    )
    made(shifted)

    with pytest.raises(ModelError, match=r"\(own::Shifted\): shape rule: expected .*7"):
        relax_mlir.import_onnx(model("y = own.Shifted (x, x)"))


@pytest.mark.slow  # compiles
def test_a_foreign_function_gets_arrays_and_attributes() -> None:
    @relax_mlir.op("own::Ordered", foreign=True, shape=lambda x, last: x)
    def ordered(x: np.ndarray, *, last: int) -> np.ndarray:
        return np.sort(x)[:, ::-1] if last else np.sort(x)

    compiled = relax_mlir.compile(
        relax_mlir.import_onnx(model("a = own.Ordered <last = 1> (x) y = Neg (a)"))
    )

    np.testing.assert_array_equal(compiled(_X)[0], -_X[:, ::-1])


@pytest.mark.slow  # compiles
def test_a_foreign_result_has_to_be_what_its_shape_rule_says() -> None:
    relax_mlir.op("own::Halved", foreign=True, shape=lambda x: x)(lambda x: x[:1])
    compiled = relax_mlir.compile(relax_mlir.import_onnx(model("y = own.Halved (x)")))

    with pytest.raises(
        Exception, match=r"`own::Halved`: expected float32\[2, 3\], got"
    ):
        compiled(_X)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = own.Shifted (x)", "input 1 is missing"),
        ("y = own.Shifted (x, x, x)", "expected up to 2, got 3"),
        ("y = own.Shifted <bye = 1.0> (x, x)", "attribute `bye`: expected `by`"),
    ],
)
def test_nodes_that_do_not_fit_are_refused(body: str, message: str) -> None:
    relax_mlir.op("own::Shifted")(shifted)

    with pytest.raises(ModelError, match=message):
        relax_mlir.import_onnx(model(body))


def test_a_foreign_function_needs_a_shape_rule() -> None:
    with pytest.raises(ValueError, match="`own::F`: expected `shape`"):
        relax_mlir.op("own::F", foreign=True)


def test_a_name_is_taken_once() -> None:
    relax_mlir.op("own::Shifted")(shifted)

    with pytest.raises(ValueError, match="two rules for ONNX `own::Shifted`"):
        relax_mlir.op("own::Shifted")(shifted)
