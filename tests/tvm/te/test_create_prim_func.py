"""Tensor expressions and their lowering to PrimFuncs."""

# Scripts are Python that no type checker knows.
# pyright: reportInvalidTypeForm=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.prim import Range, SizeVar
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.script import tir as T  # noqa: N812  what scripts call it
from relax_mlir.tvm.te import create_prim_func


def test_a_tensor_knows_what_it_is_made_of() -> None:
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b", tag="t")

    assert (a.ndim, a.dtype, a.name) == (2, "float32", "a")
    assert tuple(b.shape) == (n,)
    assert b.op.input_tensors == [a]
    assert b.op.reduce_axis == (k,)
    assert [axis.var.name for axis in b.op.axis] == ["i"]
    assert {b.op.output(0): 1}[b] == 1
    assert b.op.tag == "t"
    assert b != a


def test_elements_are_loaded_by_all_indices_at_once_or_one_by_one() -> None:
    a = te.placeholder((2, 3), name="a")

    loads = [a(0, 1), a[0, 1], a[0][1], a[0][1].asobject()]

    assert {str(load) for load in loads} == {"a[0, 1]"}
    assert str(te.placeholder((), name="s")()) == "s[()]"
    with pytest.raises(ValueError, match="`a`: expected 2 indices, got 3"):
        a(0, 0, 0)


def test_operators_on_tensors_broadcast() -> None:
    a, b = te.placeholder((4, 3), name="a"), te.placeholder((3,), name="b")

    assert (a + b).op.name == "T_add"
    assert [int(s) for s in (b * a).shape] == [4, 3]
    assert str((1.0 - a).op.body[0]) == "T.float32(1.0) - a[ax0, ax1]"
    assert str((-a).op.body[0]) == "a[ax0, ax1] * T.float32(-1.0)"
    assert a.astype("int32").dtype == "int32"
    with pytest.raises(TypeError, match="of integers is ambiguous"):
        _ = te.placeholder((3,), "int32") / 2


def test_axes_of_the_rest_are_numbered() -> None:
    a = te.compute((2, 3, 4), lambda i, *rest: i + rest[0] + rest[1])

    assert [axis.var.name for axis in a.op.axis] == ["i", "i0", "i1"]
    with pytest.raises(ValueError, match="at most 1 index variables, got 2"):
        te.compute((2,), lambda i, j: i)
    with pytest.raises(ValueError, match="got one with defaults or keywords"):
        te.compute((2,), lambda i, j=1: i)


def test_a_reduction_is_the_whole_of_an_element() -> None:
    a, k = te.placeholder((4,)), te.reduce_axis((0, 4))

    with pytest.raises(ValueError, match="expected reductions only as the whole"):
        te.compute((1,), lambda i: te.sum(a[k], axis=k) + 1)


def test_tags_come_from_the_scope() -> None:
    with te.tag_scope("outer"):
        a = te.compute((2,), lambda i: i)
        with pytest.raises(ValueError, match="expected no tag inside the scope"):
            te.compute((2,), lambda i: i, tag="own")
    assert a.op.tag == "outer"
    assert isinstance(te.size_var("n"), SizeVar)
    with pytest.raises(ValueError, match=r"expected a tag, such as `threadIdx.x`"):
        te.thread_axis((0, 4))


def test_a_reduction_becomes_a_block_with_a_start() -> None:
    a = te.placeholder((16, 8), name="a")
    b = te.placeholder((4, 8), name="b")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((16, 4), lambda x, y: te.sum(a[x, k] * b[y, k], axis=k), name="c")

    @T.prim_func
    def main(
        a: T.Buffer((16, 8), "float32"),
        b: T.Buffer((4, 8), "float32"),
        c: T.Buffer((16, 4), "float32"),
    ) -> None:
        T.func_attr({"tir.noalias": True})
        for x, y, k in T.grid(16, 4, 8):
            with T.block("c"):
                vx, vy, vk = T.axis.remap("SSR", [x, y, k])
                with T.init():
                    c[vx, vy] = T.float32(0)
                c[vx, vy] = c[vx, vy] + a[vx, vk] * b[vy, vk]

    assert_structural_equal(create_prim_func([a, b, c]), main)


