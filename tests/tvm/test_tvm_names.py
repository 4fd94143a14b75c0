"""TVM's modules under their names: they give our own objects, and what they add works."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.errors import ScriptError
from relax_mlir.tvm import relax, tir
from relax_mlir.tvm.arith import Analyzer, ConstIntBound
from relax_mlir.tvm.contrib import utils
from relax_mlir.tvm.ir import (
    GlobalVarSupply,
    UniqueNameSupply,
    assert_structural_equal,
    load_json,
    save_json,
)
from relax_mlir.tvm.relax.analysis.call_map import collect_call_map
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts do
from relax_mlir.tvm.testing import CompareBeforeAfter, assert_allclose
from relax_mlir.tvm.tir.analysis import undefined_vars

# ruff: noqa: N805  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false

SAME = {
    "relax.struct_info:TensorStructInfo": "relax:TensorStructInfo",
    "relax.ty:TensorType": "relax:TensorStructInfo",
    "relax.vm_build:build": "relax:build",
    "runtime:Module": "relax.vm:KernelModule",
    "runtime:ShapeTuple": "ffi:Shape",
    "runtime:Tensor": "nd:NDArray",
    "runtime.vm:VirtualMachine": "relax:VirtualMachine",
    "s_tir.dlight:ApplyDefaultSchedule": "dlight:ApplyDefaultSchedule",
    "s_tir:Schedule": "tir:Schedule",
    "s_tir.schedule.trace:Trace": "tir.schedule:Trace",
    "script.ir_builder.relax:emit": "script.relax:emit",
    "script.parser:relax": "script:relax",
    "script.parser:tir": "script:tir",
    "script:tirx": "script:tir",
    "tir.expr:Var": "tir:Var",
    "tir:build": "tirx:build",
    "tir.stmt:For": "tir:For",
    "tir.stmt_functor:substitute": "tirx.stmt_functor:substitute",
    "tirx.function:PrimFunc": "tir:PrimFunc",
    "topi.utils:const_vector": "topi:const_vector",
}


def named(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(import_module(f"relax_mlir.tvm.{module}"), name)


@pytest.mark.parametrize(("theirs", "ours"), SAME.items(), ids=list(SAME))
def test_names_give_the_same_objects(theirs: str, ours: str) -> None:
    assert named(theirs) is named(ours)


def test_names_that_are_nowhere_are_attribute_errors() -> None:
    for module in ("runtime", "script.parser", "testing.env"):
        with pytest.raises(AttributeError, match=r"no attribute .nothing."):
            named(f"{module}:nothing")


@pytest.fixture
def module() -> tvm.IRModule:
    text = """
@I.ir_module
class Module:
    I.module_attrs({"kind": 3})
    I.module_global_infos({"vdevice": [I.vdevice("llvm")]})
    @T.prim_func
    def fill(A: T.Buffer((5,), "float32")):
        for i in range(5):
            with T.block("set"):
                v = T.axis.spatial(5, i)
                A[v] = T.float32(7)
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        y = R.add(x, table)
        return y
"""
    table = relax.const(np.arange(3, dtype="float32"))
    return from_source(text, {"table": table})


def test_modules_survive_json_and_pickle(module: tvm.IRModule) -> None:
    for again in (load_json(save_json(module)), pickle.loads(pickle.dumps(module))):
        assert_structural_equal(module, again)
        assert again.global_infos == module.global_infos
    assert_structural_equal(copy.deepcopy(module), module)
    assert_structural_equal(load_json(save_json(module["fill"])), module["fill"])


CALLS = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = Module.inner(x)
        z = R.call_tir(Module.copy, (y,), out_sinfo=R.Tensor((3,), "float32"))
        return z
    @R.function(private=True)
    def inner(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return x
    @T.prim_func
    def copy(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
        for i in range(3):
            with T.block("copy"):
                v = T.axis.spatial(3, i)
                B[v] = A[v]
"""


def test_functions_are_renamed_with_their_calls() -> None:
    module = from_source(CALLS)
    names = {"main": "first", "inner": "copy", "copy": "inner"}
    swapped = module.replace_global_vars(names)
    text = CALLS
    for old, new in (("inner", "?"), ("copy(", "inner("), (".copy", ".inner")):
        text = text.replace(old, new)

    text = text.replace("?", "copy").replace("def main", "def first")
    assert_structural_equal(swapped, from_source(text))
    assert swapped["first"].attrs["global_symbol"] == "first"
    assert module.replace_global_vars({}) is module


def test_renamings_that_cannot_be_are_refused() -> None:
    module = from_source(CALLS)

    with pytest.raises(ValueError, match=r"no function `coppy`.*`copy`"):
        module.replace_global_vars({"coppy": "x"})
    with pytest.raises(ValueError, match="two functions would be called `main`"):
        module.replace_global_vars({"copy": "main"})


def test_a_call_map_has_each_callee_once() -> None:
    found = collect_call_map(from_source(CALLS))

    names = {k.name_hint: [v.name_hint for v in vs] for k, vs in found.items()}
    assert names == {"main": ["inner", "copy"], "inner": [], "copy": []}


def test_expressions_and_types_are_json_too() -> None:
    n = tir.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, n * 2), "float16"))
    cast = relax.MatchCast(x, relax.const([1, 2], "int8"), x.struct_info)

    for node in (x.struct_info, relax.PrimValue(n + 1), relax.op.exp(x), cast):
        assert_structural_equal(load_json(save_json(node)), node, map_free_vars=True)
    again = load_json(save_json(relax.Tuple([x, x])))
    assert again[0].same_as(again[1])
    assert not again[0].same_as(x)


def test_what_cannot_be_json_is_refused() -> None:
    with pytest.raises(TypeError, match="expression or a type, got `int`"):
        save_json(3)
    with pytest.raises(ValueError, match="that `save_json` wrote"):
        load_json("{}")


