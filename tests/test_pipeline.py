"""Pipeline text, running pipelines, and what is said when they fail."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import relax_mlir.passes.relax
from relax_mlir.errors import IRError, PassError, PipelineError
from relax_mlir.module import IRModule
from relax_mlir.pipeline import (
    Instrument,
    Pipeline,
    PrintIR,
    Reproducer,
    Step,
    Timing,
    opt,
)
from relax_mlir.pipeline.pipeline import Nest, OurPass, UpstreamPass
from relax_mlir.pipeline.upstream import ONLY_ON, REFUSED

PASSES = '''
"""Passes that exist only while these tests run."""

from dataclasses import dataclass
from typing import Literal

from mlir import ir

from relax_mlir.rewriting import Pass


@dataclass(frozen=True)
class ZzOptions(Pass):
    """Has an option of every type."""

    count: int = 1
    share: float = 0.5
    is_on: bool = False
    some_text: str = "x"
    sizes: tuple[int, ...] = (1, 2)
    texts: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    limit: int | None = None
    label: str | None = "none"
    mode: Literal["fast", "small"] = "fast"

    def run(self, module):
        if self.count < 0:
            raise KeyError("count")


@dataclass(frozen=True)
class ZzRequired(Pass):
    """Needs an option."""

    count: int

    def __post_init__(self):
        if self.count > 9:
            raise ValueError("count must be at most 9")


@dataclass(frozen=True)
class ZzRename(Pass):
    """Works per function."""

    per_function = True
    name: str = "seen"

    def run_on_function(self, function, module):
        function.attributes[self.name] = ir.UnitAttr.get()


@dataclass(frozen=True)
class ZzBreak(Pass):
    """Leaves a module that is not valid: a value is used before it exists."""

    def run(self, module):
        ops = list(module.functions()[0].entry_block.operations)
        ops[0].move_after(ops[-2])


@dataclass(frozen=True)
class ZzMlirError(Pass):
    """Makes MLIR complain."""

    def run(self, module):
        ir.Module.parse("func.func @f(", module.context)
'''

SOURCE = """
func.func @twice(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
func.func private @external(i32)
"""


@pytest.fixture(scope="module", autouse=True)
def zz_passes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes `relax-zz-*` passes, each class found through a file of its own."""
    folder = tmp_path_factory.mktemp("passes")
    (folder / "_zz_all.py").write_text(PASSES)
    for name in re.findall(r"class Zz(\w+)", PASSES):
        words = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        source = f"from relax_mlir.passes.relax._zz_all import Zz{name}\n"
        (folder / f"zz_{words}.py").write_text(source)
    path = relax_mlir.passes.relax.__path__
    path.append(str(folder))
    invalidate_caches()
    yield
    path.remove(str(folder))
    for name in [n for n in sys.modules if ".relax.zz_" in n or n.endswith("_zz_all")]:
        del sys.modules[name]


@pytest.fixture
def module() -> IRModule:
    return IRModule.parse(SOURCE)


def our_pass(**options: Any) -> OurPass:  # Any: as many types as options
    kind = import_module("relax_mlir.passes.relax.zz_options").ZzOptions
    return OurPass("relax-zz-options", kind(**options))


# -- text ------------------------------------------------------------------------------


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
def test_text_is_printed_in_its_shortest_form(text: str, printed: str) -> None:
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
def test_options_get_the_type_of_their_field(
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
        ("cse(cse)", "`cse` is a pass: its options stand in braces"),
        ("canonicalise", "unknown pass `canonicalise`. Did you mean `canonicalize`"),
        ("relax-zz-option", "unknown pass.*Did you mean `relax-zz-options`"),
        ("relax-Zz-options", "unknown pass `relax-Zz-options`"),
        ("tir-../relax/zz", "expected `,` or the end, got `/`"),
        ("relax---init--", "unknown pass"),
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
        ("cse,\ud800", "character 5: this is not a character"),
        ("any(" * 1000 + "cse" + ")" * 1000, "nested deeper than 50 levels"),
        ("inline{op-pipelines=" + "any(" * 1000 + "}", "nested deeper than 50 levels"),
    ],
)
def test_malformed_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Pipeline.parse(text)


