"""Models compiled with ``checks="indices"`` reject the indices that onnxruntime rejects."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import relax_mlir
from relax_mlir.errors import IndexOutOfRangeError, IRError
from relax_mlir.targets import TargetError
from tests.frontends.onnx.differential import parse
from tests.frontends.onnx.single_node import node_model

onnxruntime.set_default_logger_severity(4)


@dataclass(frozen=True)
class NodeCase:
    """A node with an index operand.

    Attributes:
        op_type: the operator, ``domain::Name`` outside of ai.onnx.
        inputs: the operands: arrays, shapes of floats, None for the indices and for what
            is left out.
        index: the number of the operand that holds the indices.
        shape: of the indices.
        lowest, highest: the indices that are allowed; None for no limit.
        dtype: of the indices.
        outputs: how many the node has.
        known: numbers of operands that are initializers.
        opset: of ai.onnx.
        attrs: attributes of the node.
    """

    op_type: str
    inputs: Sequence[Any]
    index: int
    shape: tuple[int, ...]
    lowest: int | None
    highest: int | None
    dtype: str = "int64"
    outputs: int = 1
    known: Sequence[int] = ()
    opset: int = 21
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op_type}-{self.index}"

    def arrays(self) -> list[np.ndarray | None]:
        """The operands, with the lowest indices that are allowed."""
        rng = np.random.default_rng(0)
        given = [
            rng.uniform(0.1, 1, x).astype(np.float32) if isinstance(x, tuple) else x
            for x in self.inputs
        ]
        given += [None] * (self.index + 1 - len(given))
        given[self.index] = np.full(self.shape, self.lowest or 0, self.dtype)
        return given

    def model(self) -> onnx.ModelProto:
        """A model of the node."""
        opsets = {"": self.opset}
        made, _ = node_model(
            self.op_type,
            self.arrays(),
            self.outputs,
            known=self.known,
            opsets=opsets,
            **self.attrs,
        )
        return made

    def calls(self) -> Iterator[tuple[list[np.ndarray], int]]:
        """Inputs of calls, and the index in them that may be out of range.

        It is the first or the last of the indices.
        """
        low = -(2**31) if self.lowest is None else self.lowest
        high = 2**31 - 1 if self.highest is None else self.highest
        tried = [low, high]
        tried += [] if self.lowest is None else [low - 1]
        tried += [] if self.highest is None else [high + 1]
        for value in tried:
            for place in (0, -1):
                given = self.arrays()
                indices = given[self.index]
                assert indices is not None
                indices.reshape(-1)[place] = value
                numbered = enumerate(given)
                kept = [a for n, a in numbered if a is not None and n not in self.known]
                yield kept, value

    def allows(self, value: int) -> bool:
        """Whether an index is allowed."""
        is_low = self.lowest is not None and value < self.lowest
        return not is_low and (self.highest is None or value <= self.highest)


_MS = "com.microsoft::"
_LOSS = {"inputs": [(2, 3)], "index": 1, "shape": (2,), "lowest": -3, "highest": 2}
_CELL = {"index": 4, "shape": (2,), "lowest": 0, "highest": 4, "dtype": "int32"}
_CELL |= {"attrs": {"hidden_size": 2}}
_EMBED = {"shape": (1, 2), "lowest": 0, "highest": 2, "dtype": "int32", "outputs": 2}
_EMBED |= {"opset": 17, "known": (2, 3, 4, 5, 6)}
_TABLES = [(3, 4), (3, 4), (3, 4), (4,), (4,)]
_ZERO = np.zeros((1, 2), np.int32)
_GROUPED = [(1, 1, 32), (1, 1, 16), (1, 1, 16), (1, 1, 4, 16), (1, 1, 4, 16)]
_FOUR, _FIVE = np.array([4], np.int32), np.array(5, np.int32)
_GROUPS = {"outputs": 3, "known": (6,)}
_HEADS = {"num_heads": 2, "kv_num_heads": 1}
_WINDOW = {"kernel_shape": [2, 2], "strides": [2, 2]}
_SIZE = {"output_height": 2, "output_width": 2}
_TURNED = {"time_axis": 1, "batch_axis": 0}

CASES = [
    NodeCase("Gather", [(5, 3)], 1, (3,), -5, 4),
    NodeCase("Gather", [(2, 5)], 1, (2, 2), -5, 4, "int32", attrs={"axis": 1}),
    NodeCase("GatherElements", [(5, 3)], 1, (2, 3), -5, 4),
    NodeCase("GatherND", [(5, 5)], 1, (3, 2), -5, 4),
    NodeCase("GatherND", [(3, 5)], 1, (3, 1), -5, 4, attrs={"batch_dims": 1}),
    NodeCase("ScatterElements", [(5,), None, (3,)], 1, (3,), -5, 4),
    NodeCase("Scatter", [(5,), None, (3,)], 1, (3,), -5, 4, opset=10),
    NodeCase("ScatterND", [(5, 2), None, (3, 2)], 1, (3, 1), -5, 4),
    NodeCase("ReverseSequence", [(5, 2)], 1, (2,), 0, 5),
    NodeCase("ReverseSequence", [(2, 5)], 1, (2,), 0, 5, attrs=_TURNED),
    NodeCase("RoiAlign", [(2, 1, 5, 5), (3, 4)], 2, (3,), 0, 1, attrs=_SIZE),
    NodeCase("RNN", [(4, 2, 3), (1, 2, 3), (1, 2, 2)], **_CELL),
    NodeCase("GRU", [(4, 2, 3), (1, 6, 3), (1, 6, 2)], **_CELL),
    NodeCase("LSTM", [(4, 2, 3), (1, 8, 3), (1, 8, 2)], **_CELL),
    NodeCase("NegativeLogLikelihoodLoss", **_LOSS),
    NodeCase("SoftmaxCrossEntropyLoss", **_LOSS),
    NodeCase("MaxUnpool", [(1, 1, 2, 2)], 1, (1, 1, 2, 2), 0, 15, attrs=_WINDOW),
    NodeCase("TensorScatter", [(2, 5, 2), (2, 2, 2)], 2, (2,), 0, 3, opset=24),
    NodeCase(
        "TensorScatter",
        [(2, 5, 2), (2, 2, 2)],
        *(2, (2,), 0, None),
        opset=24,
        attrs={"mode": "circular"},
    ),
    NodeCase("ai.onnx.ml::ArrayFeatureExtractor", [(2, 5)], 1, (3,), 0, 4),
    NodeCase(
        f"{_MS}RotaryEmbedding", [(1, 2, 2, 4), None, (4, 2), (4, 2)], 1, (1, 2), 0, 3
    ),
    NodeCase(
        f"{_MS}RotaryEmbedding", [(1, 2, 3, 4), None, (4, 2), (4, 2)], 1, (1,), 0, 1
    ),
    NodeCase(
        "RotaryEmbedding", [(1, 2, 2, 4), (4, 2), (4, 2)], 3, (1, 2), 0, 3, opset=23
    ),
    *(
        NodeCase(f"{_MS}EmbedLayerNormalization", inputs, index, **_EMBED)
        for inputs, index in (
            ([None, _ZERO, *_TABLES], 0),
            ([_ZERO, None, *_TABLES], 1),
            ([_ZERO, _ZERO, *_TABLES], 8),
        )
    ),
    NodeCase(
        f"{_MS}GroupQueryAttention",
        [*_GROUPED, None, _FIVE],
        *(5, (1,), 0, 4, "int32"),
        **_GROUPS,
        attrs=_HEADS,
    ),
    NodeCase(
        f"{_MS}GroupQueryAttention",
        [*_GROUPED, _FOUR, _FIVE, (6, 8), (6, 8)],
        *(9, (1, 1), 0, 5),
        **_GROUPS,
        attrs={**_HEADS, "do_rotary": 1},
    ),
    NodeCase(
        "Attention",
        [(2, 2, 2, 4), (2, 2, 3, 4), (2, 2, 3, 4)],
        *(6, (2,), 0, 3),
        opset=24,
    ),
    NodeCase("OneHot", [None, np.array(5), (2,)], 0, (2,), None, None, known=(1,)),
]
_SLOW = {"RNN", "GRU", "LSTM", f"{_MS}GroupQueryAttention", "Attention", "RoiAlign"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=[pytest.mark.slow] * (c.op_type in _SLOW), id=f"{n}-{c}")
        for n, c in enumerate(CASES)
    ],
)
def test_indices_are_rejected_as_by_onnxruntime(case: NodeCase) -> None:
    """The lowest and highest, one below and one above; first and last of the indices."""
    model = case.model()
    compiled = relax_mlir.compile(model, checks="indices")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]

    for inputs, value in case.calls():
        is_allowed = _accepts(session, dict(zip(names, inputs, strict=True)))
        assert is_allowed == case.allows(value), value
        if is_allowed:
            compiled(*inputs)
            continue
        with pytest.raises(IndexOutOfRangeError, match=r"`o0.*index out of range"):
            compiled(*inputs)


def _accepts(
    session: onnxruntime.InferenceSession, inputs: Mapping[str, np.ndarray]
) -> bool:
    try:
        session.run(None, inputs)
    except Exception:  # onnxruntime has classes of its own for each kind of error
        return False
    return True


def test_batch_indices_are_rejected_as_by_onnxruntime() -> None:
    """They are floats, the first column of the regions."""
    x = np.ones((2, 1, 5, 5), np.float32)
    rois = np.array([[0, 0, 0, 2, 2], [1, 0, 0, 2, 2]], np.float32)
    model, _ = node_model("MaxRoiPool", [x, rois], pooled_shape=[2, 2])
    compiled = relax_mlir.compile(model, checks="indices")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    for image, is_allowed in ((0, True), (1, True), (-1, False), (2, False)):
        rois[1, 0] = image
        assert _accepts(session, {"i0": x, "i1": rois}) == is_allowed
        if is_allowed:
            compiled(x, rois)
            continue
        with pytest.raises(IndexOutOfRangeError, match=rf"\[1, 0\].*got {image}$"):
            compiled(x, rois)


@pytest.mark.parametrize(
    ("operator", "indices"),
    [
        ("Gather", (0,)),
        ("GatherElements", (0, 3)),
        ("GatherND", (0, 2)),
        ("ai.onnx.ml::ArrayFeatureExtractor", (0,)),
    ],
)
def test_empty_indices_are_valid(operator: str, indices: tuple[int, ...]) -> None:
    inputs = [np.ones((5, 3), np.float32), np.zeros(indices, np.int64)]
    model, arrays = node_model(operator, inputs)
    compiled = relax_mlir.compile(model, checks="indices")

    (y,) = compiled(*arrays.values())

    assert y.size == 0


def gather(*, extra: str = "") -> onnx.ModelProto:
    """A model that gathers rows, with symbolic sizes."""
    return parse(
        "g (float[n, 3] x, int64[k] i) => (float[k, 3] y) "
        f"{{ [rows] y = Gather <axis = 0> (x, i) {extra} }}",
        opset=21,
    )


LEVELS = ("relax", "tir", "planned", "linalg", "loops", "llvm")
X = np.arange(15, dtype=np.float32).reshape(5, 3)


def test_the_error_names_node_operand_position_index_and_range() -> None:
    compiled = relax_mlir.compile(gather(), checks="indices")

    with pytest.raises(IndexError) as caught:
        compiled(X, np.array([0, 1, -6]))

    assert str(caught.value) == (
        "`rows` (Gather): operand `indices`: index out of range at [2]: "
        "expected -5 to 4, got -6"
    )


def test_bounds_are_the_sizes_of_the_call() -> None:
    compiled = relax_mlir.compile(gather(), checks="indices")

    np.testing.assert_array_equal(compiled(X, np.array([4]))[0], X[[4]])
    with pytest.raises(IndexOutOfRangeError, match="expected -4 to 3, got 4"):
        compiled(X[:4], np.array([4]))


def test_symbolic_number_of_indices_can_be_zero() -> None:
    compiled = relax_mlir.compile(gather(), checks="indices")

    assert compiled(X, np.zeros(0, np.int64))[0].shape == (0, 3)
    assert compiled(X[:0], np.zeros(0, np.int64))[0].shape == (0, 3)


def test_components_have_separate_ranges() -> None:
    model = parse(
        "g (float[2, 7] x, int64[k, 2] i) => (float[k] y) { y = GatherND (x, i) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")
    x = np.ones((2, 7), np.float32)

    compiled(x, np.array([[1, 6], [-2, -7]]))
    with pytest.raises(
        IndexOutOfRangeError, match=r"at \[1, 0\]: expected -2 to 1, got 6"
    ):
        compiled(x, np.array([[1, 6], [6, 1]]))


def test_ignored_target_is_valid() -> None:
    model = parse(
        "g (float[2, 3] x, int64[2] t) => (float l) "
        "{ l = NegativeLogLikelihoodLoss <ignore_index = -9> (x, t) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")
    x = np.ones((2, 3), np.float32)

    compiled(x, np.array([-9, 2]))
    with pytest.raises(IndexOutOfRangeError, match="got -8"):
        compiled(x, np.array([-8, 2]))


@pytest.mark.parametrize(
    "model", [gather(), CASES[27].model()], ids=["gather", "attention"]
)
def test_model_without_checks_has_no_check_calls(model: onnx.ModelProto) -> None:
    """Not even for nodes whose rules say what their operands may hold."""
    module = relax_mlir.import_onnx(model)

    default = str(relax_mlir.lower(module, to="planned"))
    checked = str(relax_mlir.lower(module, to="planned", checks="indices"))

    assert "check_indices" not in default
    assert 'callee = "relax_mlir.check_indices"' in checked


def test_constant_indices_are_checked_at_compile_time() -> None:
    def model(index: int) -> onnx.ModelProto:
        return parse(
            "g (float[5, 3] x) => (float[1, 3] y) <int64[1] i = {2}, int64[1] d = "
            f"{{{index}}}> {{ j = Add (i, d) [rows] y = Gather <axis = 0> (x, j) }}",
            opset=21,
        )

    relax_mlir.compile(model(2), checks="indices")(X)
    with pytest.raises(IndexOutOfRangeError, match=r"`rows`.*expected -5 to 4, got 5"):
        relax_mlir.compile(model(3), checks="indices")
    relax_mlir.compile(model(3))(X)


def test_constant_index_operands_of_fused_nodes_are_checked_at_compile_time() -> None:
    x, table = np.ones((1, 2, 2, 4), np.float32), np.ones((4, 2), np.float32)

    def model(place: int) -> onnx.ModelProto:
        inputs = [x, np.array([[0, place]]), table, table]
        operator = "com.microsoft::RotaryEmbedding"
        return node_model(operator, inputs, known=(1,))[0]

    relax_mlir.compile(model(3), checks="indices")(x, table, table)
    with pytest.raises(IndexOutOfRangeError, match=r"position_ids.*0 to 3, got 4"):
        relax_mlir.compile(model(4), checks="indices")


def test_constant_index_of_a_symbolic_axis_is_checked_at_run_time() -> None:
    model = parse(
        "g (float[n, 3] x) => (float[1, 3] y) <int64[1] i = {4}> "
        "{ y = Gather <axis = 0> (x, i) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")

    compiled(X)
    with pytest.raises(IndexOutOfRangeError, match="expected -4 to 3, got 4"):
        compiled(X[:4])


def test_unused_result_is_checked() -> None:
    model = parse(
        "g (float[5, 3] x, int64[2] i) => (int64[2] s, float[5, 3] z) "
        "{ r = Gather <axis = 0> (x, i) s = Shape (r) z = Neg (x) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")

    np.testing.assert_array_equal(compiled(X, np.array([0, 4]))[0], [2, 3])
    with pytest.raises(IndexOutOfRangeError):
        compiled(X, np.array([0, 5]))


_BRANCHES = (
    "g (bool p, float[5, 3] x, int64[1] i) => (float[1, 3] y) { y = If (p) <"
    "then_branch = t () => (float[1, 3] a) { [rows] a = Gather <axis = 0> (x, i) }, "
    "else_branch = e () => (float[1, 3] b) "
    "{ s = Constant <value_ints = [1, 3]> () b = ConstantOfShape (s) }> }"
)
_LOOP = (
    "g (int64 n, float[5] x) => (float s) {"
    "z = Constant <value_float = 0.0> () t = Constant <value = bool {1}> ()"
    "s = Loop (n, t, z) <body = b (int64 k, bool c, float a) => (bool d, float e) "
    "{ d = Identity (c) [rows] v = Gather <axis = 0> (x, k) e = Add (a, v) }> }"
)


@pytest.mark.slow
def test_branch_checks_only_if_taken() -> None:
    compiled = relax_mlir.compile(parse(_BRANCHES, opset=21), checks="indices")

    compiled(np.array(False), X, np.array([7]))
    compiled(np.array(True), X, np.array([4]))
    with pytest.raises(IndexOutOfRangeError, match=r"rows.*got 7"):
        compiled(np.array(True), X, np.array([7]))


@pytest.mark.slow
def test_loop_checks_every_step_and_in_saved_models(tmp_path: Path) -> None:
    compiled = relax_mlir.compile(parse(_LOOP, opset=21), checks="indices")
    compiled.save(tmp_path / "loop.rxm")

    for model in (compiled, relax_mlir.load(tmp_path / "loop.rxm")):
        assert model(np.array(5), X[:, 0])[0] == X[:, 0].sum()
        with pytest.raises(IndexOutOfRangeError, match="expected -5 to 4, got 5"):
            model(np.array(6), X[:, 0])


def test_indices_into_strings_are_checked() -> None:
    model = parse(
        "g (string[n] x, int64[k] i) => (string[k] y) "
        "{ [rows] y = Gather <axis = 0> (x, i) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")
    x = np.array(["a", "b", "c"], object)

    assert compiled(x, np.array([0, -1]))[0].tolist() == ["a", "c"]
    with pytest.raises(IndexOutOfRangeError, match=r"`rows` .*expected -3 to 2, got 3"):
        compiled(x, np.array([3]))


def test_recompiled_broadcasts_are_checked() -> None:
    """Code for such sizes is compiled from the source, as the model was."""
    model = parse(
        "g (float[n, 3] x, float[m, 3] z, int64[k] i) => (float[k, 3] y) "
        "{ s = Add (x, z) [rows] y = Gather <axis = 0> (s, i) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, checks="indices")

    for z in (X, X[:1]):
        np.testing.assert_array_equal(compiled(X, z, np.array([4]))[0], (X + z)[[4]])
        with pytest.raises(IndexOutOfRangeError, match="expected -5 to 4, got 5"):
            compiled(X, z, np.array([5]))


def test_saved_model_checks(tmp_path: Path) -> None:
    relax_mlir.compile(gather(), checks="indices").save(tmp_path / "m.rxm")
    loaded = relax_mlir.load(tmp_path / "m.rxm")

    with pytest.raises(IndexOutOfRangeError):
        loaded(X, np.array([5]))


def test_cache_distinguishes_models_with_checks(tmp_path: Path) -> None:
    model = gather().SerializeToString()
    for _ in range(2):
        relax_mlir.compile(model, cache=tmp_path)(X, np.array([5]))
        with pytest.raises(IndexOutOfRangeError):
            relax_mlir.compile(model, cache=tmp_path, checks="indices")(
                X, np.array([5])
            )


def test_threads_raise_only_their_own_errors() -> None:
    compiled = relax_mlir.compile(gather(), checks="indices", threads=2)
    errors: dict[int, str] = {}

    def call(number: int) -> None:
        for _ in range(50):
            np.testing.assert_array_equal(compiled(X, np.array([1, 2]))[0], X[1:3])
            try:
                compiled(X, np.array([number]))
            except IndexOutOfRangeError as error:
                errors[number] = str(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in (5, 6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {n: e.rpartition(" ")[2] for n, e in errors.items()} == {
        n: str(n) for n in (5, 6, 7)
    }


def test_call_after_an_error_is_correct() -> None:
    compiled = relax_mlir.compile(gather(), checks="indices")

    with pytest.raises(IndexOutOfRangeError):
        compiled(X, np.array([9]))
    np.testing.assert_array_equal(compiled(X, np.array([-1]))[0], X[[-1]])


@pytest.mark.parametrize("level", LEVELS)
def test_lowered_module_keeps_checks(level: str) -> None:
    module = relax_mlir.import_onnx(gather())
    lowered = relax_mlir.lower(module, to=level, checks="indices")

    np.testing.assert_array_equal(relax_mlir.run(lowered, X, np.array([4]))[0], X[[4]])
    with pytest.raises(IndexOutOfRangeError, match="expected -5 to 4, got 5"):
        relax_mlir.run(lowered, X, np.array([5]))


def test_non_graph_input_is_rejected() -> None:
    lowered = relax_mlir.lower(relax_mlir.import_onnx(gather()), to="tir")

    with pytest.raises(IRError, match=r"checks `indices`: expected a graph.*`tir`"):
        relax_mlir.compile(lowered, checks="indices")
    with pytest.raises(TargetError, match="unknown checks `all`"):
        relax_mlir.compile(gather(), checks="all")
