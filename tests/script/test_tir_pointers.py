"""Scripts that point at parts of programs, and errors that show where programs differ."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm_ffi.access_path import AccessPath

from relax_mlir.objects.structure import assert_structural_equal
from relax_mlir.script import ir as I  # noqa: N812  what scripts call it
from relax_mlir.script import tir as T  # noqa: N812


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
    """The line after the one that ends in a text."""
    lines = script.splitlines()
    (number,) = [n for n, text in enumerate(lines) if text.endswith(line)]
    return lines[number + 1]


def test_a_variable_is_underlined_wherever_it_stands() -> None:
    script = steps.script(obj_to_underline=[steps.params[0]])

    assert below(script, "= n // 2") == " " * len("        half: T.int32 = ") + "^"
    assert below(script, "T.evaluate(n)") == " " * len("    T.evaluate(") + "^"


def test_a_path_leads_into_a_function_of_a_module() -> None:
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


def test_a_way_that_leads_further_than_a_script_underlines_what_it_passed() -> None:
    path = AccessPath.root().attr("body").attr("seq").array_item(1).attr("nothing")

    script = steps.script(path_to_underline=[path])

    assert below(script, "T.evaluate(n)") == "    " + "^" * len("T.evaluate(n)")


def test_remarks_stand_beside_a_line_or_in_front_of_several() -> None:
    body: Any = steps.body
    loop, last = body.seq

    script = steps.script(
        obj_to_annotate={loop: "loop", last: "last", loop.body: "let"}
    )

    assert "    # loop\n    for i in range(3):" in script
    assert "        # let\n        with T.LetStmt(n // 2) as half:" in script
    assert script.endswith("T.evaluate(n)  # last")


def test_an_error_shows_where_two_programs_differ() -> None:
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


def test_an_error_shows_which_buffers_differ() -> None:
    @T.prim_func
    def other(n: T.int32, a: T.Buffer((3, 8), "int32")):
        T.evaluate(n)

    with pytest.raises(ValueError, match=r"\.shape\[1\]\.value:") as error:
        assert_structural_equal(steps, other.with_attr("global_symbol", "steps"))

    head = 'def steps(n: T.int32, a: T.Buffer((3, 7), "int32")):'
    assert below(str(error.value), head) == " " * head.index("7") + "^"


def test_names_may_tell_objects_apart() -> None:
    script = steps.script(show_object_address=True)

    (name,) = set(re.findall(r"\bn_0x[0-9a-f]+", script))
    assert "half_0x" in script
    assert script.count(name) == 3
    assert "_0x" not in steps.script()