def test_a_caret_shows_where() -> None:
    text = "relax-zz-options,\nrelax-zz-options{is-on count=x}"

    with pytest.raises(PipelineError) as caught:
        Pipeline.parse(text)

    _, line, caret = str(caught.value).split("\n")
    assert line[caret.index("^") :] == "count=x}"


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("text", ["{}", "inline{{default-pipeline={}}}"])
def test_deadly_passes_are_refused_with_the_reason(name: str, text: str) -> None:
    with pytest.raises(PipelineError, match=f"`{name}` is refused: it"):
        Pipeline.parse(text.format(name))


@pytest.mark.parametrize("name", sorted(ONLY_ON))
def test_passes_that_are_deadly_on_functions_are_refused_there(name: str) -> None:
    Pipeline.parse(name)
    with pytest.raises(PipelineError, match=f"`{name}` runs on .*, not on `any`"):
        Pipeline.parse(f"any({name})")
    with pytest.raises(PipelineError, match="refused inside the options of `inline`"):
        Pipeline.parse(f"inline{{default-pipeline={name}}}")


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
def test_every_pipeline_survives_its_text(elements: list[Any]) -> None:
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
def test_no_text_does_worse_than_a_pipeline_error(text: str) -> None:
    with contextlib.suppress(PipelineError):
        pipeline = Pipeline.parse(text)
        assert Pipeline.parse(str(pipeline)) == pipeline


# -- running ---------------------------------------------------------------------------


class Recorder(Instrument):
    """Remembers what it is told."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.seen: list[str] = []
        self.steps: list[Step] = []

    def before_pass(self, step: Step, module: IRModule) -> None:
        self.seen.append(f"before {step.text}")
        self.steps.append(step)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        assert time_s > 0
        self.seen.append(f"after {step.text}")

    def on_failure(self, step: Step, module: IRModule, error: Exception) -> str:
        self.seen.append(f"failed {step.text}: {type(error).__name__}")
        return f"told by {self.label}"


def test_our_passes_and_upstreams_run_in_order(module: IRModule) -> None:
    recorder = Recorder()

    result = opt(
        module,
        "func.func(relax-zz-rename{name=a},cse),relax-zz-rename{name=b},symbol-dce",
        instruments=[recorder],
    )

    text = str(result)
    assert text.count("arith.addi") == 1
    assert "@twice(%arg0: i32) -> i32 attributes {a, b}" in text
    assert "external" not in text
    assert recorder.seen[::2] == [
        "before func.func(relax-zz-rename{name=a})",
        "before func.func(cse)",
        "before relax-zz-rename{name=b}",
        "before symbol-dce",
    ]
    assert [(s.number, s.total) for s in recorder.steps] == [
        (1, 4),
        (2, 4),
        (3, 4),
        (4, 4),
    ]


def test_the_callers_module_stays_as_it_is(module: IRModule) -> None:
    before = str(module)

    opt(module, "canonicalize,cse,symbol-dce")
    with pytest.raises(PassError):
        opt(module, "cse,transform-interpreter{entry-point=nope}")

    assert str(module) == before


def test_nested_modules_are_reached() -> None:
    module = IRModule.parse(f"module {{ module @inner {{ {SOURCE} }} }}")

    outer = str(opt(module, "builtin.module(symbol-privatize)"))
    inner = str(opt(module, "builtin.module(builtin.module(symbol-privatize))"))

    assert "@inner attributes" in outer
    assert "func.func @twice" in outer
    assert "@inner {" in inner
    assert "func.func private @twice" in inner


def test_failing_upstream_pass_is_named_with_mlirs_reason(module: IRModule) -> None:
    with pytest.raises(PassError) as caught:
        opt(module, "cse,transform-interpreter{entry-point=nope}")

    message = str(caught.value)
    assert message.startswith(
        "pass 2 of 2, `transform-interpreter{entry-point=nope}`: loc("
    )
    assert "could not find a nested named sequence with name: nope" in message
    assert caught.value.__cause__ is not None


def test_errors_in_several_functions_do_not_end_the_process() -> None:
    """MLIR's threads report errors without holding the interpreter lock."""
    parts = [SOURCE.replace("@", f"@f{i}_") for i in range(20)]
    module = IRModule.parse("\n".join(parts))
    module.context.enable_multithreading(True)

    with pytest.raises(PassError, match="and 15 more"):
        opt(module, "func.func(func.return(cse))")


def test_exceptions_of_python_passes_arrive_as_themselves(module: IRModule) -> None:
    recorder = Recorder("recorder")

    with pytest.raises(KeyError, match="count") as caught:
        opt(module, "cse,relax-zz-options{count=-1}", instruments=[recorder])

    assert vars(caught.value)["__notes__"] == [
        "in pass 2 of 2, `relax-zz-options{count=-1}`",
        "told by recorder",
    ]
    assert recorder.seen[-1] == "failed relax-zz-options{count=-1}: KeyError"


