"""Symbolic evaluation of shape computations at import time."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.frontends.onnx import shape_values
from relax_mlir.frontends.onnx.shape_values import SizedValue
from relax_mlir.symbolic import constraints

N, M = shapes.symbol("n"), shapes.symbol("m")
SIZES = {"n": 6, "m": 4}
OPSET = 21


def sizes(*items: Any, dtype: str = "int64") -> SizedValue:
    """A vector of sizes; nested lists make a tensor."""
    array = np.array(items, object)
    return SizedValue(array.shape, dtypes.dtype(dtype), array)


def scalar(item: Any, dtype: str = "int64") -> SizedValue:
    array = np.empty((), object)
    array[()] = item
    return SizedValue((), dtypes.dtype(dtype), array)


def unknown(*shape: Any, dtype: str = "float32") -> SizedValue:
    return SizedValue(shape, dtypes.dtype(dtype))


def evaluated(op: str, *inputs: SizedValue | None, **attrs: Any) -> list[Any] | None:
    found = shape_values.evaluate(op, attrs, inputs, outputs=2 if op == "Split" else 1)
    return None if found is None else [content.tolist() for content, _ in found]


def numbers(content: np.ndarray) -> np.ndarray:
    """The content for n = 6 and m = 4."""
    items = [shapes.evaluate(item, SIZES) for item in content.reshape(-1)]
    return np.array(items).reshape(content.shape)


CASES: list[tuple[str, tuple[SizedValue | None, ...], dict[str, Any]]] = [
    ("Gather", (sizes(N, M, 3), sizes(2, -3)), {"axis": 0}),
    ("Gather", (sizes([N, M], [1, 2]), scalar(1)), {"axis": 1}),
    ("Slice", (sizes(N, M, 3, 4), sizes(1), sizes(2**63 - 1)), {}),
    (
        "Slice",
        (sizes(N, M, 3), sizes(-1), sizes(-(2**63)), sizes(0), sizes(-1)),
        {},
    ),
    ("Concat", (sizes(N), sizes(3, M), sizes(-1)), {"axis": 0}),
    ("Squeeze", (sizes([N]), sizes(0)), {}),
    ("Squeeze", (sizes([N]),), {}),
    ("Unsqueeze", (sizes(N, 2), sizes(0, -1)), {}),
    ("Reshape", (sizes(N, M, 1, 2), sizes(-1, 2)), {}),
    ("Flatten", (sizes([N, M], [1, 2]),), {"axis": 0}),
    ("Transpose", (sizes([N, M], [1, 2]),), {"perm": [1, 0]}),
    ("Expand", (sizes(N), sizes(2, 3)), {}),
    ("Tile", (sizes(N, M), sizes(2)), {}),
    ("Split", (sizes(N, M, 3), sizes(1, 2)), {"axis": 0}),
    ("Split", (sizes(N, M, 3, 4),), {"axis": 0, "num_outputs": 2}),
    ("Where", (sizes(True, False, dtype="bool"), sizes(N, N), sizes(1, M)), {}),
    ("Cast", (sizes(N, 3),), {"to": TensorProto.INT32}),
    ("Cast", (sizes(3, 0),), {"to": TensorProto.BOOL}),
    ("Add", (sizes(N, 3), scalar(M)), {}),
    ("Sub", (sizes(N, 3), sizes(1, N)), {}),
    ("Mul", (sizes(N, 3), sizes([M], [2])), {}),
    ("Div", (sizes(N, 7, -7, 7), sizes(4, 2, 2, -2)), {}),
    ("Mod", (sizes(N, 7, -7, 7), sizes(4, 4, 4, -4)), {}),
    ("Mod", (sizes(N, 7), sizes(4, 4)), {"fmod": 1}),
    ("Neg", (sizes(N, 3),), {}),
    ("Abs", (sizes(N, -3),), {}),
    ("Sum", (sizes(N), sizes(M), sizes(1)), {}),
    ("Max", (sizes(N, 3), sizes(M, 4)), {}),
    ("Min", (sizes(N, 3), sizes(M, 4)), {}),
    ("Equal", (sizes(N, 3, N), sizes(N, 4, -1)), {}),
    ("Less", (sizes(N, 3), sizes(N + 1, 3)), {}),
    ("Greater", (sizes(N + 1, 3), sizes(N, 3)), {}),
    ("LessOrEqual", (sizes(N, 3), sizes(N, 2)), {}),
    ("GreaterOrEqual", (sizes(N, 3), sizes(N, 4)), {}),
    ("Not", (sizes(True, False, dtype="bool"),), {}),
    (
        "And",
        (sizes(True, False, dtype="bool"), sizes(True, True, dtype="bool")),
        {},
    ),
    (
        "Or",
        (sizes(True, False, dtype="bool"), sizes(False, False, dtype="bool")),
        {},
    ),
    ("ReduceProd", (sizes([N, M], [1, 2]), sizes(1)), {"keepdims": 0}),
    ("ReduceProd", (sizes(N, M),), {}),
    ("ReduceSum", (sizes([N, M], [1, 2]), sizes(0)), {}),
    ("ReduceSum", (sizes([N, M], [1, 2]),), {"noop_with_empty_axes": 1}),
    ("ReduceMax", (sizes([N, M], [1, 2]), sizes(-1)), {}),
    ("ReduceMin", (sizes(N, M),), {"keepdims": 0}),
    ("Range", (scalar(1), scalar(8), scalar(3)), {}),
    ("Range", (scalar(5), scalar(0), scalar(-2)), {}),
    ("ConstantOfShape", (sizes(2, 3),), {"value": np.array([7])}),
    ("Identity", (sizes(N, 2),), {}),
]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_evaluation_agrees_with_onnx(
    op: str, inputs: tuple[SizedValue | None, ...], attrs: dict[str, Any]
) -> None:
    """Symbols first and numbers then is what ONNX computes of the numbers."""
    count = 2 if op == "Split" else 1
    found = shape_values.evaluate(op, attrs, inputs, outputs=count)
    assert found is not None

    expected = _run_node(op, inputs, attrs, count)

    for (content, dtype), array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(numbers(content), array, strict=False)
        assert content.shape == array.shape
        assert dtype == array.dtype.name


def _run_node(
    op: str, inputs: tuple[SizedValue | None, ...], attrs: dict[str, Any], count: int
) -> list[np.ndarray]:
    attrs = {
        n: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for n, v in attrs.items()
    }
    feeds: dict[str, np.ndarray] = {}
    for index, value in enumerate(inputs):
        assert value is not None
        assert value.content is not None
        feeds[f"x{index}"] = numbers(value.content).astype(value.dtype.numpy)
    outputs = [f"y{i}" for i in range(count)]
    graph = helper.make_graph(
        [helper.make_node(op, list(feeds), outputs, **attrs)],
        "g",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
            )
            for n, a in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    result = ReferenceEvaluator(model).run(None, feeds)
    assert isinstance(result, list)
    return [np.asarray(array) for array in result]


def test_reversed_slice_start_is_clamped() -> None:
    """The standard clamps the start to [0, n - 1]; onnx's reference takes nothing."""
    bounds = (sizes(-9), sizes(-9), sizes(0), sizes(-1))

    assert evaluated("Slice", sizes(N, M, 3), *bounds) == [[N]]


