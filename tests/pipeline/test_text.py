"""Pipeline text: parsing, printing and errors."""

import contextlib
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relax_mlir.errors import PipelineError
from relax_mlir.passes.schedule.apply import Apply
from relax_mlir.passes.schedule.apply_gpu import ApplyGpu
from relax_mlir.passes.tir.fuse_attention import FuseAttention
from relax_mlir.pipeline import (
    Pipeline,
)
from relax_mlir.pipeline.options import describe_options
from relax_mlir.pipeline.pipeline import Nest, OurPass, UpstreamPass
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.target_features import Gpu, VectorUnit


def our_pass(**options: Any) -> OurPass:  # Any: as many types as options
    kind = import_module("relax_mlir.passes.relax.zz_options").ZzOptions
    return OurPass("relax-zz-options", kind(**options))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("builtin.module()", ""),
        ("cse", "cse"),
        ("builtin.module(cse)", "cse"),
        (" builtin.module ( cse ,\n canonicalize ) ", "cse,canonicalize"),
        ("func.func(cse,any(cse)),cse", "func.func(cse,any(cse)),cse"),
        ("builtin.module(cse),builtin.module(cse)", "cse,cse"),
        ("builtin.module(builtin.module(cse))", "builtin.module(builtin.module(cse))"),
        ("canonicalize{ top-down=0 }", "canonicalize{top-down=0}"),
        ("inline{op-pipelines=func.func(cse)}", "inline{op-pipelines=func.func(cse)}"),
        ("relax-zz-options", "relax-zz-options"),
        ("relax-zz-options{}", "relax-zz-options"),
        ("relax-zz-options{count=1}", "relax-zz-options"),
        ("relax-zz-options{ is-on\ncount=2 }", "relax-zz-options{count=2 is-on=true}"),
        ("func.func(relax-zz-rename)", "func.func(relax-zz-rename)"),
    ],
)
def test_pipeline_text_is_printed_in_its_shortest_form(text: str, printed: str) -> None:
    pipeline = Pipeline.parse(text)

    assert str(pipeline) == printed
    assert Pipeline.parse(printed) == pipeline


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("count=-3", {"count": -3}),
        ("share=1e-3", {"share": 1e-3}),
        ("share=2", {"share": 2.0}),
        ("is-on", {"is_on": True}),
        ("is-on=1", {"is_on": True}),
        ("some-text=a,b", {"some_text": "a,b"}),
        ("some-text='x y'", {"some_text": "x y"}),
        ("some-text={x y}", {"some_text": "x y"}),
        (r'some-text="say \"hi\" }"', {"some_text": 'say "hi" }'}),
        ("some-text=", {"some_text": ""}),
        ("sizes=8", {"sizes": (8,)}),
        ("sizes={4, 8}", {"sizes": (4, 8)}),
        ("sizes=", {"sizes": ()}),
        ('texts=a,"b,c",', {"texts": ("a", "b,c", "")}),
        ("pair=3,0.5", {"pair": (3, 0.5)}),
        ("limit=7", {"limit": 7}),
        ("limit=none", {"limit": None}),
        ("label=none", {"label": None}),
        ('label="none"', {"label": "none"}),
        ("mode=small", {"mode": "small"}),
    ],
)
def test_options_are_parsed_by_field_type(
    options: str, expected: dict[str, Any]
) -> None:
    pipeline = Pipeline.parse(f"relax-zz-options{{{options}}}")

    assert pipeline == Pipeline((our_pass(**expected),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cse,", "character 5: expected the name of a pass, got the end"),
        (",cse", "character 1: expected the name of a pass, got `,`"),
        ("cse canonicalize", "character 5: expected `,` or the end, got `c`"),
        ("cse)", "character 4: expected `,` or the end, got `\\)`"),
        ("func.func(cse", "character 10: `\\(` is never closed"),
        ("cse{a={}", "character 4: `{` is never closed"),
        ("cse{a='}", "character 7: `'` is never closed"),
        ("func.func(cse}", "character 14: expected `,` or `\\)`, got `}`"),
        ("func.func", "expected passes in parentheses after `func.func`"),
        ("func.func()", r"expected passes in `func.func\(...\)`"),
        ("fun.func(cse)", "unknown operation `fun.func`. Did you mean `func.func`"),
        ("cse(cse)", "`cse` is a pass: its options go in braces"),
        ("canonicalise", "unknown pass `canonicalise`. Did you mean `canonicalize`"),
        ("relax-zz-option", "unknown pass.*Did you mean `relax-zz-options`"),
        ("relax-Zz-options", "unknown pass `relax-Zz-options`"),
        ("tir-../relax/zz", "expected `,` or the end, got `/`"),
        ("relax---init--", "unknown pass"),
        (
            "tir-prepacking",
            "expected a frozen .*`Prepacking` .*`relax_mlir/passes/tir/prepacking.py`",
        ),
        ("func.func(gpu-kernel-outlining)", "runs on `builtin.module`, not on `func"),
        ("llvm-request-c-wrappers", r"Write `func.func\(llvm-request-c-wrappers\)`"),
        ("func.func(relax-zz-options)", "runs on `builtin.module`, not on `func.func`"),
        ("gpu.module(relax-zz-rename)", "`builtin.module` or `func.func`, not on `gpu"),
        (
            "canonicalize{topdown=1}",
            "no option `topdown`: its options are .*`top-down`",
        ),
        ("canonicalize{max-iterations=x}", "expected long, got `x`"),
        ("canonicalize{region-simplify=x}", "expected `disabled` or `normal` or"),
        ("inline{op-pipelines=func.func(cze)}", "unknown pass `cze` in its options"),
        ("relax-zz-options{cuont=1}", "no option `cuont`: .*Did you mean `count`"),
        ("relax-zz-options{is_on=1}", "no option `is_on`.*Did you mean `is-on`"),
        ("relax-zz-options{count=1 count=2}", "character 26: .*`count` given twice"),
        ("relax-zz-options{count=x}", "option `count`: expected int, got `x`"),
        ("relax-zz-options{count}", "option `count`: expected int, got nothing"),
        ("relax-zz-options{is-on=yes}", "expected `true` or `false`, got `yes`"),
        ("relax-zz-options{mode=slow}", "expected `fast` or `small`, got `slow`"),
        ("relax-zz-options{sizes=1,b}", "expected int, got `b`"),
        ("relax-zz-options{sizes={1,{2}}}", "expected quotes around `{`"),
        ("relax-zz-options{pair=1}", "expected list of 2: int, float, got 1"),
        ("relax-zz-options{limit=x}", "expected int or `none`, got `x`"),
        ("relax-zz-options{=1}", "expected an option, got `=`"),
        ("relax-zz-options{is-on,count=1}", "expected a space or `}`, got `,`"),
        ("relax-zz-required", "option `count` is required"),
        ("relax-zz-required{count=10}", "count must be at most 9"),
        ("cse,\ud800", "character 5: invalid Unicode"),
        ("any(" * 1000 + "cse" + ")" * 1000, "nested deeper than 50 levels"),
        ("inline{op-pipelines=" + "any(" * 1000 + "}", "nested deeper than 50 levels"),
    ],
)
def test_malformed_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.parse(text)


