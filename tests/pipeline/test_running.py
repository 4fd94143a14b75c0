"""Execution of pipelines, and their errors."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from relax_mlir.errors import IRError, PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import (
    Instrument,
    Step,
    opt,
)
from tests.pipeline.sources import SOURCE


class Recorder(Instrument):
    """Records its callbacks."""

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


def test_input_module_is_not_modified(module: IRModule) -> None:
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


def test_errors_in_several_functions_do_not_abort_the_process() -> None:
    """MLIR's threads report errors without holding the interpreter lock."""
    parts = [SOURCE.replace("@", f"@f{i}_") for i in range(20)]
    module = IRModule.parse("\n".join(parts))
    module.context.enable_multithreading(True)

    with pytest.raises(PassError, match="and 15 more"):
        opt(module, "func.func(func.return(cse))")


def test_exceptions_of_python_passes_are_propagated(module: IRModule) -> None:
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


def test_pass_that_leaves_an_invalid_module_is_named(module: IRModule) -> None:
    with pytest.raises(
        PassError, match="pass 2 of 3, `relax-zz-break`, left an invalid module: loc"
    ):
        opt(module, "cse,relax-zz-break,symbol-dce")


def test_verification_can_be_disabled(module: IRModule) -> None:
    result = opt(module, "relax-zz-break", verify=False)

    with pytest.raises(IRError, match="does not dominate"):
        result.verify()
    with pytest.raises(IRError, match=r"^invalid module") as caught:
        opt(result, "cse")
    assert "pass" not in str(caught.value)


def test_instruments_can_raise_errors(module: IRModule) -> None:
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