def test_mlir_errors_in_python_passes_become_pass_errors(module: IRModule) -> None:
    with pytest.raises(PassError, match="pass 1 of 1, `relax-zz-mlir-error`: loc"):
        opt(module, "relax-zz-mlir-error")


def test_a_pass_that_leaves_an_invalid_module_is_named(module: IRModule) -> None:
    with pytest.raises(
        PassError, match="pass 2 of 3, `relax-zz-break`, left an invalid module: loc"
    ):
        opt(module, "cse,relax-zz-break,symbol-dce")


def test_verification_can_be_left_out(module: IRModule) -> None:
    result = opt(module, "relax-zz-break", verify=False)

    with pytest.raises(IRError, match="does not dominate"):
        result.verify()
    with pytest.raises(IRError, match=r"^invalid module") as caught:
        opt(result, "cse")
    assert "pass" not in str(caught.value)


def test_instruments_may_find_fault(module: IRModule) -> None:
    class Picky(Recorder):
        def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
            raise ArithmeticError("values differ")

    first, last = Picky("first"), Recorder("last")

    with pytest.raises(ArithmeticError) as caught:
        opt(module, "cse", instruments=[first, last])

    assert vars(caught.value)["__notes__"][1:] == ["told by last", "told by first"]
    assert last.seen == ["before cse", "after cse", "failed cse: ArithmeticError"]


def test_pipelines_run_on_many_threads_at_once() -> None:
    def optimise(index: int) -> str:
        pipeline = f"canonicalize{{max-iterations={index + 1}}},relax-zz-options,cse"
        return str(opt(IRModule.parse(SOURCE), pipeline))

    with ThreadPoolExecutor(8) as pool:
        results = set(pool.map(optimise, range(16)))

    assert len(results) == 1


# -- instruments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "titles"),
    [
        ("before-all", ["Before symbol-dce", "Before cse", "Before symbol-dce"]),
        ("after-all", ["After symbol-dce", "After cse", "After symbol-dce"]),
        ("after-change", ["After symbol-dce", "After cse"]),
    ],
)
def test_the_module_is_printed_around_passes(
    module: IRModule, when: Any, titles: list[str]
) -> None:
    printed: list[str] = []

    opt(
        module, "symbol-dce,cse,symbol-dce", instruments=[PrintIR(printed.append, when)]
    )

    found = re.findall(r"// -----// IR Dump (.*) //----- //\nmodule", "".join(printed))
    assert found == titles


def test_a_dump_follows_a_failure(module: IRModule) -> None:
    printed: list[str] = []

    with pytest.raises(PassError):
        opt(module, "relax-zz-break", instruments=[PrintIR(printed.append)])

    assert "IR Dump After relax-zz-break Failed" in printed[0]


def test_times_add_up(module: IRModule) -> None:
    timing = Timing()

    opt(module, "cse,relax-zz-options,func.func(canonicalize)", instruments=[timing])

    head, *rows = [line.split(None, 2) for line in timing.report().splitlines()]
    assert head == ["time_ms", "share", "pass"]
    assert [row[2] for row in rows] == [
        "cse",
        "relax-zz-options",
        "func.func(canonicalize)",
        "(verification, dumps)",
        "total",
    ]
    *parts, total = (float(row[0]) for row in rows)
    assert sum(parts) == pytest.approx(total, abs=0.01)  # each is rounded to 1 us


def test_a_reproducer_fails_the_same_way(module: IRModule, tmp_path: Path) -> None:
    pipeline = "symbol-dce,relax-zz-options{count=-1 some-text='a b'}"

    with pytest.raises(KeyError) as caught:
        opt(module, pipeline, instruments=[Reproducer(tmp_path / "new")])

    (path,) = (tmp_path / "new").iterdir()
    command = f"relax-opt {path} -p 'relax-zz-options{{count=-1 some-text=\"a b\"}}'"
    assert vars(caught.value)["__notes__"][1] == f"reproduce with: {command}"
    text = path.read_text()
    assert text.startswith(f"// RUN: {command.replace(str(path), '%s')}\n")
    assert str(IRModule.parse(text)) == str(opt(module, "symbol-dce"))
    with pytest.raises(KeyError):
        opt(IRModule.parse(text), command.split("'")[1])


