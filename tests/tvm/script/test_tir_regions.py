"""Explicit ``T.reads`` and ``T.writes`` regions that differ from the inferred ones."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from __future__ import annotations

import pytest

from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
)
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm import tir
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  what scripts call it
from relax_mlir.tvm.tir import Schedule

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


def test_explicit_regions_round_trip() -> None:
    func = program()

    text = func.script()

    assert "T.reads(b[0:12, 0:5], a[vi * 4:vi * 4 + 4, 0:5])" in text
    assert "T.reads(a[vi * 4 + vj, 0:5], b[vi * 4 + vj, vk])" in text
    assert_structural_equal(from_source(text), func)


def test_explicit_regions_of_a_block_without_accesses() -> None:
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


def test_empty_explicit_regions_of_the_root_block() -> None:
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


def test_explicit_regions_are_compared() -> None:
    assert not structural_equal(program(), program(outer="a[0:12, 0:5]"))
    with pytest.raises(ValueError, match=r"block\.reads"):
        assert_structural_equal(program(), program(inner="a[0:12, vk]"))


def test_missing_regions_equal_explicit_ones() -> None:
    silent = from_source(
        "\n".join(line for line in SCRIPT.splitlines() if "T.reads" not in line)
    )

    assert structural_equal(silent, program())


def test_buffer_indices_follow_the_listed_regions() -> None:
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


def test_regions_are_inferred_again_after_a_change() -> None:
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


def test_block_annotations_are_merged() -> None:
    @T.prim_func
    def func():
        with T.block("b"):
            T.block_attr({"hints": {"unroll": 4}})
            T.block_attr({"hints": {"order": "ij"}, "level": 2})
            T.evaluate(0)

    block = func.body.block

    assert block.annotations == {"hints": {"unroll": 4, "order": "ij"}, "level": 2}


def test_explicit_request_for_inferred_regions() -> None:
    buffer = tir.decl_buffer((3,), name="a")
    store = tir.BufferStore(buffer, 1.0, [0])
    asked = {"tir.script_parsing_detect_access": tir.const(3, "int64")}

    block = tir.Block([], [], [], "b", store, annotations=asked)

    assert [str(region) for region in block.writes] == ["a[0]"]
    assert not block.annotations
