"""Printing of Relax functions, modules and expressions."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from relax_mlir.objects import prim
from relax_mlir.tvm import relax
from relax_mlir.tvm.ir import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script.highlight import cprint
from relax_mlir.tvm.script.printer import display

MODULE = """\
# from relax_mlir.tvm.script import ir as I
# from relax_mlir.tvm.script import tir as T
# from relax_mlir.tvm.script import relax as R

@I.ir_module
class Module:
    I.module_attrs({"a": 1})
    @R.function(pure=False, private=True)
    def sub(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
        n = T.int64()
        R.print(x, format=R.str("{}"))
        @R.function
        def local(v: R.Tensor((n, 4), dtype="float32")) -> R.Object:
            gv = R.call_pure_packed("g", v, R.dtype("int8"), sinfo_args=(R.Object,))
            return gv

        return x

    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32"), c: R.Tensor((), dtype="bool")) -> \
R.Tuple(R.Tensor(("n", 4), dtype="float32"), R.Shape(["n * 2"])):
        n = T.int64()
        k = T.int64()
        R.func_attr({"b": [1, True, "s"]})
        cls = Module
        with R.dataflow():
            lv = R.call_dps_packed("f", (x, R.prim_value(3)), \
out_sinfo=R.Tensor((n, 4), dtype="float32"))
            gv: R.Tensor((n, 4), dtype="float32") = R.add(lv, R.const(0.1, "float32"))
            R.output(gv)
        y: R.Tensor((k, 4), dtype="float32") = \
R.match_cast(gv, R.Tensor((k, 4), dtype="float32"))
        if c:
            z_then: R.Tensor((n, 4), dtype="float32") = cls.sub(gv)
            z: R.Tensor((n, 4), dtype="float32") = z_then
        else:
            z: R.Tensor((n, 4), dtype="float32") = gv
        return (z, R.shape([n * 2]))"""


@pytest.fixture
def module() -> Any:
    return from_source(MODULE, check_well_formed=False)


def test_printed_module_equals_its_source(module: Any) -> None:
    text = module.script()

    assert text.replace("gv: R.Object = ", "gv = ") == MODULE


def test_functions_are_printed_in_tvm_order() -> None:
    text = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x
    @R.function
    def apply(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x
    other = R.ExternFunc("other")
    @T.prim_func
    def zero(A: T.Buffer((2,), "float32")):
        T.evaluate(0)
"""
    script = from_source(text).script()

    places = [script.index(n) for n in ("zero", "other =", "def apply", "def main")]
    assert places == sorted(places)
    assert 'other = R.ExternFunc("other")\n    @R.function' in script


def test_nested_function_declares_its_own_sizes() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
    n = T.int64()
    @R.function
    def pair(y: R.Tensor((n, "m"), "float32")) -> R.Tensor((n, "m"), "float32"):
        m = T.int64()
        return y
    return x
"""
    function = from_source(text)
    script = function.script()

    assert 'def pair(y: R.Tensor((n, "m"), dtype="float32"))' in script
    assert script.count("m = T.int64()") == 1
    assert_structural_equal(from_source(script), function)


def test_virtual_devices_are_printed_by_index() -> None:
    text = """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [
        I.vdevice("llvm"), I.vdevice("cuda"), I.vdevice("cuda -arch=sm_90")
    ]})
    @R.function
    def main(x: R.Tensor((3,), "float32", "llvm")):
        y = R.to_vdevice(x, "cuda:1:global")
        return y
"""
    module = from_source(text)
    script = module.script()

    assert 'R.to_vdevice(x, dst_vdevice="vdevice:2")' in script
    assert_structural_equal(from_source(script), module)


def test_tuple_bindings_are_printed_without_parentheses() -> None:
    text = (
        "@R.function\ndef main(x: R.Tensor((3,))):\n    p = (x, x)\n    return (p, p)"
    )
    script = from_source(text).script(show_all_struct_info=False)

    assert "    p = x, x\n    return (p, p)" in script


def test_cprint(capsys: pytest.CaptureFixture[str]) -> None:
    cprint(relax.ShapeExpr([2, 3]))
    cprint("x = 1", style="light")

    assert capsys.readouterr().out == "R.shape([2, 3])\nx = 1\n"


def test_annotations_beyond_inference_are_always_printed() -> None:
    text = """
@R.function
def main(x: R.Tensor((3, 5), "float32"), y: R.Tensor("float32", ndim=2)):
    sure: R.Tensor((3, 5), "float32") = R.add(x, y)
    plain = R.add(sure, x)
    return plain
"""
    script = from_source(text).script(show_all_struct_info=False)

    assert 'sure: R.Tensor((3, 5), dtype="float32") = R.add(x, y)' in script
    assert "plain = R.add(sure, x)" in script


def test_names_are_made_unique() -> None:
    text = """@R.function
def f(R_1: R.Tensor((2,))):
    x = R.add(R_1, R_1)
    x = R.add(x, x)
    return x
"""

    assert "x_1: R.Tensor((2,)) = R.add(x, x)" in from_source(text).script()


def test_options_of_the_printer(module: Any) -> None:
    assert "class Model:" in module.script(name="Model")
    assert "Module.sub(gv)" in module.script(module_alias="")
    assert "gv = R.add(lv" in module.script(show_all_struct_info=False)
    assert '_: R.Tuple = R.print(x, format=R.str("{}"))' in module.script(
        syntax_sugar=False
    )


def test_stand_alone_function(module: Any) -> None:
    text = module["sub"].script()

    assert text.startswith("# from relax_mlir.tvm.script import tir as T\n")
    assert "@R.function(pure=False, private=True)\ndef main(x" in text


def test_expressions_declare_their_variables() -> None:
    n = prim.Var("n", "int64")
    a = relax.Var("a", relax.TensorStructInfo([n, 3], "float32"))

    assert relax.op.exp(a).script().splitlines() == [
        "n = T.int64()",
        'a: R.Tensor((n, 3), dtype="float32")',
        "R.exp(a)",
    ]
    assert relax.TupleStructInfo([relax.ObjectStructInfo()]).script() == (
        "R.Tuple(R.Object)"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (relax.const(True), 'R.const(True, "bool")'),
        (relax.const(0.1, "float16"), 'R.const(0.1, "float16")'),
        (relax.const(float("inf"), "float32"), 'R.const(float("inf"), "float32")'),
        (relax.const(2.0, "float64"), 'R.const(2.0, "float64")'),
        (relax.PrimValue(prim.IntImm("int32", 4)), "R.prim_value(T.int32(4))"),
        (relax.StringImm('a"\n'), 'R.str("a\\"\\n")'),
        (relax.Tuple([]), "R.tuple()"),
        (relax.ExternFunc("f"), 'R.ExternFunc("f")'),
    ],
)
def test_constants(value: relax.Expr, expected: str) -> None:
    assert value.script() == expected


def test_show_prints_the_script_or_the_mlir(
    module: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    module.show(black_format=False)
    script = capsys.readouterr().out
    module["sub"].show(style="mlir")
    text = capsys.readouterr().out

    assert script == module.script() + "\n"
    assert text.startswith("func.func private @sub(")


def test_terminal_output_is_highlighted(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()

    def console(**options: Any) -> Console:
        return Console(file=output, force_terminal=True, color_system="truecolor")

    monkeypatch.setattr(display, "Console", console)
    display.show("x = 1", style="dark")

    assert "\x1b[" in output.getvalue()
    assert "x" in output.getvalue()


def test_notebook_output_is_html(module: Any) -> None:
    page = module._repr_html_()

    assert page.startswith("<pre>")
    assert "color: #" in page
