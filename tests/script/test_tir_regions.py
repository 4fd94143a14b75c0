"""What scripts say that blocks read and write, beyond what their bodies tell."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from __future__ import annotations

import pytest

from relax_mlir import tir
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.structure import assert_structural_equal, structural_equal
from relax_mlir.script import from_source
from relax_mlir.script import tir as T  # noqa: N812  what scripts call it
from relax_mlir.tir import Schedule

SCRIPT = """
@T.prim_func
def main(a: T.Buffer((12, 5), "float32"), b: T.Buffer((12, 5), "float32")):
    for i in range(3):
        with T.block("outer"):
            vi = T.axis.spatial(3, i)
            T.reads({outer})
            T.writes(b[vi * 4:vi * 4 + 4, 0:5])
            for j, k in T.grid(4, 5):
                with T.block("inner"):
                    vj, vk = T.axis.remap("SS", [j, k])
                    T.reads({inner})
                    T.writes(b[vi * 4 + vj, vk])
                    b[vi * 4 + vj, vk] = a[vi * 4 + vj, vk] + b[vi * 4 + vj, vk]
"""


def program(
    outer: str = "b[0:12, 0:5], a[vi * 4:vi * 4 + 4, 0:5]",
    inner: str = "a[vi * 4 + vj, 0:5], b[vi * 4 + vj, vk]",
) -> PrimFunc:
    return from_source(SCRIPT.format(outer=outer, inner=inner))


def test_what_is_said_is_printed_and_read_back() -> None:
    func = program()

    text = func.script()

    assert "T.reads(b[0:12, 0:5], a[vi * 4:vi * 4 + 4, 0:5])" in text
    assert "T.reads(a[vi * 4 + vj, 0:5], b[vi * 4 + vj, vk])" in text
    assert_structural_equal(from_source(text), func)


def test_a_block_that_touches_nothing_may_say_that_it_does() -> None:
    @T.prim_func
    def func(a: T.Buffer((T.int64(6), T.int64(2)), "float32"), n: T.int32):
        for i in T.grid(T.int64(6)):
            with T.block("touch"):
                vi = T.axis.remap("S", [i])
                T.reads(a[vi, T.int64(0) : T.int64(2)])
                T.writes(a[n % 6, 1])
                T.evaluate(0)

    block = func.body.block.body.body.block

    (read,), (written,) = block.reads, block.writes
    assert str(read) == "a[vi, 0:2]"
    assert read.region[1].extent.dtype == "int64"
    assert str(written.region[0].min) == "n % 6"


def test_the_block_around_all_may_say_that_it_touches_nothing() -> None:
    inner = """
@T.prim_func
def main(a: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("inner"):
            T.reads(a[0:8])
            T.writes(a[0:8])
            for i in range(8):
                a[i] = a[i] + T.float32(1)
"""

    func = from_source(inner)

    assert func.body.block.reads == func.body.block.writes == ()
    assert from_source(func.script()).script() == func.script()
    assert Schedule(func).mod["main"].script() == func.script()


def test_what_both_say_is_compared() -> None:
    assert not structural_equal(program(), program(outer="a[0:12, 0:5]"))
    with pytest.raises(ValueError, match=r"block\.reads"):
        assert_structural_equal(program(), program(inner="a[0:12, vk]"))


def test_what_one_leaves_out_is_equal_to_what_the_other_says() -> None:
    silent = from_source(
        "\n".join(line for line in SCRIPT.splitlines() if "T.reads" not in line)
    )

    assert structural_equal(silent, program())


def test_buffers_are_numbered_as_they_are_listed() -> None:
    @T.prim_func
    def func(
        a: T.Buffer((4, 6), "float32"),
        b: T.Buffer((6,), "float32"),
        c: T.Buffer((4,), "float32"),
    ):
        for i, k in T.grid(4, 6):
            with T.block("dot"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(c[vi], b[vk], a[vi, vk])
                T.writes(c[vi])
                with T.init():
                    c[vi] = 0.0
                c[vi] = c[vi] + a[vi, vk] * b[vk]

    schedule = Schedule(func)

    copy = schedule.cache_read("dot", 1, "local")

    assert schedule.get(copy).name_hint == "b_local"
    assert "T.reads(c[vi], b_local[vk], a[vi, vk])" in schedule.mod["main"].script()


def test_a_body_that_changes_is_looked_at_anew() -> None:
    @T.prim_func
    def func(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
        b = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                b[vi] = a[7 - vi]
        for i in range(8):
            with T.block("c"):
                vi = T.axis.spatial(8, i)
                T.reads(b[0:8])
                c[vi] = b[vi]

    schedule = Schedule(func)
    assert "T.reads(b[0:8])" in schedule.mod["main"].script()

    schedule.compute_inline("b")

    assert "T.reads(a[7 - vi])" in schedule.mod["main"].script()


def test_dictionaries_that_are_said_of_a_block_are_joined() -> None:
    @T.prim_func
    def func():
        with T.block("b"):
            T.block_attr({"hints": {"unroll": 4}})
            T.block_attr({"hints": {"order": "ij"}, "level": 2})
            T.evaluate(0)

    block = func.body.block

    assert block.annotations == {"hints": {"unroll": 4, "order": "ij"}, "level": 2}


def test_a_block_may_ask_for_what_is_derived() -> None:
    buffer = tir.decl_buffer((3,), name="a")
    store = tir.BufferStore(buffer, 1.0, [0])
    asked = {"tir.script_parsing_detect_access": tir.const(3, "int64")}

    block = tir.Block([], [], [], "b", store, annotations=asked)

    assert [str(region) for region in block.writes] == ["a[0]"]
    assert not block.annotations
