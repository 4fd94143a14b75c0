"""Underlined and annotated nodes in scripts and in structural-equality errors."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm_ffi.access_path import AccessPath

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import ir as I  # noqa: N812  what scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812


@T.prim_func
def steps(n: T.int32, a: T.Buffer((3, 7), "int32")):
    for i in range(3):
        half: T.int32 = n // 2
        a[i, 0] = half
    T.evaluate(n)


@I.ir_module
class Pair:
    @T.prim_func
    def first(a: T.Buffer((4,), "float32")):  # noqa: N805  no method
        a[0] = T.float32(1)

    @T.prim_func
    def second(a: T.Buffer((4,), "float32")):  # noqa: N805
        a[3] = T.float32(2)


def below(script: str, line: str) -> str:
    """Returns the line after the one that ends in ``line``."""
    lines = script.splitlines()
    (number,) = [n for n, text in enumerate(lines) if text.endswith(line)]
    return lines[number + 1]


def test_every_use_of_a_variable_is_underlined() -> None:
    script = steps.script(obj_to_underline=[steps.params[0]])

    assert below(script, "= n // 2") == " " * len("        half: T.int32 = ") + "^"
    assert below(script, "T.evaluate(n)") == " " * len("    T.evaluate(") + "^"


def test_access_path_into_a_function_of_a_module() -> None:
    path = AccessPath.root().attr("functions").map_item(Pair.get_global_var("second"))

    whole = Pair.script(path_to_underline=[path])
    index = Pair.script(
        path_to_underline=[path.attr("body").attr("indices").array_item(0)]
    )

    assert below(whole, "T.float32(2.0)") == " " * 8 + "^" * len(
        "a[3] = T.float32(2.0)"
    )
    assert "^" not in whole[: whole.index("def second") - 60]
    assert below(index, "T.float32(2.0)") == " " * len("        a[") + "^"


def test_path_to_an_unprinted_node_underlines_its_parent() -> None:
    path = AccessPath.root().attr("body").attr("seq").array_item(1).attr("nothing")

    script = steps.script(path_to_underline=[path])

    assert below(script, "T.evaluate(n)") == "    " + "^" * len("T.evaluate(n)")


def test_comment_placement() -> None:
    body: Any = steps.body
    loop, last = body.seq

    script = steps.script(
        obj_to_annotate={loop: "loop", last: "last", loop.body: "let"}
    )

    assert "    # loop\n    for i in range(3):" in script
    assert "        # let\n        with T.LetStmt(n // 2) as half:" in script
    assert script.endswith("T.evaluate(n)  # last")


def test_structural_equal_error_underlines_the_mismatch() -> None:
    @T.prim_func
    def other(n: T.int32, a: T.Buffer((3, 7), "int32")):
        for i in range(3):
            half: T.int32 = n // 4
            a[i, 0] = half
        T.evaluate(n)

    with pytest.raises(ValueError, match="StructuralEqual check failed") as error:
        assert_structural_equal(steps, other.with_attr("global_symbol", "steps"))

    message = str(error.value)
    path = "<root>.body.seq[0].body.value.b.value"
    assert message.count(f"at {path}:") == 2
    assert (
        below(message, "= n // 2") == " " * len("        half: T.int32 = n // ") + "^"
    )
    assert (
        below(message, "= n // 4") == " " * len("        half: T.int32 = n // ") + "^"
    )


def test_structural_equal_error_names_the_buffers() -> None:
    @T.prim_func
    def other(n: T.int32, a: T.Buffer((3, 8), "int32")):
        T.evaluate(n)

    with pytest.raises(ValueError, match=r"\.shape\[1\]\.value:") as error:
        assert_structural_equal(steps, other.with_attr("global_symbol", "steps"))

    head = 'def steps(n: T.int32, a: T.Buffer((3, 7), "int32")):'
    assert below(str(error.value), head) == " " * head.index("7") + "^"


def test_names_with_object_addresses() -> None:
    script = steps.script(show_object_address=True)

    (name,) = set(re.findall(r"\bn_0x[0-9a-f]+", script))
    assert "half_0x" in script
    assert script.count(name) == 3
    assert "_0x" not in steps.script()
