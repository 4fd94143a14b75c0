"""Model functions whose bodies must be inlined."""

import numpy as np
import onnx
import pytest
from onnx import parser

from relax_mlir import compile
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import check_onnx

pytestmark = pytest.mark.slow  # each compiles several models

_HEAD = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>'
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(_HEAD + text)


def test_function_body_can_need_run_time_values() -> None:
    compiled = compile(
        model("""g (float[n, 3] x, int64[1] axes) => (float[a, b] y) {
            s = Neg (x)
            y = local.total <keep = 0> (s, axes)
        }
        <domain: "local", opset_import: ["" : 18]>
        total <keep> (s, a) => (y) {
            x = Abs (s)
            y = ReduceSum <keepdims : int = @keep> (x, a)
        }""")
    )

    for axis in (0, 1):
        (y,) = compiled(X, np.array([axis]))
        np.testing.assert_array_equal(y, X.sum(axis))


def test_subgraphs_of_a_body_see_call_attributes() -> None:
    compiled = compile(
        model("""g (float[n, 3] x, bool c, bool d) => (float[n, 3] y) {
            t = local.scaled <factor = 2.0> (x, c)
            y = local.scaled <factor = 3.0> (t, d)
        }
        <domain: "local", opset_import: ["" : 18]>
        scaled <factor> (x, c) => (y) {
            y = If (c) <
                then_branch = a () => (float[n, 3] p) {
                    f = Constant <value_float : float = @factor> ()
                    p = Mul (x, f)
                },
                else_branch = b () => (float[n, 3] q) { q = Identity (x) }
            >
        }""")
    )

    for c, d in ((True, True), (False, True), (True, False)):
        (y,) = compiled(X, np.array(c), np.array(d))
        np.testing.assert_array_equal(y, X * (2 if c else 1) * (3 if d else 1))


def test_names_in_subgraphs_can_clash_with_call_inputs() -> None:
    """The input stays what the caller gives, also where the graph makes its like."""
    compiled = compile(
        model("""g (float[n, 3] X, bool c) => (float[n, 3] y) {
            y = local.chosen (X, c)
        }
        <domain: "local", opset_import: ["" : 18]>
        chosen (x, c) => (y) {
            y = If (c) <
                then_branch = a () => (float[n, 3] X) { X = Neg (x) },
                else_branch = b () => (float[n, 3] X_) {
                    X = Abs (x)
                    X_ = Sub (x, X)
                }
            >
        }""")
    )

    for c in (True, False):
        (y,) = compiled(X, np.array(c))
        np.testing.assert_array_equal(y, -X if c else X - np.abs(X))


def test_inputs_may_be_left_out() -> None:
    compiled = compile(
        model("""g (float[n, 3] x, float hi, int64[1] axes) => (float[a, b] y) {
            y = local.f (x, axes, , hi)
        }
        <domain: "local", opset_import: ["" : 18]>
        f (x, a, lo, hi) => (y) {
            z = Clip (x, lo, hi)
            y = ReduceMax (z, a)
        }""")
    )

    (y,) = compiled(X, np.array(4, np.float32), np.array([1]))

    np.testing.assert_array_equal(y, [[2], [4]])


def test_function_body_uses_its_own_opset() -> None:
    """Before opset 13, axes were an attribute, and Softmax took all axes from one on."""
    compiled = compile(
        model("""g (float[n, 3, 2] x, bool c) => (float[n, 3, 2] y) {
            s = local.old (x, c)
            y = Identity (s)
        }
        <domain: "local", opset_import: ["" : 11]>
        old (x, c) => (y) {
            y = If (c) <
                then_branch = a () => (float[n, 3, 2] p) { p = Softmax <axis = 1> (x) },
                else_branch = b () => (float[n, 3, 2] q) { q = Neg (x) }
            >
        }""")
    )
    x = np.zeros((2, 3, 2), np.float32)

    (y,) = compiled(x, np.array(True))

    np.testing.assert_allclose(y, np.full(x.shape, 1 / 6), rtol=1e-6)


def test_functions_in_functions() -> None:
    compiled = compile(
        model("""g (float[n, 3] x, int64 k) => (float[n, 3] y) {
            z = local.outer (x, k)
            y = local.outer (z, k)
        }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        outer (x, k) => (y) {
            two = Constant <value_float = 2.0> ()
            z = Mul (x, two)
            y = local.repeated (z, k)
        }
        <domain: "local", opset_import: ["" : 18]>
        repeated (x, k) => (y) {
            y = Loop (k, , x) <body = b (int64 i, bool c, float[n, 3] s)
                => (bool d, float[n, 3] t) {
                d = Identity (c)
                one = Constant <value_float = 1.0> ()
                t = Add (s, one)
            }>
        }""")
    )

    for k in (0, 3):
        (y,) = compiled(X, np.array(k))
        np.testing.assert_array_equal(y, (X * 2 + k) * 2 + k)


def test_gaps_in_a_body_are_reported_once() -> None:
    found = check_onnx(
        model("""g (float[n, 3] x, int64[1] a) => (float[k, l] y) {
            y = local.f (x, a)
        }
        <domain: "local", opset_import: ["" : 18, "other" : 1]>
        f (x, a) => (y) {
            z = other.Wobble (x)
            u = ReduceSum (x, a)
            y = Add (z, u)
        }""")
    )

    (gap,) = found.uncovered.values()
    assert (gap.op_type, gap.nodes) == ("other::Wobble", ["y/z"])


def test_recursive_function_is_rejected() -> None:
    text = """g (float[n] x, int64[1] a) => (float[k] y) { y = local.f (x, a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        f (x, a) => (y) { s = ReduceSum (x, a) y = local.f (s, a) }"""

    with pytest.raises(ModelError, match="function calls are nested deeper than"):
        compile(model(text))


def test_unused_function_output_can_be_undefined() -> None:
    compiled = compile(
        model("""g (float[n, 3] x, int64[1] axes) => (float[a, b] y) {
            y = local.f (x, axes)
        }
        <domain: "local", opset_import: ["" : 18]>
        f (x, a) => (o, never) { o = ReduceSum (x, a) }""")
    )

    (y,) = compiled(X, np.array([1]))

    np.testing.assert_array_equal(y, X.sum(1, keepdims=True))