def test_caret_marks_the_position() -> None:
    text = "relax-zz-options,\nrelax-zz-options{is-on count=x}"

    with pytest.raises(PipelineError) as caught:
        Pipeline.parse(text)

    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^") :] == "count=x}"


texts = st.text(st.characters(codec="utf-8"))


option_values = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(),
        "share": st.floats(allow_nan=False),
        "is_on": st.booleans(),
        "some_text": texts,
        "sizes": st.lists(st.integers()).map(tuple),
        "texts": st.lists(texts).map(tuple),
        "pair": st.tuples(st.integers(), st.floats(allow_nan=False)),
        "limit": st.none() | st.integers(),
        "label": st.none() | texts,
        "mode": st.sampled_from(["fast", "small"]),
    },
)


upstream_passes = st.sampled_from(
    [
        UpstreamPass("cse"),
        UpstreamPass("canonicalize", "max-iterations=3  top-down=false"),
        UpstreamPass("canonicalize", 'disable-patterns="a b",c'),
        UpstreamPass("inline", "op-pipelines=func.func(cse,canonicalize{top-down})"),
    ]
)


nests = st.recursive(
    upstream_passes,
    lambda inner: st.builds(
        Nest,
        st.sampled_from(["any", "func.func", "builtin.module", "gpu.module"]),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


pipelines = st.lists(option_values.map(lambda o: ("ours", o)) | nests, max_size=5)


@settings(max_examples=25)  # 10 ms each
@given(pipelines)
def test_pipelines_round_trip_through_text(elements: list[Any]) -> None:
    pipeline = Pipeline(
        tuple(our_pass(**e[1]) if isinstance(e, tuple) else e for e in elements)
    )

    assert Pipeline.parse(str(pipeline)) == pipeline


pieces = st.sampled_from(
    [
        "cse",
        "canonicalize",
        "inline",
        "relax-zz-options",
        "relax-zz-required",
        "relax-",
        "tir-x",
        "any",
        "func.func",
        "builtin.module",
        "count=",
        "sizes=",
        "some-text=",
        "is-on",
        "pipeline=",
        "max-iterations=",
        "op-pipelines=",
        "composite-fixed-point-pass",
        "transform-interpreter",
        "1",
        "x",
        "{",
        "}",
        "(",
        ")",
        ",",
        "'",
        '"',
        "\\",
        "=",
        "\n",
        "\t",
        "\x00",
        "none",
        "-1",
        "é",
        "--",
    ]
)


@given(st.lists(pieces, max_size=20).map("".join) | st.text(max_size=40))
@example("cse{")
@example("\\")
def test_any_text_parses_or_raises_a_pipeline_error(text: str) -> None:
    with contextlib.suppress(PipelineError):
        pipeline = Pipeline.parse(text)
        assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.parametrize(
    "unit",
    [
        *(VectorUnit(), VectorUnit(128), VectorUnit(512, int8_dot=True)),
        VectorUnit(512, bf16_dot=True, amx=True),
    ],
    ids=str,
)
def test_features_of_a_cpu_are_options(unit: VectorUnit) -> None:
    pipeline = Pipeline.parse(f"schedule-apply{{{unit} only=Fallback}}")

    assert parsed_pass(pipeline) == Apply(unit, only="Fallback")
    assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.parametrize("gpu", [Gpu(), Gpu(90, True, "always"), Gpu(0)], ids=str)
def test_features_of_a_gpu_are_options(gpu: Gpu) -> None:
    pipeline = Pipeline.parse(f"tir-fuse-attention{{vector-bits=512 {gpu}}}")

    assert parsed_pass(pipeline) == FuseAttention(VectorUnit(512), gpu)
    assert Pipeline.parse(str(pipeline)) == pipeline


def test_features_have_the_defaults_of_the_pass() -> None:
    assert parsed_pass(Pipeline.parse("tir-fuse-attention")) == FuseAttention()
    assert FuseAttention().gpu.sm == 0
    assert "sm: int = 0" in describe_options(FuseAttention)
    assert "sm: int = 80" in describe_options(ApplyGpu)


def parsed_pass(pipeline: Pipeline) -> Pass:
    (element,) = pipeline.elements
    assert isinstance(element, OurPass)
    return element.value


def test_wrong_features_are_named() -> None:
    with pytest.raises(PipelineError, match=r"option `library`: expected `never` or"):
        Pipeline.parse("schedule-apply-gpu{library=often}")
    with pytest.raises(PipelineError, match=r"option `amx` given twice"):
        Pipeline.parse("schedule-apply{amx=true amx=true}")
    with pytest.raises(PipelineError, match=r"has no option `unit`: .*`vector-bits`"):
        Pipeline.parse("schedule-apply{unit=512}")