def test_a_metadata_script_needs_its_metadata(module: tvm.IRModule) -> None:
    assert_structural_equal(from_source(module.script(show_meta=True)), module)
    with pytest.raises(ScriptError, match="`metadata`"):
        from_source(module.script())


def test_a_supply_gives_each_name_once() -> None:
    supply = UniqueNameSupply("mine")

    assert [supply.fresh_name("x") for _ in "ab"] == ["mine_x", "mine_x_1"]
    assert supply.fresh_name("x", add_underscore=False) == "mine_x1"
    assert supply.contains_name("x")
    assert not supply.contains_name("x", add_prefix=False)
    assert supply.reserve_name("y") == "mine_y"
    assert supply.fresh_name("y") == "mine_y_1"


def test_functions_get_names_that_no_module_has(module: tvm.IRModule) -> None:
    supply = GlobalVarSupply(module)

    assert supply.fresh_global("fill").name_hint == "fill_1"
    assert supply.unique_global_for("other") is supply.unique_global_for("other")
    with pytest.raises(ValueError, match="`main` is taken"):
        supply.reserve_global(tvm.ir.GlobalVar("main"))


def test_an_analyzer_uses_what_it_was_told() -> None:
    i, j = tir.Var("i", "int64"), tir.Var("j", "int64")
    knows = Analyzer()
    knows.bind(i, tvm.ir.Range(0, 6))
    knows.bind(j, 5)

    assert str(knows.simplify((i + 6 * j) // 6)) == "5"
    assert knows.const_int_bound(2 * i - 1) == ConstIntBound(-1, 9)
    assert knows.can_prove(i < 6)
    assert not knows.can_prove(i < 5)
    assert not Analyzer().can_prove(i < 6)
    assert str(Analyzer().simplify((i + 6 * j) // 6)) == "i // 6 + j"


def test_an_analyzer_learns_from_a_condition_while_it_holds() -> None:
    i = tir.Var("i", "int64")
    analyzer = Analyzer()

    with analyzer.constraint_scope(tir.all(i >= 2, i < 9)):
        assert analyzer.const_int_bound(i) == ConstIntBound(2, 8)
    assert analyzer.const_int_bound(i).max_value == ConstIntBound.POS_INF


def test_equal_terms_are_proved_equal() -> None:
    n = tir.Var("n", "int64")

    assert Analyzer().can_prove_equal(n * 3 + n, 4 * n)
    assert not Analyzer().can_prove_equal(n, n + 1)


def test_undefined_variables_of_a_term() -> None:
    a, b = tir.Var("a", "int64"), tir.Var("b", "int64")

    assert undefined_vars(a + b, [a]) == [b]


def test_a_folder_vanishes_with_its_with() -> None:
    with utils.tempdir() as folder:
        path = Path(folder.relpath("x.txt"))
        path.write_text("1")
        assert folder.listdir() == ["x.txt"]
    assert not path.exists()


def test_arrays_that_differ_are_not_close() -> None:
    ones = np.ones(3, "float32")

    assert_allclose(tvm.nd.array(ones), ones + 1e-9)
    with pytest.raises(AssertionError, match="Mismatched elements: 3"):
        assert_allclose(ones, 2 * ones)
    with pytest.raises(AssertionError, match=r"expected \(3, 1\), got \(3,\)"):
        assert_allclose(ones, ones.reshape(3, 1))


class TestDeadCode(CompareBeforeAfter):
    """Also what :class:`CompareBeforeAfter` does with a class of functions."""

    transform = relax.transform.DeadCodeElimination()

    class Before:
        @R.function
        def main(x: R.Tensor((5,), "float32")):
            with R.dataflow():
                unused = R.exp(x)  # noqa: F841
                kept = R.negative(x)
                R.output(kept)
            return kept

    class Expected:
        @R.function
        def main(x: R.Tensor((5,), "float32")):
            with R.dataflow():
                kept = R.negative(x)
                R.output(kept)
            return kept


def test_a_comparison_tells_what_a_pass_left() -> None:
    class Wrong(CompareBeforeAfter):
        transform = TestDeadCode.transform
        Before = Expected = TestDeadCode.Before

    with pytest.raises(ValueError, match="StructuralEqual check failed"):
        Wrong().test_compare()


size, dtype = tvm.testing.parameters((2, "int8"), (3, "float32"))
scale = tvm.testing.parameter(1, 4)
_MADE: list[int] = []


@tvm.testing.fixture(cache_return_value=True)
def scaled(scale: int) -> list[int]:
    _MADE.append(scale)
    return [scale]


def test_parameters_go_together(size: int, dtype: str, scale: int) -> None:
    assert (size, dtype) in ((2, "int8"), (3, "float32"))
    assert scale in (1, 4)


def test_what_a_machine_lacks_is_skipped() -> None:
    here, missing = tvm.testing.requires_llvm, tvm.testing.requires_rocm

    assert [mark.args for mark in here.marks()] == [(False,)]
    assert [mark.args for mark in missing.marks()] == [(True,)]
    assert missing()(_test).pytestmark[0].kwargs == {"reason": "needs ROCm"}


def _test() -> None:
    """What a test is to a decorator."""


@pytest.mark.parametrize("run", range(2))
def test_what_is_remembered_is_made_once_and_copied(
    run: int, scale: int, scaled: list[int]
) -> None:
    assert scaled == [scale]
    scaled.append(run)

    assert _MADE.count(scale) == 1


@tvm.testing.parametrize_targets("llvm", "vulkan")
def test_targets_that_are_here(target: str, dev: object) -> None:
    assert (target, str(dev)) == ("llvm", str(tvm.cpu()))
