"""Size constraints of imported models are checked before they run."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.dialects import tensors
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir.size_constraints import constraints_of
from tests.frontends.onnx.differential import assert_same_numbers, parse, random


def assumed(text: str, opset: int = 17) -> list[str]:
    return [str(c) for c in constraints_of(import_onnx(parse(text, opset)))]


_COLUMN = "t = Constant <value_ints = [1]> () s = Concat <axis = 0> (b, t)"
_LESS = "a = Shape (x) five = Constant <value_ints = [5]> () b = Sub (a, five)"


@pytest.mark.parametrize(
    "body",
    [
        "z = ConstantOfShape (b)",
        "o = Constant <value_floats = [1.0]> () z = Expand (o, b)",
        "z = Tile (y, b)",
        "o = Constant <value_ints = [0, 1]> () i = Shape (y) z = OneHot (i, b, o)",
        "z = Resize <mode = 'linear'> (y, , , b)",
        "z = Resize <mode = 'nearest'> (y, , , b)",
        f"{_COLUMN} z = Reshape (y, s)",
    ],
)
def test_computed_size_is_nonnegative(body: str) -> None:
    body = body.replace("'", '"')
    text = f"g (float[n] x, float[m] y) => (float[k] z) {{ {_LESS} {body} }}"

    assert "n >= 5" in assumed(text)


def test_batch_under_two_names_is_divisible() -> None:
    """As exporters write it that name the sizes of every input anew."""
    text = """
        g (float[a, 6, 4] x, int64[b] y) => (float[p, q, r] z) {
            b = Shape (y) rest = Constant <value_ints = [-1, 8]> ()
            s = Concat <axis = 0> (b, rest)
            z = Reshape (x, s)
        }
    """
    model, x = relax_mlir.compile(parse(text, 17)), random(2, 6, 4)

    for batch in (1, 2, 3):
        (z,) = model(x, np.zeros(batch, np.int64))
        np.testing.assert_array_equal(z, x.reshape(batch, -1, 8))
    with pytest.raises(ValueError, match="got 48 and 32"):
        model(x, np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        model(x, np.zeros(0, np.int64))


@pytest.mark.parametrize(
    ("updated", "constraint"),
    [
        ("x, int64[m, 1] i, float[m, 3] u", "n >= min(3*m, 1)"),
        ("x, int64[m, 3] i, float[m, 3] u", "n >= min(3*m, 1)"),
    ],
)
def test_updates_must_be_nonempty(updated: str, constraint: str) -> None:
    op = "ScatterND" if "int64[m, 1]" in updated else "ScatterElements"
    text = f"g (float[n, 3] {updated}) => (float[n, 3] y) {{ y = {op} (x, i, u) }}"

    assert assumed(text) == [constraint]


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        ("z = Add (x, w)", 17),
        ("z = BatchNormalization (x, w, w, w, w)", 17),
        ("z = LayerNormalization (x, w)", 17),
        ("z = LayerNormalization (x, w, w)", 17),
        ("z = RMSNormalization (x, w)", 23),
        ("z = PRelu (x, w)", 17),
        ("z = GroupNormalization <num_groups = 2> (x, w, w)", 21),
        ("z = InstanceNormalization (x, w, w)", 17),
    ],
)
def test_known_size_constrains_the_other_operand(node: str, opset: int) -> None:
    text = f"g (float[n, d] x, float[8] w) => (float[a, b] z) {{ {node} }}"

    module = import_onnx(parse(text, opset))

    assert tensors.shape_of(module.func_op("main").type.inputs[0])[1] == 8
    assert tensors.shape_of(module.func_op("main").type.results[0])[1] == 8


@pytest.mark.parametrize(("node", "opset"), [("LayerNormalization", 17), ("PRelu", 17)])
def test_operand_cannot_broadcast_its_target(node: str, opset: int) -> None:
    text = f"g (float[n, 1] x, float[8] w) => (float[a, b] z) {{ z = {node} (x, w) }}"

    with pytest.raises(ModelError, match=r"cannot broadcast \[8\] to \[n, 1\]"):
        import_onnx(parse(text, opset))


def test_split_sizes_add_up() -> None:
    text = (
        "g (float[n] x, float[a] p, float[b] q) => (float[k] y, float[l] z) {"
        " s = Shape (p) t = Shape (q) u = Concat <axis = 0> (s, t)"
        " y, z = Split <axis = 0> (x, u) }"
    )

    main = import_onnx(parse(text)).func_op("main")

    (n,), (a,), (b,) = map(tensors.shape_of, main.type.inputs)
    assert n == a + b
    assert list(map(tensors.shape_of, main.type.results)) == [(a,), (b,)]


def test_split_size_is_nonnegative() -> None:
    text = (
        f"g (float[n] x) => (float[k] y, float[l] z) {{ {_LESS}"
        " u = Concat <axis = 0> (b, five) y, z = Split <axis = 0> (x, u) }"
    )

    assert assumed(text) == ["n >= 5"]


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_divisor_size_is_nonzero(op: str) -> None:
    text = (
        "g (float[n] x, float[m] y) => (int64[1] z)"
        f" {{ s = Shape (x) t = Shape (y) z = {op} (s, t) }}"
    )

    assert assumed(text) == ["m >= 1"]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_negative_pads_require_large_enough_sizes(mode: str) -> None:
    model = parse(
        "g (float[n, 4] x) => (float[a, b] y) {"
        " p = Constant <value_ints = [-2, 1, 2, -1]> ()"
        f' y = Pad <mode = "{mode}"> (x, p) }}',
        opset=19,
    )

    module = assert_same_numbers(model, {"x": random(5, 4)})

    assert "n >= 3" in map(str, constraints_of(module))  # one is left to be copied


def test_symbolic_pads_crop_or_pad() -> None:
    model = parse(
        "g (float[n] x, float[m] z) => (float[a] y) {"
        " s = Shape (z) c = Constant <value_ints = [3]> () d = Sub (s, c)"
        ' p = Concat <axis = 0> (d, d) y = Pad <mode = "edge"> (x, p) }',
        opset=19,
    )

    for size in (2, 3, 4):
        assert_same_numbers(model, {"x": random(5), "z": random(size)})
