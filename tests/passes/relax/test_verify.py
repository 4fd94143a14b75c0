"""What is checked between passes, and that it is remembered rightly."""

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, opt
from relax_mlir.compiler.driver import run_stage
from relax_mlir.errors import IRError, PassError
from relax_mlir.passes.relax.normalize import Normalize
from relax_mlir.passes.relax.simplify import Simplify
from relax_mlir.passes.relax.verify import Checker, Verify
from relax_mlir.pipeline.pipeline import Pipeline
from relax_mlir.targets.target import Stage

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
  %1 = builtin.unrealized_conversion_cast %x, %0
    : tensor<4xf32>, tensor<4xf32> to tuple<tensor<4xf32>, tensor<4xf32>>
  %2 = "relax.call_tir"(%1) {callee = @first, sizes = #relax.shape<[]>}
    : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func @first(%x: memref<4xf32>, %y: memref<4xf32>, %o: memref<4xf32>)
    attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "first", kinds = "S", static_extents = array<i64: 4>,
      operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func private @elsewhere(memref<4xf32>) attributes {tir.prim_func}
"""


@pytest.fixture
def module() -> IRModule:
    return IRModule.parse(MODULE, {"w": np.zeros(4, np.float32)})


def test_the_module_is_right(module: IRModule) -> None:
    checker = Checker()

    checker.check(module)
    checker.check(module)


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.zeros(5, np.float32), r"float32 of shape \(5,\)"),
        (np.zeros(4, np.float64), r"float64 of shape \(4,\)"),
        (np.zeros((4, 1), np.float32), r"float32 of shape \(4, 1\)"),
    ],
)
def test_a_constant_has_the_shape_and_type_of_its_array(
    module: IRModule, array: np.ndarray, got: str
) -> None:
    checker = Checker()
    checker.check(module)

    module.constants["w"] = array

    problem = rf"`relax.constant`: array `w`: expected `tensor<4xf32>`, got {got}"
    with pytest.raises(IRError, match=problem):
        checker.check(module)


def test_an_array_that_was_there_must_stay(module: IRModule) -> None:
    checker = Checker()
    checker.check(module)

    module.constants.clear()

    with pytest.raises(IRError, match="array `w` is not among the module's constants"):
        checker.check(module)


def test_a_text_may_come_without_its_arrays() -> None:
    module = IRModule.parse(MODULE)
    checker = Checker()

    checker.check(module)
    checker.check(module)

    module.constants["other"] = np.zeros(1)
    Checker().check(module)
    with pytest.raises(IRError, match="array `w` is not among"):
        Checker(require_constants=True).check(module)


def test_what_was_right_is_checked_again_when_it_changes(module: IRModule) -> None:
    checker = Checker()
    checker.check(module)
    store = module.func_op("first").entry_block.operations[0].regions[1].blocks[0]

    with module.context:
        name, value = "static_extents", ir.DenseI64ArrayAttr.get([5])
        store.owner.attributes[name] = value

    with pytest.raises(
        IRError, match=r"`memref.load`: index 0: expected 0 to 3, got 0 to 4"
    ):
        checker.check(module)


def test_a_call_is_checked_again_when_its_program_changes(module: IRModule) -> None:
    checker = Checker()
    checker.check(module)

    function = module.func_op("first")
    with module.context, ir.Location.unknown():
        function.attributes["sym_name"] = ir.StringAttr.get("second")

    with pytest.raises(IRError, match="module has no tensor program `first`"):
        checker.check(module)


def test_scheduled_programs_are_left_alone(module: IRModule) -> None:
    with module.context:
        program = module.func_op("first")
        program.attributes["tir.num_outputs"] = ir.Attribute.parse("7 : i64")
        program.attributes["tir.rule"] = ir.StringAttr.get("RowWise")

    Checker().check(module)

    del program.attributes["tir.rule"]
    with pytest.raises(IRError, match=r"`tir.num_outputs`: expected 1 to 3, .* got 7"):
        Checker().check(module)


RELU = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "relax.nn_relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "relax.nn_relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_every_pass_is_followed_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_a_size(_: Simplify, module: IRModule) -> None:
        first = module.func_op("main").entry_block.operations[0]
        first.results[0].set_type(ir.Type.parse("tensor<?xf32>"))

    monkeypatch.setattr(Simplify, "run", forget_a_size)
    module = IRModule.parse(RELU)

    problem = (
        r"pass 2 of 2, `relax-simplify`, left an invalid module: .*`relax.nn_relu`: "
        r"result 0: expected `tensor<4xf32>`, got `tensor<\?xf32>`"
    )
    with pytest.raises(PassError, match=problem):
        opt(module, "relax-verify,relax-simplify")
    assert "tensor<?xf32>" in str(opt(module, "relax-simplify", verify=False))
    assert "tensor<?xf32>" not in str(
        opt(module, "relax-simplify,relax-infer-shapes", verify=False)
    )


@pytest.mark.parametrize("next_raises", [False, True])
def test_a_compilation_verifies_last_and_names_the_pass(
    next_raises: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def forget_a_size(_: Simplify, module: IRModule) -> None:
        runs.append("simplify")
        first = module.func_op("main").entry_block.operations[0]
        first.results[0].set_type(ir.Type.parse("tensor<?xf32>"))

    def run_next(_: Normalize, module: IRModule) -> None:
        runs.append("normalize")
        if next_raises:
            raise KeyError(str(module))

    monkeypatch.setattr(Simplify, "run", forget_a_size)
    monkeypatch.setattr(Normalize, "run", run_next)
    pipeline = Pipeline.parse("relax-verify,relax-simplify,relax-normalize")

    with pytest.raises(PassError, match="`relax-simplify`, left an invalid module"):
        pipeline.run(IRModule.parse(RELU), verify_each=False)

    assert runs == ["simplify", "normalize", "simplify"]  # again, to find the pass
    stage = Stage("relax", "relax-simplify")
    with pytest.raises(PassError, match="`relax-simplify`, left an invalid module"):
        run_stage(IRModule.parse(RELU), stage)


def test_an_error_that_no_invalid_module_caused_is_propagated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Simplify, module: IRModule) -> None:
        raise KeyError("size")

    monkeypatch.setattr(Simplify, "run", fail)

    with pytest.raises(KeyError, match="size"):
        Pipeline.parse("relax-simplify").run(IRModule.parse(RELU), verify_each=False)


def test_only_a_pass_that_repairs_types_may_start_from_wrong_ones() -> None:
    module = IRModule.parse(
        RELU.replace("-> tensor<4xf32>\n  %1", "-> tensor<?xf32>\n  %1").replace(
            '"(%0) : (tensor<4xf32>)', '"(%0) : (tensor<?xf32>)'
        )
    )

    assert "tensor<?xf32>" not in str(opt(module, "relax-infer-shapes"))
    with pytest.raises(IRError, match=r"^invalid module: .*`relax.nn_relu`"):
        opt(module, "relax-simplify,relax-infer-shapes")
    with pytest.raises(IRError, match=r"^invalid module: .*`relax.nn_relu`"):
        Verify().run(module)
