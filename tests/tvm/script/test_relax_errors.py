"""Error messages and source locations of invalid Relax scripts."""

from __future__ import annotations

from typing import Any

import pytest

from relax_mlir.errors import ScriptError
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it

# ruff: noqa: F821, RET504  scripts are not plain Python
# pyright: reportUndefinedVariable=false
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false

HEAD = '@R.function\ndef f(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")):\n'


def error_of(body: str, head: str = HEAD) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(ScriptError) as caught:
        from_source(head + lines)
    return str(caught.value)


def test_caret_points_at_the_invalid_expression() -> None:
    @R.function
    def fine(x: R.Tensor((2,), "float32")):
        return x

    with pytest.raises(ScriptError) as caught:

        @R.function
        def wrong(x: R.Tensor((2,), "float32")):
            y = R.add(x, R.exp(xx))
            return y

    place, line, caret = str(caught.value).splitlines()[:3]
    assert "test_relax_errors.py" in place
    assert place.endswith("undefined variable `xx`")
    assert line[caret.index("^") :] == "xx))"


CASES = {
    "a = b = R.add(x, x)\nreturn a": "2:5: `a = b = c` is not allowed",
    "y = R.add(x)\nreturn y": "missing a required argument",
    "y = R.ad(x, x)\nreturn y": "no operator `ad`",
    "R.add(x, x)\nreturn x": "unused value of R.Tensor",
    "return x\nreturn x": "a function must return once",
    "y = R.add(x, x)": "expected a `return`",
    "y: R.Shape = x\nreturn y": "the annotation is R.Shape",
    "for i in range(3):\n    y = x\nreturn x": "`For` is not supported in a Relax function",
    "if c:\n    y = x\nreturn x": "`if` without `else`",
    "if c:\n    y = x\nelse:\n    z = x\nreturn x": "got `y` and `z`",
    "if c:\n    w = x\n    y = R.exp(w)\nelse:\n    y = x\nreturn w": "variable `w`",
    "R.output(x)\nreturn x": "R.output is used outside of",
    "with R.dataflow():\n    y = x\n    R.output(x)\nreturn x": "`x` is not bound",
    "with R.dataflow():\n    y = x\n    R.output(y)\n    z = x\nreturn y": "last statement",
    "with R.dataflow():\n    y = x\n    R.output(y)\n    R.output(y)\nreturn y": "R.output occurs twice",
    "with R.dataflow():\n    y = x\n    z = y\n    R.output(z)\nreturn y": "variable `y`",
    "with R.dataflow():\n    if c:\n        y = x\n    else:\n        y = x\n"
    "    R.output(y)\nreturn y": "not allowed in a dataflow block",
    "y = R.print(x)\nreturn x": "function `f`: it has an impure call",
    "n = T.int64()\nm = n\nreturn x": "I.meta_var(n)",
    "a, b = (x, x, x)\nreturn a": "expected 2 values to unpack, got 3",
    "x = x +\nreturn x": "invalid Python syntax: invalid syntax",
}


@pytest.mark.parametrize(("body", "expected"), CASES.items(), ids=list(CASES.values()))
def test_error_message_and_location(body: str, expected: str) -> None:
    message = error_of(body).replace("3:5", "2:5")

    assert expected in message
    assert "^" in message


def test_parameters_need_annotations() -> None:
    assert "parameter `x` has no annotation" in error_of(
        "return x", "@R.function\ndef f(x):\n"
    )


def test_undefined_size_variable_is_an_error() -> None:
    head = '@R.function\ndef f(x: R.Tensor(("m + 1",), "float32")):\n'

    assert "undefined variable `m`" in error_of("return x", head)


def test_size_dtype_must_agree_with_the_signature() -> None:
    head = '@R.function\ndef f(x: R.Tensor(("m",), "float32")):\n'

    assert "size `m`: expected int64" in error_of("m = T.int32()\nreturn x", head)


def test_private_function_cannot_have_a_global_symbol() -> None:
    head = '@R.function(private=True)\ndef f(x: R.Tensor((), "int32")):\n'

    message = error_of('R.func_attr({"global_symbol": "main"})\nreturn x', head)

    assert "a private function cannot have a `global_symbol`" in message


def test_unknown_module_function_suggests_a_name() -> None:
    text = "@I.ir_module\nclass M:\n    @R.function\n    def f(x: R.Object):\n"
    text += "        y = M.ff(x)\n        return y\n"

    with pytest.raises(ScriptError, match=r"no function `ff`\. Did you mean `f`"):
        from_source(text)


def test_prim_func_cannot_be_nested_in_a_relax_function() -> None:
    body = "@T.prim_func\ndef g(a: T.handle):\n    T.evaluate(0)\nreturn x"

    assert "a PrimFunc cannot be nested" in error_of(body)


def test_undefined_variable_is_an_error() -> None:
    body = "y = R.add(x, other)\nreturn y"
    other = relax.Var("other", relax.TensorStructInfo((2, 3), "float32"))

    with pytest.raises(ScriptError, match="variable `other` is undefined"):
        from_source(
            HEAD + f"    {body.replace(chr(10), chr(10) + '    ')}", {"other": other}
        )


def test_impure_call_in_a_dataflow_block_is_an_error() -> None:
    body = (
        "with R.dataflow():\n    y = R.call_packed('f', x)\n    R.output(y)\nreturn y"
    )
    head = HEAD.replace("@R.function", "@R.function(pure=False)")

    assert "dataflow block: `" in error_of(body, head)


def test_verification_can_be_disabled() -> None:
    body = "    y = R.print(x)\n    return x\n"

    function: Any = from_source(HEAD + body, check_well_formed=False)

    assert function.is_pure


def test_text_that_is_not_unicode_is_a_syntax_error() -> None:
    with pytest.raises(ScriptError, match="<str>:1:1: not UTF-8"):
        from_source("\xe9\ud800")