def test_shape_and_size_need_no_contents() -> None:
    x = unknown(N, 3, M)

    assert evaluated("Shape", x) == [[N, 3, M]]
    assert evaluated("Shape", x, start=1, end=-1) == [[3]]
    assert evaluated("Size", x) == [3 * N * M]


def test_divided_size_difference_is_assumed_nonnegative() -> None:
    """As in the formula of how many windows fit."""
    with constraints.collect() as assumed:
        assert evaluated("Div", sizes(N - 5), sizes(2)) == [[shapes.floordiv(N - 5, 2)]]

    assert list(map(str, assumed)) == ["n >= 5"]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Add", (sizes(1), unknown(1, dtype="int64"))),  # computed
        ("Add", (sizes(2**63 - 1), sizes(1))),  # wraps around in int64
        ("Add", (sizes(2**31 - 1, dtype="int32"), sizes(1, dtype="int32"))),
        ("Div", (sizes(1), sizes(0))),  # left to the operator
        ("Div", (sizes(N - M), sizes(2))),  # may round either way
        ("Mod", (sizes(7), sizes(N - 5))),  # may take the sign of either
        ("Less", (sizes(N), sizes(M))),
        ("Equal", (sizes(N), sizes(4))),
        ("Expand", (sizes(1), sizes(300))),  # data, not sizes
        ("Range", (scalar(0), scalar(N), scalar(1))),  # of unknown length
        ("ConstantOfShape", (sizes(N),)),
        ("Exp", (sizes(1),)),
    ],
)
def test_unknown_values_are_left_to_the_graph(
    op: str, inputs: tuple[SizedValue, ...]
) -> None:
    attrs = {"value": np.array([0])} if op == "ConstantOfShape" else {}

    assert evaluated(op, *inputs, **attrs) is None


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("Gather", (sizes(1, 2), sizes(5)), {}, "bad index"),
        ("Concat", (sizes(1), sizes(2)), {"axis": 1}, "axis is out of range"),
        ("Squeeze", (sizes(1, 2), sizes(0)), {}, "size not equal to one"),
        ("Reshape", (sizes(1, 2, 3), sizes(2, -1)), {}, "cannot reshape"),
        ("Range", (scalar(0), scalar(1), scalar(0)), {}, "step is wrong"),
        ("ConstantOfShape", (sizes(-1),), {"value": np.array([0])}, "negative"),
        ("Add", (sizes(1, 2), sizes(1, 2, 3)), {}, "broadcast"),
    ],
)
def test_invalid_nodes_are_errors(
    op: str, inputs: tuple[SizedValue, ...], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(op, *inputs, **attrs)


def test_large_constant_is_not_a_size() -> None:
    assert shape_values.contents_of(np.arange(257)) is None
    assert shape_values.contents_of(np.arange(3.0)) is None
    assert shape_values.contents_of(np.zeros(256, np.int32)) is not None


def test_old_opsets_give_axes_as_attributes() -> None:
    assert evaluated("Unsqueeze", scalar(N), axes=[0]) == [[N]]
    assert evaluated("Slice", sizes(N, M), starts=[1], ends=[2], axes=[0]) == [[M]]
    assert evaluated("ReduceProd", sizes(N, M), axes=[0], keepdims=0) == [N * M]


def test_constants_are_read_from_either_attribute() -> None:
    assert evaluated("Constant", value_int=3) == [3]
    assert evaluated("Constant", value_ints=[3, 4]) == [[3, 4]]
    assert evaluated("Constant", value=np.array([True])) == [[True]]
    assert evaluated("Constant", value_float=3.0) is None
    assert onnx.TensorProto.INT64 == 7  # the table in shape_values is by number
