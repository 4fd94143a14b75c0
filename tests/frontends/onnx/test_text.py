"""Operators on string tensors."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import relax_mlir
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.single_node import node_model

_WORDS = np.array([["an", "Über"], ["a b  c", ""]], object)
_MORE = np.array(["x", "y"], object)
_LINES = np.array(["ab c  déf", "", "a-b c"], object)


def run(
    operator: str, inputs: list[Any], outputs: int = 1, **options: Any
) -> list[Any]:
    """Results of the compiled node."""
    model, feeds = node_model(operator, inputs, outputs, **options)
    made = relax_mlir.compile(import_onnx(model))["main"](*feeds.values())
    return [x.numpy() for x in (made if isinstance(made, list) else [made])]


@pytest.mark.parametrize(
    ("operator", "inputs", "attrs", "wanted"),
    [
        (
            "StringConcat",
            [_WORDS, _MORE],
            {},
            [["anx", "Übery"], ["a b  cx", "y"]],
        ),
        (
            "StringNormalizer",
            [np.array(["The", "cat", "the"], object)],
            {"case_change_action": "UPPER", "stopwords": ["the"]},
            ["CAT"],
        ),
        (
            "StringNormalizer",
            [np.array([["the", "the"]], object)],
            {"is_case_sensitive": 1, "stopwords": ["the"]},
            [[""]],
        ),
        (
            "RegexFullMatch",
            [_WORDS],
            {"pattern": r"a.*"},
            [[True, False], [True, False]],
        ),
        (
            "Equal",
            [_WORDS, np.array(["an", ""], object)],
            {},
            [[True, False], [False, True]],
        ),
        ("Transpose", [_WORDS], {}, [["an", "a b  c"], ["Über", ""]]),
        ("Gather", [_MORE, np.array([1, 1, 0])], {}, ["y", "y", "x"]),
        ("Concat", [_MORE, _MORE[:1]], {"axis": 0}, ["x", "y", "x"]),
        (
            "Where",
            [np.array([True, False]), _MORE, np.array(["y", "z"], object)],
            {},
            ["x", "z"],
        ),
        ("Shape", [_WORDS], {}, [2, 2]),
        (
            "Cast",
            [np.array(["1.5", "-inf"], object)],
            {"to": TensorProto.FLOAT},
            [1.5, -np.inf],
        ),
        (
            "Cast",
            [np.array([1.5, np.nan], np.float32)],
            {"to": TensorProto.STRING},
            ["1.5", "NaN"],
        ),
        (
            "TfIdfVectorizer",
            [np.array(["a", "b", "a", "zz", "b"], object)],
            {
                "mode": "TF",
                "min_gram_length": 1,
                "max_gram_length": 2,
                "max_skip_count": 1,
                "ngram_counts": [0, 2],
                "ngram_indexes": [1, 0, 2],
                "pool_strings": ["a", "b", "a", "b"],
            },
            [2, 2, 2],  # next to each other once, and once with a word between
        ),
        (
            "ai.onnx.ml::LabelEncoder",
            [_WORDS],
            {"keys_strings": ["an", ""], "values_int64s": [3, 4], "default_int64": 9},
            [[3, 9], [9, 4]],
        ),
        (
            "ai.onnx.ml::LabelEncoder",
            [np.array([2, 1, 7])],
            {"keys_int64s": [1, 2], "values_strings": ["one", "two"]},
            ["two", "one", "_Unused"],
        ),
        (
            "ai.onnx.ml::CategoryMapper",
            [_MORE],
            {"cats_strings": ["y", "z"], "cats_int64s": [5, 6]},
            [-1, 5],
        ),
        (
            "ai.onnx.ml::OneHotEncoder",
            [_MORE],
            {"cats_strings": ["y", "x"]},
            [[0, 1], [1, 0]],
        ),
    ],
)
@pytest.mark.slow  # compiles, and some compile again when they run
def test_string_operators(
    operator: str, inputs: list[Any], attrs: dict[str, Any], wanted: list[Any]
) -> None:
    (actual,) = run(operator, inputs, **attrs)

    assert actual.shape == np.shape(wanted)
    assert actual.tolist() == wanted


@pytest.mark.slow  # compiles
def test_strings_are_split_at_whitespace_or_a_delimiter() -> None:
    parts, counts = run("StringSplit", [_WORDS], 2)
    assert parts.tolist() == [
        [["an", "", ""], ["Über", "", ""]],
        [["a", "b", "c"], ["", "", ""]],
    ]
    assert counts.tolist() == [[1, 1], [3, 0]]

    parts, counts = run("StringSplit", [_WORDS[1]], 2, delimiter=" ", maxsplit=2)
    assert parts.tolist() == [["a", "b", " c"], ["", "", ""]]
    assert counts.tolist() == [3, 1]


_PADDED = {"mark": 0, "mincharnum": 1, "pad_value": "#"}


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        (
            {"separators": [" ", "-"]},
            [["ab", "c", "déf"], ["#", "#", "#"], ["a", "b", "c"]],
        ),
        (
            {"separators": [r"\s"], "mincharnum": 2},
            [["ab", "déf"], ["#", "#"], ["a-b", "#"]],
        ),
        (
            {"tokenexp": r"\w+", "mark": 1},
            [
                ["\x02", "ab", "c", "d", "f", "\x03"],
                ["\x02", "\x03", *"####"],
                ["\x02", "a", "b", "c", "\x03", "#"],
            ],
        ),
        (
            {"separators": [""]},
            [[*"ab c  déf"], [*"#########"], [*"a-b c####"]],
        ),
        ({"tokenexp": "z", "mark": 1}, [[], [], []]),
    ],
)
def test_strings_are_tokenized(attrs: dict[str, Any], wanted: list[list[str]]) -> None:
    """As by onnxruntime, whose patterns know letters of ASCII alone."""
    made = run("com.microsoft::Tokenizer", [_LINES], **{**_PADDED, **attrs})

    assert made[0].tolist() == wanted


@pytest.mark.slow  # compiles
@pytest.mark.slow  # compiles
def test_regular_expressions_match_in_linear_time() -> None:
    texts = np.array(["a" * 100_000 + "!", "a" * 100_000], object)

    (actual,) = run("RegexFullMatch", [texts], pattern="(a+)+$")

    assert actual.tolist() == [False, True]


def test_string_class_labels() -> None:
    labels, scores = run(
        "ai.onnx.ml::LinearClassifier",
        [np.array([[1, 0], [0, 2]], np.float32)],
        2,
        classlabels_strings=["left", "right"],
        coefficients=[1.0, 0.0, 0.0, 1.0],
        intercepts=[0.0, 0.0],
    )

    assert labels.tolist() == ["left", "right"]
    assert scores.tolist() == [[1, 0], [0, 2]]


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("imports", [{"ai.onnx.ml": 4}, {"": 20}])
@pytest.mark.parametrize("is_known", [False, True])
def test_labels_of_models_that_import_one_domain(
    imports: dict[str, int], is_known: bool
) -> None:
    model, feeds = node_model(
        "ai.onnx.ml::LabelEncoder",
        [np.array(["b", "a"], object)],
        known=[0] * is_known,
        keys_strings=["a", "b"],
        values_int64s=[1, 2],
    )
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*item) for item in imports.items())

    (actual,) = relax_mlir.compile(model)(*feeds.values())

    np.testing.assert_array_equal(actual, [2, 1])


@pytest.mark.parametrize(
    "words", [{"keys_strings": ["a"]}, {"keys_int64s": [1], "values_floats": [1.0]}]
)
def test_label_encoder_has_one_table(words: dict[str, Any]) -> None:
    attrs: dict[str, Any] = {"values_int64s": [2], "keys_floats": [3.0], **words}
    x = np.array(["b"], object) if "keys_strings" in words else np.array([1])
    model, feeds = node_model("ai.onnx.ml::LabelEncoder", [x], **attrs)

    with pytest.raises(RelaxError, match="expected one of the attributes `keys_"):
        relax_mlir.compile(model)(*feeds.values())


def test_constant_strings_and_string_inputs() -> None:
    """The numbers that stand for the constant depend on what else there is."""
    constant = np.array(["m"], object)
    model, _ = node_model("Equal", [_MORE, constant], known=(1,))
    main = relax_mlir.compile(import_onnx(model))["main"]

    for words in (["m", "a"], ["z", "m"], ["b", "c"]):
        found = main(np.array(words, object)).numpy()
        assert found.tolist() == [word == "m" for word in words]


@pytest.mark.slow  # compiles
def test_strings_convert_to_numbers_for_compiled_code() -> None:
    model, _ = node_model(
        "ai.onnx.ml::LabelEncoder", [_MORE], keys_strings=["x"], values_floats=[2.5]
    )
    model.graph.node.append(helper.make_node("Exp", ["o0"], ["y"]))
    model.graph.output[0].name = "y"

    (actual,) = relax_mlir.compile(import_onnx(model))["main"](_MORE[:1]).numpy()

    assert actual == pytest.approx(np.exp(2.5), rel=1e-6)


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("operator", "inputs", "attrs", "message"),
    [
        ("RegexFullMatch", [_MORE], {"pattern": "("}, r"pattern '\('"),
        (
            "StringNormalizer",
            [np.array([["a"], ["b"]], object)],
            {},
            r"expected \[n\] or",
        ),
        (
            "StringConcat",
            [_MORE, np.array(["a"] * 3, object)],
            {},
            "shapes that broadcast",
        ),
        ("Cast", [_MORE], {"to": TensorProto.INT64}, "expected numbers"),
        (
            "com.microsoft::Tokenizer",
            [_MORE],
            {**_PADDED, "separators": ["("]},
            r"separators: pattern '\('",
        ),
        (
            "com.microsoft::Tokenizer",
            [_MORE],
            {**_PADDED, "separators": [" "], "mincharnum": 0},
            "mincharnum: expected 1 or more, got 0",
        ),
        (
            "ai.onnx.ml::OneHotEncoder",
            [_MORE],
            {"cats_strings": ["x"], "zeros": 0},
            "one of the categories, got 'y'",
        ),
    ],
)
def test_invalid_strings_are_rejected(
    operator: str, inputs: list[Any], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(RelaxError, match=message):
        run(operator, inputs, **attrs)


def test_numeric_operators_reject_strings() -> None:
    model, _ = node_model("Exp", [_MORE])

    with pytest.raises(ModelError, match="expected a tensor of numbers, got `i0`"):
        import_onnx(model)


def test_where_selects_strings() -> None:
    words = np.array([["b", "a"], ["c", "b"]], object)

    (chosen,) = run("Compress", [words, np.array([False, True])], axis=1)

    assert chosen.tolist() == [["a"], ["b"]]
