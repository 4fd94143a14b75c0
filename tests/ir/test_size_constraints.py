"""Constraints on symbolic sizes: collection, simplification, and checks at run time."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relax_mlir
from relax_mlir.dialects import shapes
from relax_mlir.errors import CompileError, ModelError
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint
from relax_mlir.tvm import relax, tir

n, m, k = (shapes.symbol(name) for name in "nmk")


def assumed(*calls: tuple[shapes.Dim, shapes.Dim]) -> list[str]:
    with constraints.collect() as found:
        for a, b in calls:
            shapes.broadcast((a,), (b,))
    return [str(c) for c in found]


def test_broadcast_assumes_what_is_not_certain() -> None:
    assert assumed((n, 5)) == ["5 == n"]
    assert assumed((n, n), (n, 1), (2, 2)) == []
    assert assumed((n, m)) == ["n == m"]
    assert assumed((n, shapes.minimum(n, 8))) == ["n == min(n, 8)"]
    # 6*n + 1 is never 5: it must be the 1 that stretches.
    assert assumed((6 * n + 1, 5)) == ["1 == 6*n + 1"]


def test_a_cached_shape_still_tells_what_it_assumed() -> None:
    assert assumed((k, 7)) == assumed((k, 7)) == ["7 == k"]


def test_what_nobody_collects_must_be_known() -> None:
    with pytest.raises(ValueError, match="sizes differ: expected `n`, got `m`"):
        shapes.broadcast((n,), (m,))


def test_sizes_that_no_symbol_can_make_equal_are_assumed_to_be() -> None:
    fine, coarse = 4 * shapes.ceildiv(n, 16), 8 * shapes.ceildiv(n, 32)
    assert assumed((fine, coarse)) == ["4*ceildiv(n, 16) == 8*ceildiv(n, 32)"]


def test_what_was_assumed_holds_from_then_on() -> None:
    """In classes: what equals one of them equals all."""
    sizes = [4 * shapes.ceildiv(n, 16), 8 * shapes.ceildiv(n, 32), shapes.ceildiv(n, 4)]
    known = [Constraint(sizes[0], "==", size) for size in sizes[1:]]
    with constraints.with_equalities(known):
        assert shapes.broadcast((sizes[2],), (sizes[1],)) == (sizes[1],)
        with pytest.raises(ValueError, match="sizes differ"):
            shapes.unify(n, m)


def test_windows_pads_and_copies_assume_that_there_is_enough() -> None:
    with constraints.collect() as found:
        shapes.conv_output(n, 3, 1, 1, 0, 0)
        shapes.pad_shape((n,), (-2, 0))
        shapes.reshape((n, 4), (2, 6))
    assert [str(c) for c in found] == ["n >= 3", "n >= 2", "4*n == 12"]


def test_a_reshape_to_what_is_left_over_assumes_that_it_divides() -> None:
    with constraints.collect() as found:
        made = shapes.reshape((n, 3), (-1, 2))
        shapes.reshape((n, 3), (m, -1))
    assert shapes.evaluate(made[0], {"n": 4}) == 6
    assert [str(c) for c in found] == [
        "3*n == 2*n + 2*floordiv(n, 2)",
        "m >= 1",
        "3*n == m*floordiv(3*n, m)",
    ]


def solved(*texts: str) -> tuple[dict[str, str], list[str]]:
    parsed = [Constraint.parse(text) for text in texts]
    values, left = constraints.solve(parsed, ["n", "m", "k"])
    return {name: str(d) for name, d in values.items()}, [str(c) for c in left]


def test_multiples_are_assumed() -> None:
    with constraints.collect() as found:
        shapes.require_multiple(n, 4, "channels")
        shapes.require_multiple(8 * n, 4, "channels")
    assert [str(c) for c in found] == ["mod(n, 4) == 0"]
    with pytest.raises(ValueError, match="channels: expected a multiple of 4, got `6`"):
        shapes.require_multiple(6, 4, "channels")
    for divisor in (0, -1):
        with pytest.raises(ValueError, match=f"a divisor of 1 or more, got {divisor}"):
            shapes.require_multiple(6, divisor, "channels")


@pytest.mark.parametrize(
    ("operator", "sizes"),
    [("nn_group_norm", (2, 9, 5)), ("nn_pixel_shuffle", (1, 12, 3, 2))],
)
def test_open_channels_are_a_multiple_of_the_groups(
    operator: str, sizes: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    groups = {"nn_group_norm": 3, "nn_pixel_shuffle": 4}[operator]
    module = _on_open_channels(operator, x.ndim)
    model = relax_mlir.compile(module, cache=False)

    actual = model(x)[0]

    (expected,) = relax_mlir.compiler.reference.run(module, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=rf"expected `mod\(n, {groups}\)` to be 0"):
        model(x[:, 1:])


def _on_open_channels(operator: str, rank: int) -> relax_mlir.IRModule:
    """One operator on ``n`` channels, in groups."""
    channels = tir.Var("n", "int64")
    shape = [1, channels, 3, 2] if rank == 4 else [2, channels, 5]
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    with builder.function("main", [x]):
        if operator == "nn_pixel_shuffle":
            y = relax.op.nn.pixel_shuffle(x, 2)
        else:
            ones = builder.emit(relax.op.ones((channels,), "float32"))
            y = relax.op.nn.group_norm(x, ones, ones, 3, 1, [2])
        builder.emit_func_output(builder.emit(y))
    return builder.get()


def test_solve_gives_the_last_symbol_the_value_of_the_first() -> None:
    assert solved("n == m", "m == k") == ({"m": "n", "k": "n"}, [])
    assert solved("n == m", "m == 5") == ({"m": "5", "n": "5"}, [])
    assert solved("2*n == m + 1") == ({"m": "2*n - 1"}, [])
    assert solved("4*n == 12", "n >= 2") == ({"n": "3"}, [])


def test_solve_leaves_what_it_cannot_express() -> None:
    assert solved("n == min(n, 8)", "m >= 3") == ({}, ["n == min(n, 8)", "m >= 3"])
    assert solved("n == m", "min(m, 4) == n") == ({"m": "n"}, ["min(n, 4) == n"])
    # Not n := 0: it may as well be m that is 1.
    assert solved("n*m == n") == ({}, ["m*n == n"])


@pytest.mark.parametrize("texts", [("n == 2", "n >= 3"), ("n == 2", "n == 3")])
def test_solve_refuses_contradictions(texts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"unsatisfiable sizes: expected `{texts[1]}`"):
        solved(*texts)


def test_bad_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"bad constraint: .* got `n < 3`"):
        Constraint.parse("n < 3")


Sizes = list[int | str]


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Sizes],
    outputs: list[str],
    **weights: np.ndarray,
) -> bytes:
    float32 = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(x, float32, s) for x, s in inputs.items()],
        [helper.make_tensor_value_info(y, float32, None) for y in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return proto.SerializeToString()


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_two_names_of_one_size_become_one() -> None:
    add = helper.make_node("Add", ["x", "y"], ["z"])
    exe = relax_mlir.compile(model([add], {"x": ["n"], "y": ["m"]}, ["z"]))
    assert str(exe.signature) == "(x: float32[n], y: float32[n]) -> (z: float32[n])"
    assert exe(ones(3), ones(3))[0].tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match=r"`y`: dimension 0 \(`n`\): expected 3 .* 4"):
        exe(ones(3), ones(4))


def test_a_number_fixes_a_name() -> None:
    add = helper.make_node("Add", ["x", "y"], ["z"])
    exe = relax_mlir.compile(model([add], {"x": ["n"], "y": [5]}, ["z"]))
    with pytest.raises(ValueError, match="`x`: dimension 0: expected 5, got 3"):
        exe(ones(3), ones(5))


def test_a_window_that_does_not_fit_is_refused() -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"])
    exe = relax_mlir.compile(model([conv], {"x": [1, 1, "n"]}, ["y"], w=ones(1, 1, 3)))
    assert exe(ones(1, 1, 3))[0].tolist() == [[[3]]]
    with pytest.raises(
        ValueError,
        match="expected `n` to be at least 3, got 2 and 3, where `n` is 2 by dimension 2 of "
        "argument 0 `x`",
    ):
        exe(ones(1, 1, 2))


def test_a_table_that_is_too_short_is_refused() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["n"]),
        helper.make_node("Slice", ["table", "zero", "n", "zero"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    weights = {"table": ones(8, 2), "zero": np.array([0]), "one": np.array([1])}
    exe = relax_mlir.compile(model(nodes, {"x": ["n", 2]}, ["y"], **weights))
    assert exe(ones(8, 2))[0].sum() == 32
    with pytest.raises(ValueError, match=r"expected `n` to be `min\(n, 8\)`, got 9"):
        exe(ones(9, 2))


def test_an_input_may_be_a_multiple_of_a_size() -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["a", "b"]}, ["y"])
    exe = relax_mlir.compile(relax_mlir.import_onnx(data, shapes={"x": ["32*h", "w"]}))
    assert exe(ones(64, 3))[0].shape == (64, 3)
    with pytest.raises(ValueError, match=r"dimension 0: expected `32\*h`, got 65"):
        exe(ones(65, 3))


def test_a_size_that_no_input_tells_is_refused() -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["a"]}, ["y"])
    module = relax_mlir.import_onnx(data, shapes={"x": ["g*h"]})
    with pytest.raises(CompileError, match="size `g`: expected an input dimension"):
        relax_mlir.compile(module)


def test_a_model_whose_sizes_cannot_be_is_refused_at_import() -> None:
    nodes = [
        helper.make_node("Add", ["x", "a"], ["y"]),
        helper.make_node("MatMul", ["x", "b"], ["z"]),
    ]
    inputs: dict[str, Sizes] = {"x": ["n"], "a": [2], "b": [3]}
    with pytest.raises(ModelError, match="unsatisfiable sizes: expected `n == 3`"):
        relax_mlir.import_onnx(model(nodes, inputs, ["y", "z"]))


def test_pyramids_of_open_sizes_meet_again() -> None:
    """Halved and doubled, sizes are equal where they are even; others are refused."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["h"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["h", "", "scales"], ["u"], mode="nearest"),
        helper.make_node("Relu", ["u"], ["r"]),
        helper.make_node("Add", ["r", "x"], ["s"]),
        helper.make_node("Concat", ["s", "x", "u"], ["y"], axis=1),
    ]
    scales = np.array([1, 1, 2, 2], np.float32)
    data = model(nodes, {"x": [1, 1, "a", "b"]}, ["y"], scales=scales)
    exe = relax_mlir.compile(data)
    assert exe(ones(1, 1, 4, 6))[0].sum() == 4 * 4 * 6
    assert exe(ones(1, 1, 8, 2))[0].shape == (1, 3, 8, 2)
    with pytest.raises(ValueError, match=r"expected `.*` to be `.*`, got"):
        exe(ones(1, 1, 5, 6))


def test_a_model_may_only_return_its_input() -> None:
    identity = helper.make_node("Identity", ["x"], ["y"])
    exe = relax_mlir.compile(model([identity], {"x": ["n", 2]}, ["y"]))
    assert exe(ones(3, 2))[0].tolist() == ones(3, 2).tolist()