def test_tensors_between_are_buffers_of_the_program_and_blocks_have_names_of_their_own() -> (
    None
):
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] * 2, name="twice")
    c = te.compute((4,), lambda i: b[i] * 2, name="twice")

    program = create_prim_func([c, a])

    @T.prim_func
    def main(c: T.Buffer((4,), "float32"), a: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        b = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("twice"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi] * T.float32(2)
        for i in range(4):
            with T.block("twice_1"):
                vi = T.axis.spatial(4, i)
                c[vi] = b[vi] * T.float32(2)

    assert_structural_equal(program, main)
    assert 'T.block("twice_1")' in program.script()


def test_sizes_may_be_symbols_and_indices_get_the_type_that_is_asked_for() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    b = te.compute((n, m), lambda i, j: (a[i, j] + 2, a[i, j] * 3), name="b")

    @T.prim_func
    def main(x: T.handle, y: T.handle, z: T.handle) -> None:
        T.func_attr({"tir.noalias": True})
        n, m = T.int64(), T.int64()
        a = T.match_buffer(x, (n, m))
        b0 = T.match_buffer(y, (n, m))
        b1 = T.match_buffer(z, (n, m))
        for i, j in T.grid(n, m):
            with T.block("b_v0"):
                vi, vj = T.axis.remap("SS", [i, j])
                b0[vi, vj] = a[vi, vj] + T.float32(2)
            with T.block("b_v1"):
                vi, vj = T.axis.remap("SS", [i, j])
                b1[vi, vj] = a[vi, vj] * T.float32(3)

    assert_structural_equal(create_prim_func([a, *b], "int64"), main)


def test_a_size_that_no_tensor_tells_is_a_parameter() -> None:
    n, m, count = (te.var(name, "int64") for name in ("n", "m", "count"))
    a = te.placeholder((n, m), name="a")
    part = te.compute((count, m), lambda i, j: a[i, j], name="part")

    @T.prim_func
    def main(x: T.handle, count: T.int64, y: T.handle) -> None:
        T.func_attr({"tir.noalias": True})
        n, m = T.int64(), T.int64()
        a = T.match_buffer(x, (n, m))
        part = T.match_buffer(y, (count, m))
        for i, j in T.grid(count, m):
            with T.block("part"):
                vi, vj = T.axis.remap("SS", [i, j])
                part[vi, vj] = a[vi, vj]

    assert_structural_equal(create_prim_func([a, count, part]), main)


def test_a_scalar_is_a_block_of_one_point() -> None:
    a = te.placeholder((), name="a")
    b = te.compute((), lambda: a() + 1, name="b")

    @T.prim_func
    def main(a: T.Buffer((), "float32"), b: T.Buffer((), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        with T.block("b"):
            _ = T.axis.spatial(1, 0)
            b[()] = a[()] + T.float32(1)

    assert_structural_equal(create_prim_func([a, b]), main)


def test_several_values_are_reduced_at_once() -> None:
    def better(x: Any, y: Any) -> tuple[Any, Any]:
        first = x[1] >= y[1]
        return T.Select(first, x[0], y[0]), T.Select(first, x[1], y[1])

    def worst(t0: str, t1: str) -> tuple[Any, Any]:
        return te.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(better, worst, name="argmax")
    a = te.placeholder((4, 8), name="a")
    k = te.reduce_axis((0, 8), "k")
    index, value = te.compute(
        (4,), lambda i: argmax((k, a[i, k]), axis=k), name="argmax"
    )

    @T.prim_func
    def main(
        a: T.Buffer((4, 8), "float32"),
        v0: T.Buffer((4,), "int32"),
        v1: T.Buffer((4,), "float32"),
    ) -> None:
        T.func_attr({"tir.noalias": True})
        for i, k in T.grid(4, 8):
            with T.block("argmax"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    v0[vi] = -1
                    v1[vi] = T.min_value("float32")
                n0: T.int32 = T.Select(v1[vi] >= a[vi, vk], v0[vi], vk)
                n1: T.float32 = T.Select(v1[vi] >= a[vi, vk], v1[vi], a[vi, vk])
                v0[vi] = n0
                v1[vi] = n1

    assert_structural_equal(create_prim_func([a, index, value]), main)


def test_an_extent_that_depends_on_an_axis_makes_a_nest_of_blocks() -> None:
    a = te.placeholder((8, 8), name="a")

    def triangle(i: Any) -> Any:
        k = te.reduce_axis(Range.from_min_extent(0, i), "k")
        return te.sum(a[i, k], axis=k)

    b = te.compute((8,), triangle, name="b")

    @T.prim_func
    def main(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            with T.block("b_l1"):
                vi = T.axis.spatial(8, i)
                for k in range(vi):
                    with T.block("b"):
                        wi = T.axis.spatial((vi, vi + 1), vi)
                        vk = T.axis.reduce(vi, k)
                        with T.init():
                            b[wi] = T.float32(0)
                        b[wi] = b[wi] + a[wi, vk]

    program = create_prim_func([a, b])
    blocks = [b.block for b in _realizes(program.body)]

    assert [b.name_hint for b in blocks] == [
        b.block.name_hint for b in _realizes(main.body)
    ]
    assert [b.init is not None for b in blocks] == [False, False, True]


def _realizes(node: Any) -> list[Any]:
    found = [node] if type(node).__name__ == "BlockRealize" else []
    inner = [getattr(node, name, None) for name in ("block", "body", "seq")]
    for part in inner:
        for one in (
            part if isinstance(part, tuple) else [part] if part is not None else []
        ):
            found += _realizes(one)
    return found


def test_attributes_become_annotations_and_free_layouts_an_attribute() -> None:
    a, b = te.placeholder((4, 4), name="a"), te.placeholder((4, 4), name="b")
    product = topi.nn.dense(a, b)

    program = create_prim_func([a, b, topi.nn.softmax(product)])

    assert program.attrs["layout_free_buffers"] == (1,)
    assert 'T.block_attr({"axis": 1})' in program.script()


def test_an_extern_tensor_is_what_its_statement_computes() -> None:
    a = te.placeholder((4,), name="a")

    def body(ins: list[Any], outs: list[Any]) -> Any:
        assert [b.name for b in (*ins, *outs)] == ["a", "copied"]
        return T.call_packed("copy", ins[0], outs[0])

    copied = te.extern((4,), [a], body, name="copied")
    program = create_prim_func([a, te.compute((4,), lambda i: copied[i] + 1)])

    assert copied.dtype == "float32"
    assert 'T.call_packed("copy"' in program.script()
    with pytest.raises(
        ValueError, match="expected `dtype`, for the inputs have no types"
    ):
        te.extern((4,), [], body)
    with pytest.raises(ValueError, match="to return a statement or a call, got int"):
        te.extern((4,), [a], lambda ins, outs: 3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda a: [topi.exp(a)],
            ValueError,
            "tensor `a`: expected it among the parameters",
        ),
        (
            lambda a: [a, te.scan(topi.exp(a), topi.exp(a), a)],
            TypeError,
            "Unsupported Operation: ScanOp",
        ),
    ],
)
def test_what_makes_no_program_is_refused(
    make: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_prim_func(make(te.placeholder((4,), name="a")))
