"""FLOP counts from static shapes, including computed ones."""

import onnx
import pytest
from onnx import parser

from benchmarks.flops import count_flops
from benchmarks.known_sizes import fold_sizes
from models import bert, gpt2, lstm

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def parse(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEAD} {text}")


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        (
            "g (float[2, 3] x, float[3, 5] w) => (float[2, 5] y) { y = MatMul (x, w) }",
            2 * 2 * 3 * 5,
        ),
        (
            """g (float[4, 2, 3] x, float[4, 3, 5] w) => (float[4, 2, 5] y) {
              y = MatMul (x, w) }""",
            2 * 4 * 2 * 3 * 5,
        ),
        (
            """g (float[3, 2] x, float[5, 3] w) => (float[2, 5] y) {
              y = Gemm <transA = 1, transB = 1> (x, w) }""",
            2 * 2 * 3 * 5,
        ),
        (
            """g (float[1, 4, 9, 7] x, float[6, 2, 3, 3] w) => (float[1, 6, 4, 3] y) {
              y = Conv <group = 2, strides = [2, 2]> (x, w) }""",
            2 * (6 * 4 * 3) * (2 * 3 * 3),
        ),
        (
            """g (float[1, 4, 5, 3] x, float[4, 6, 2, 2] w) => (float[1, 6, 10, 6] y) {
              y = ConvTranspose <strides = [2, 2]> (x, w) }""",
            2 * (4 * 5 * 3) * (6 * 2 * 2),
        ),
        ("g (float[7] x) => (float[7] y) { y = Exp (x) }", 0),
    ],
    ids=["matmul", "batched", "gemm", "conv", "conv_transpose", "elementwise"],
)
def test_multiply_add_counts_as_two_flops(text: str, flops: int) -> None:
    assert count_flops(parse(text)) == flops


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layer_counts_input_and_recurrent_matmuls(
    op: str, gates: int
) -> None:
    model = lstm.build(op, seq=7, width=3, hidden=5)

    assert count_flops(model) == 2 * 7 * gates * 5 * ((3 + 5) + 2 * (5 + 5))


def test_shape_computations_are_folded() -> None:
    tokens, hidden, vocab = 16, 32, 100
    projections = 4 * hidden * hidden + 2 * hidden * 4 * hidden
    attention = 2 * tokens * hidden

    flops = count_flops(bert.build(1, hidden, 4, vocab, tokens))

    assert flops == 2 * tokens * (projections + attention)


def test_decoder_step_counts_attention_over_the_cache() -> None:
    past, hidden, vocab = 15, 32, 100
    layer = 4 * hidden * hidden + 2 * hidden * 4 * hidden + 2 * (past + 1) * hidden

    model = gpt2.build(1, past, layers=2, hidden=hidden, heads=4, vocab=vocab)

    assert count_flops(model) == 2 * (2 * layer + hidden * vocab)


def test_symbolic_sizes_are_rejected_by_name() -> None:
    model = parse(
        "g (float[n, 3] x, float[3, 5] w) => (float[n, 5] y) { y = MatMul (x, w) }"
    )

    with pytest.raises(
        ValueError, match=r"`y` \(MatMul\): shape of `x`: expected static sizes"
    ):
        count_flops(model)


def test_folding_removes_shape_computations_from_a_copy() -> None:
    model = bert.build(1, 32, 4, 100, 16)
    before = model.SerializeToString(deterministic=True)

    folded, shapes = fold_sizes(model)

    kinds = {node.op_type for node in folded.graph.node}
    assert kinds.isdisjoint({"Shape", "Constant", "Slice"})
    assert shapes["last_hidden_state"] == (1, 16, 32)
    assert model.SerializeToString(deterministic=True) == before
