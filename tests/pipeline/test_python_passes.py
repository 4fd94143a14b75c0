"""Passes as objects: calls, contexts, instruments, decorators."""

from pathlib import Path

import pytest
from mlir import ir

from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import Var
from relax_mlir.objects.function import Function
from relax_mlir.pipeline import (
    DumpIR,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIRPass,
    Sequential,
    dataflowblock_pass,
    function_pass,
    module_pass,
    opt,
    pass_instrument,
)
from relax_mlir.rewrite.pass_context import PassContext, PassInfo, PassInstrument
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    CanonicalizeBindings,
)
from tests.tvm.relax.transform.graphs import op, program, tensor


def _module() -> IRModule:
    x = Var("x", tensor(2, 3))
    return program([x], op("exp", op("add", x, x)))


class _Journal(PassInstrument):
    def __init__(self, refused: str = "") -> None:
        self.events: list[str] = []
        self.refused = refused

    def enter_pass_ctx(self) -> None:
        self.events.append("enter")

    def exit_pass_ctx(self) -> None:
        self.events.append("exit")

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != self.refused

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.events.append(f"before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.events.append(f"after {info.name}")


def test_a_pass_does_not_change_its_argument() -> None:
    module = _module()
    before = str(module)

    legal = transform.LegalizeOps()(module)

    assert str(module) == before
    assert {v.name_hint for v in legal.get_global_vars()} == {"main", "add", "tir_exp"}


def test_a_function_is_a_pass_by_call_in_a_list_and_by_name() -> None:
    calls: list[int] = []

    @module_pass(opt_level=2, name="count-calls", required=["CanonicalizeBindings"])
    def count(mod: IRModule, ctx: PassContext) -> IRModule:
        calls.append(ctx.opt_level)
        return mod

    assert count.info == PassInfo(2, "count-calls", ("CanonicalizeBindings",))
    count(_module())
    opt(_module(), [count, "relax-simplify,count-calls"])

    assert calls == [2, 2, 2]


def test_a_class_is_a_pass_with_the_arguments_of_its_constructor() -> None:
    @module_pass(opt_level=0)
    class Rename:
        def __init__(self, name: str) -> None:
            self.name = name

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return IRModule({self.name: mod["main"]})

    rename = Rename("other")

    assert rename.info.name == "Rename"
    assert rename.name == "other"
    assert "other" in rename(_module())


def test_a_function_pass_visits_graph_functions_only() -> None:
    seen: list[str] = []

    @function_pass(opt_level=0)
    def look(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        seen.append(func.name)
        return func

    legal = transform.LegalizeOps()(_module())

    assert structural_equal(look(legal)["main"], legal["main"])
    assert seen == ["main"]


def test_a_dataflow_block_pass_may_not_add_outputs() -> None:
    from relax_mlir.objects.expr import DataflowBlock, VarBinding

    @dataflowblock_pass(opt_level=0)
    def show(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        made = [
            VarBinding(Var("new", b.var.struct_info), b.value) for b in block.bindings
        ]
        return DataflowBlock(made)

    with pytest.raises(ValueError, match="defines a new output"):
        show(_module())


@pytest.mark.parametrize("decorator", [module_pass, function_pass, dataflowblock_pass])
def test_a_decorator_wants_a_level_and_a_list(decorator: object) -> None:
    assert callable(decorator)
    with pytest.raises(ValueError, match="opt_level"):
        decorator(lambda mod, ctx: mod)
    with pytest.raises(TypeError, match="required"):
        decorator(opt_level=0, required="a")


def test_a_sequence_runs_what_the_context_enables() -> None:
    journal = _Journal(refused="ToNonDataflow")
    passes = [CanonicalizeBindings(), transform.ToNonDataflow(), transform.FuseTIR()]
    context = PassContext(
        opt_level=0,
        required_pass=["CanonicalizeBindings"],
        disabled_pass=["FuseTIR"],
        instruments=[journal],
    )

    with context:
        Sequential(passes)(_module())

    assert journal.events == [
        *("enter", "before sequential", "before CanonicalizeBindings"),
        *("after CanonicalizeBindings", "after sequential", "exit"),
    ]


def test_required_passes_run_first() -> None:
    journal = _Journal()

    @module_pass(opt_level=0, name="last", required=["CanonicalizeBindings"])
    def last(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    with PassContext(instruments=[journal]):
        Sequential([last])(_module())

    befores = [event for event in journal.events if event.startswith("before")]
    assert befores == [
        "before sequential",
        "before CanonicalizeBindings",
        "before last",
    ]


def test_a_required_pass_is_meant_by_its_name_in_tvm() -> None:
    @module_pass(opt_level=0, required=["FuseOps"])
    def last(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    legal = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(_module()))
    fused = Sequential([last])(legal)

    assert structural_equal(fused, transform.FuseOps()(legal))
    assert "fused_add_tir_exp" in fused


def test_instruments_see_passes_of_a_pipeline() -> None:
    journal = _Journal()

    with PassContext(instruments=[journal]):
        opt(_module(), "relax-simplify")

    assert journal.events[1:3] == ["before relax-simplify", "after relax-simplify"]


def test_contexts_nest() -> None:
    with PassContext(opt_level=0, config={"a": 1}) as outer:
        with PassContext(opt_level=3):
            assert PassContext.current().opt_level == 3
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2


def test_a_context_whose_instrument_fails_is_left() -> None:
    class Broken(PassInstrument):
        def enter_pass_ctx(self) -> None:
            raise KeyError("broken")

    journal = _Journal()
    before = PassContext.current()

    with pytest.raises(KeyError), PassContext(instruments=[journal, Broken()]):
        pass

    assert journal.events == ["enter", "exit"]
    assert PassContext.current() is before


def test_instruments_can_be_exchanged() -> None:
    first, second = _Journal(), _Journal()

    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        transform.ToNonDataflow()(_module())

    assert first.events == ["enter", "exit"]
    assert second.events == [
        *("enter", "before ToNonDataflow", "after ToNonDataflow", "exit"),
    ]


def test_a_context_checks_its_arguments() -> None:
    with pytest.raises(TypeError, match="required_pass"):
        PassContext(required_pass="a")
    with pytest.raises(TypeError, match="config"):
        PassContext(config=3)  # pyright: ignore[reportArgumentType]


def test_times_are_a_table() -> None:
    timing = PassTimingInstrument()

    with PassContext(instruments=[timing]):
        transform.ToNonDataflow()(_module())
        report = timing.render()

    assert "ToNonDataflow" in report
    assert "time_ms" in report


def test_prints_go_to_the_given_stream() -> None:
    lines: list[str] = []

    with PassContext(
        instruments=[PrintBeforeAll(lines.append), PrintAfterAll(lines.append)]
    ):
        transform.ToNonDataflow()(_module())
    PrintIRPass("here", lines.append)(_module())

    firsts = [line.split("\n")[0] for line in lines]
    assert firsts[0].startswith(
        "Before Running Pass: PassInfo(opt_level=0, name='ToNonD"
    )
    assert firsts[1].startswith("After Running Pass")
    assert firsts[2] == "PrintIR(here):"


def test_dumps_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IRModule, "script", lambda self: "text", raising=False)
    folder = tmp_path / "dumps"

    for _ in range(2):
        with PassContext(instruments=[DumpIR(folder, refresh=True)]):
            transform.ToNonDataflow()(_module())

    assert [f.name for f in folder.iterdir()] == ["000_ToNonDataflow.py"]


def test_a_class_with_some_methods_is_an_instrument() -> None:
    @pass_instrument
    class Count:
        def __init__(self) -> None:
            self.count = 0

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            self.count += 1

    counter = Count()
    with PassContext(instruments=[counter]):
        transform.ToNonDataflow()(_module())

    assert counter.count == 1


def test_operations_without_location_are_named_by_function() -> None:
    x = Var("x", tensor(2))
    function = program([x], op("add", x, x)).func_op("main")
    add = function.entry_block.operations[0]
    variable = ir.StringAttr(add.attributes[function_attributes.NAME]).value
    assert function_attributes.location_of(add) == f"`main`: `{variable}`"
    assert function_attributes.location_of(function) == "`main`"