def test_a_reproducer_of_an_mlir_failure_is_in_the_message(
    module: IRModule, tmp_path: Path
) -> None:
    with pytest.raises(
        PassError, match=f"\nreproduce with: relax-opt {tmp_path}/repro"
    ):
        opt(module, "relax-zz-break", instruments=[Reproducer(tmp_path)])


def test_a_reproducer_that_cannot_be_written_hides_nothing(
    module: IRModule, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PassError, match=r"left an invalid .*\na reproducer cannot be"):
        opt(module, "relax-zz-break", instruments=[Reproducer(tmp_path / "file")])


# -- upstream passes on our modules ----------------------------------------------------

EVERY_PASS = """
import contextlib, sys
from pathlib import Path
from relax_mlir.module import IRModule
from relax_mlir.pipeline import upstream
from relax_mlir.rewriting import walk

program = '''
attributes {tir.prim_func} {
  "tir.block"() ({
  }, {
  ^bb0(%i: index):
    %0 = memref.load %a[%i] : memref<2xf32>
    memref.store %0, %b[%i] : memref<2xf32>
    gpu.yield
  }) {kinds = "S", name = "copy", operandSegmentSizes = array<i32: 0, 0>,
      static_extents = array<i64: 2>} : () -> ()
  return
}'''
module = IRModule.parse(f'''
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {{callee = @program, sizes = #relax.shape<[]>}}
    : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.exp"(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}}
func.func private @program(%a: memref<2xf32>, %b: memref<2xf32>) {program}
func.func @sum(%x: memref<4xf32>, %n: index) -> f32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {{
    %v = memref.load %x[%i] : memref<4xf32>
    %t = arith.addf %acc, %v : f32
    scf.yield %t : f32
  }}
  return %s : f32
}}
func.func @first(%x: index) -> index {{ return %x : index }}
func.func @second(%x: index) -> index {{ return %x : index }}
func.func private @external(index)
gpu.module @kernels {{
  gpu.func @kernel(%a: memref<4xf32>) kernel {{
    %t = gpu.thread_id x
    %v = memref.load %a[%t] : memref<4xf32>
    memref.store %v, %a[%t] : memref<4xf32>
    gpu.return
  }}
}}
''')


def lost(module):
    ops = list(walk(module.mlir.operation))
    symbols = {op.attributes["sym_name"].value for op in ops if "sym_name" in op.attributes}
    called = {
        op.attributes["callee"].value
        for op in ops
        if op.operation.name == "relax.call_tir"
    }
    return (called | {"main", "first", "second"}) - symbols


progress = Path(sys.argv[1])
trials = [
    (name, anchors)
    for name in upstream.known_passes()
    for anchors in ([], ["func.func"], ["gpu.module"])
    # What that one does depends on its options.
    if name != "composite-fixed-point-pass"
]
for name, anchors in trials[int(sys.argv[2]):]:
    refused = 0
    with contextlib.suppress(ValueError):
        refused = 1
        upstream.check_pass(anchors, name, "")
        refused = 0
    with progress.open("a") as file:
        file.write(f"{name} {refused}\\n")
    changed = module.clone()
    text = upstream.nested(anchors, name, "")
    with contextlib.suppress(upstream.UpstreamError, ValueError):
        upstream.run_pass(changed.mlir, text)
        changed.verify()
        if lost(changed):
            print(name, refused)
"""


@pytest.mark.slow
def test_upstream_passes_that_harm_our_modules_are_exactly_those_refused(
    tmp_path: Path,
) -> None:
    script = tmp_path / "every_pass.py"
    script.write_text(EVERY_PASS)
    progress = tmp_path / "progress"
    progress.write_text("")
    root = Path(relax_mlir.__file__).parents[1]
    harmful: list[str] = []
    alive = False
    while not alive:
        begun = progress.read_text().splitlines()
        done = subprocess.run(
            [sys.executable, script, progress, str(len(begun))],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
            check=False,
        )
        assert done.returncode <= 0, done.stderr
        alive = done.returncode == 0
        harmful += done.stdout.splitlines()
        if not alive:
            harmful.append(progress.read_text().splitlines()[-1])

    assert len(progress.read_text().splitlines()) > 600
    found = {line.split()[0] for line in harmful}
    assert found == {*REFUSED, *ONLY_ON} - {"composite-fixed-point-pass"}
    assert all(line.endswith(" 1") for line in harmful), harmful
