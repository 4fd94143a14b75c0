"""PrimFuncs as Python objects: views of MLIR, and PrimFuncs built of statements."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.stmt.functor import renew_defs
from relax_mlir.tvm import tir
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import BufferRegion, Range, decl_buffer, stmt_functor


@T.prim_func
def tiled(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(2, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                for k in range(4):
                    C[vi * 4 + k, 0] = T.float32(0)
            for k in range(4):
                C[vi * 4 + k, 0] = C[vi * 4 + k, 0] + A[vj, vi * 4 + k]


def test_a_view_has_parameters_and_statements() -> None:
    root = tiled.body
    loop = root.block.body
    realize = loop.body.body

    assert [p.dtype for p in tiled.params] == ["handle", "handle"]
    assert [tiled.buffer_map[p].name for p in tiled.params] == ["A", "C"]
    assert tiled.attrs == {"global_symbol": "tiled", "tir.noalias": True}
    assert (root.block.name_hint, realize.block.name_hint) == ("root", "C")
    assert loop.kind == tir.ForKind.SERIAL
    assert [a.iter_type for a in realize.block.iter_vars] == [0, 2]
    assert realize.iter_values[0] is loop.loop_var
    assert realize.block.init.body.buffer is realize.block.body.body.buffer
    assert tiled.params[0] is tiled.params[0]
    assert tiled.buffer_map[tiled.params[0]] is tiled.buffer_map[tiled.params[0]]


def test_what_a_block_touches_is_derived() -> None:
    """Inner loops widen a point to a box; a reduction does not read its accumulator."""
    A, C = (tiled.buffer_map[p] for p in tiled.params)
    block = tiled.body.block.body.body.body.block
    vi, vj = (a.var for a in block.iter_vars)
    of = Range.from_min_extent

    assert_structural_equal(
        list(block.reads), [BufferRegion(A, [of(vj, 1), of(vi * 4, 4)])]
    )
    assert_structural_equal(
        list(block.writes), [BufferRegion(C, [of(vi * 4, 4), of(0, 1)])]
    )


def test_names_of_blocks_and_buffers_do_not_matter_but_annotations_do() -> None:
    def made(name, mark):
        @T.prim_func(private=True)
        def program(B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block(name):
                    vi = T.axis.spatial(4, i)
                    T.block_attr({"mark": mark})
                    B[vi] = T.float32(1)

        return program

    assert structural_equal(made("a", 1), made("b", 1))
    assert structural_hash(made("a", 1)) == structural_hash(made("b", 1))
    assert not structural_equal(made("a", 1), made("a", 2))


def test_a_program_made_of_statements() -> None:
    A = tir.decl_buffer((8,), "float32", "A")
    i, a = tir.Var("i", "int32"), tir.Var("a", "handle")
    store = tir.BufferStore(A, A[i] + tir.const(1.0, "float32"), [i])
    loop = tir.For(i, 0, 8, tir.ForKind.PARALLEL, store)

    made = tir.PrimFunc([a], loop, None, {a: A}).with_attr("global_symbol", "made")

    @T.prim_func
    def made_by_script(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "made"})
        for i in T.parallel(8):
            A[i] = A[i] + T.float32(1)

    assert made.params[0] is a
    assert_structural_equal(made, made_by_script)


def test_a_copy_of_its_statements_is_the_same_program() -> None:
    buffers = tiled.buffer_map

    copy = tir.PrimFunc(tiled.params, tiled.body, None, buffers, tiled.attrs)

    assert_structural_equal(copy, tiled)


def test_specialize_fixes_sizes() -> None:
    @T.prim_func(private=True)
    def program(a: T.handle, c: T.handle, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m, n), "float32")
        C = T.match_buffer(c, (m, n), "float32")
        B = T.alloc_buffer((m, n * 2), "float32")
        for i, j in T.grid(m, n):
            B[i, j + n] = A[i, j]
            C[i, j] = B[i, j + n]

    a, _, n = program.params
    fixed = program.specialize({a: tir.decl_buffer((4, 8))}).specialize({})
    partly = program.specialize({n: 8})

    @T.prim_func(private=True)
    def expected(A: T.Buffer((4, 8), "float32"), c: T.handle, n: T.int32):
        C = T.match_buffer(c, (4, 8), "float32")
        B = T.alloc_buffer((4, 16), "float32")
        for i, j in T.grid(4, 8):
            B[i, j + 8] = A[i, j]
            C[i, j] = B[i, j + 8]

    assert partly.params[-1].dtype == "handle"
    assert str(partly.buffer_map[partly.params[0]].shape[1]) == "8"
    assert_structural_equal(fixed.body, expected.body, map_free_vars=True)
    with pytest.raises(ValueError, match="is not a parameter"):
        program.specialize({tir.Var("k", "int32"): 3})


def test_walks_and_changes() -> None:
    seen: list[str] = []
    stmt_functor.post_order_visit(tiled.body, lambda n: seen.append(type(n).__name__))

    doubled = stmt_functor.ir_transform(
        tiled.body,
        None,
        lambda n: tir.const(2.0, "float32") if isinstance(n, tir.FloatImm) else None,
        ["tir.FloatImm"],
    )

    assert seen.count("BufferStore") == 2
    assert seen[-1] == "BlockRealize"
    assert seen.index("For") < seen.index("Block")
    assert "T.float32(2.0)" in str(doubled)
    assert "T.float32(0.0)" not in str(doubled)


def test_struct_info_tells_shapes_and_effects() -> None:
    @T.prim_func
    def scalars(n: T.int32, x: T.float32) -> T.float32:
        T.ret(x * T.Cast("float32", n))

    assert str(tiled.struct_info.params[0]) == 'R.Tensor((8, 8), dtype="float32")'
    assert not tiled.struct_info.purity
    assert scalars.struct_info.purity
    assert str(scalars.struct_info.ret) == 'R.Prim("float32")'


def test_sizes_strides_and_offsets_are_specialized() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32, row: T.int32):
        A = T.match_buffer(a, (n, 4), strides=[row, 1], elem_offset=row)
        B = T.decl_buffer((n * 4,), data=A.data)
        for i in range(n):
            B[i] = A[i, 0]

    @T.prim_func
    def expected(a: T.handle):
        A = T.match_buffer(a, (3, 4), strides=[8, 1], elem_offset=8)
        B = T.decl_buffer((12,), data=A.data)
        for i in range(3):
            B[i] = A[i, 0]

    pointer, n, row = before.params

    by_number = before.specialize({n: 3, row: 8})
    by_buffer = before.specialize(
        {pointer: decl_buffer((3, 4), strides=[8, 1], elem_offset=8), n: 3}
    )

    wanted = expected.with_attr("global_symbol", "before")
    assert_structural_equal(by_number, wanted)
    assert_structural_equal(by_buffer, wanted)
    assert before.specialize({}) is before


def test_definitions_may_be_made_anew() -> None:
    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i]

    again = renew_defs(copy)

    assert_structural_equal(again, copy)
    olds, news = (list(f.buffer_map.values()) for f in (copy, again))
    assert not any(old is new for old in olds for new in news)
