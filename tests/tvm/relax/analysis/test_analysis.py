"""Static analyses of Relax programs."""

from collections.abc import Sequence
from typing import Any

import pytest

from relax_mlir import IRModule
from relax_mlir.errors import IRError
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.analysis import (
    BaseCheckResult,
    all_global_vars,
    all_vars,
    bound_vars,
    called_global_vars,
    check_well_formed,
    collect_non_negative_expressions,
    computable_at_compile_time,
    contains_impure_call,
    definable_tir_vars_in_struct_info,
    defined_symbolic_vars,
    derive_call_ret_struct_info,
    detect_recursion,
    erase_to_well_defined,
    estimate_memory_usage,
    free_symbolic_vars,
    free_vars,
    get_static_type,
    get_var2val,
    name_to_binding,
    post_order_visit,
    remove_all_unused,
    struct_info_base_check,
    struct_info_lca,
    tir_vars_in_struct_info,
    udchain,
    used_vars,
    well_formed,
)
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812

# ruff: noqa: F841, N805, RET504, SIM108  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false

Tensor, Shape, Prim = (
    relax.TensorStructInfo,
    relax.ShapeStructInfo,
    relax.PrimStructInfo,
)
Object, Tuple, Func = (
    relax.ObjectStructInfo,
    relax.TupleStructInfo,
    relax.FuncStructInfo,
)


def size(name: str) -> prim.Var:
    return prim.Var(name, "int64")


def names(variables: Sequence[Any]) -> list[str]:
    return [getattr(v, "name_hint", None) or v.name for v in variables]


@I.ir_module
class Example:
    @R.function
    def double(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(a, a)

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        cls = Example
        z = R.add(x, y)
        with R.dataflow():
            q = R.add(z, z)
            p = cls.double(q)
            R.output(p)
        return p


def test_variables_of_a_function() -> None:
    main = Example["main"]

    assert names(bound_vars(main)) == ["x", "y", "z", "q", "p"]
    assert names(bound_vars(main.body)) == ["z", "q", "p"]
    assert free_vars(main) == []
    assert names(free_vars(main.body)) == ["x", "y"]
    assert set(names(all_vars(main))) == {"x", "y", "z", "q", "p"}
    assert names(used_vars(main.body.blocks[0].bindings[0].value)) == ["x", "y"]


def test_functions_referenced_by_an_expression() -> None:
    f, g = relax.GlobalVar("f"), relax.GlobalVar("g")
    call = relax.Call(f, [g])

    assert names(all_global_vars(call)) == ["f", "g"]
    assert names(called_global_vars(call)) == ["f"]
    assert names(all_global_vars(Example["main"])) == ["double"]


def test_an_inner_function_may_use_what_is_around_it() -> None:
    x, y, z = (relax.Var(n, Tensor((4,), "float32")) for n in "xyz")
    inner = relax.Function([z], relax.op.add(x, relax.op.add(y, z)))

    assert names(free_vars(inner)) == ["x", "y"]


def test_users_and_values_of_variables() -> None:
    block = Example["main"].body.blocks[1]
    q, p = (b.var for b in block.bindings)
    z = Example["main"].body.blocks[0].bindings[0].var

    assert udchain(block) == {z: [q], q: [p], p: []}
    assert get_var2val(Example["main"])[q].op.name == "relax.add"
    assert [b.var for b in name_to_binding(Example["main"])["p"]] == [p]


def test_traversal_is_in_post_order() -> None:
    x = relax.Var("x", Tensor((4,), "float32"))
    inner = relax.op.exp(x)
    outer = relax.op.negative(inner)
    visited: list[relax.Expr] = []

    post_order_visit(outer, visited.append)

    calls = [v for v in visited if isinstance(v, relax.Call)]
    assert calls == [inner, outer]
    assert visited[-1] is outer


def test_dead_bindings_are_removed() -> None:
    @R.function(private=True, pure=False)
    def before(x: R.Tensor((4,), "float32"), cond: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            c = R.exp(b)
            R.output(a)
        d = R.multiply(a, x)
        e = R.call_packed("observe", d, sinfo_args=R.Tensor((4,), "float32"))
        f = R.negative(e)
        if cond:
            g = R.add(x, x)
        else:
            g = x
        return a

    @R.function(private=True, pure=False)
    def expected(x: R.Tensor((4,), "float32"), cond: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.add(x, x)
            R.output(a)
        d = R.multiply(a, x)
        e = R.call_packed("observe", d, sinfo_args=R.Tensor((4,), "float32"))
        return a

    after = remove_all_unused(before)

    assert_structural_equal(after, expected)
    assert remove_all_unused(after) is after


def test_casts_stay_and_dead_code_in_branches_is_removed() -> None:
    @R.function(private=True)
    def before(x: R.Tensor(ndim=1, dtype="float32"), cond: R.Tensor((), "bool")):
        n = T.int64()
        cast = R.match_cast(x, R.Tensor((n,), "float32"))
        if cond:
            unused = R.exp(x)
            out = R.negative(x)
        else:
            out = x
        return out

    after = remove_all_unused(before)

    cast, choice = after.body.blocks[0].bindings
    assert isinstance(cast, relax.MatchCast)
    (block,) = choice.value.true_branch.blocks
    assert [
        b.value.op.name for b in block.bindings if isinstance(b.value, relax.Call)
    ] == ["relax.negative"]


def test_impure_calls_are_found() -> None:
    @R.function(pure=False)
    def printing(x: R.Tensor((4,), "float32")):
        y = R.print(x, format="{}")
        return x

    @R.function(pure=False)
    def packed(x: R.Tensor((4,), "float32")):
        y = R.call_packed("f", x, sinfo_args=R.Tensor((4,), "float32"))
        return y

    assert contains_impure_call(printing)
    assert contains_impure_call(packed)
    assert not contains_impure_call(Example["main"])


def test_mutually_recursive_functions_are_groups() -> None:
    def function(*callees: str) -> relax.Function:
        x = relax.Var("x", Tensor((4,), "float32"))
        signature = Func([x.struct_info], x.struct_info)
        body: relax.Expr = x
        for name in callees:
            body = relax.Call(relax.GlobalVar(name, signature), [body])
        return relax.Function([x], body, x.struct_info)

    module = IRModule(
        {
            "a": function("b"),
            "b": function("a", "c"),
            "c": function("c"),
            "d": function("a"),
        }
    )

    assert [names(group) for group in detect_recursion(module)] == [["a", "b"], ["c"]]


def test_struct_info_base_check() -> None:
    n, m = size("n"), size("m")
    fail_0, fail_1, fail_2 = list(BaseCheckResult)[:3]
    cases = [
        (Object(), Prim("int32"), BaseCheckResult.PASS),
        (Prim("int32"), Object(), fail_1),
        (Prim("int32"), Prim("float32"), fail_0),
        (Shape(), Shape(ndim=2), BaseCheckResult.PASS),
        (Shape(ndim=2), Shape(), fail_1),
        (Shape(ndim=2), Shape(ndim=3), fail_0),
        (Shape([1, 2]), Shape(ndim=2), fail_2),
        (Shape([1, 2]), Shape([1, n]), fail_2),
        (Tensor(dtype="int32"), Tensor([n, m], "int32"), BaseCheckResult.PASS),
        (Tensor([n, 1], "int32"), Tensor([n, 2], "int32"), fail_0),
        (Tensor([n * 2], "int32"), Tensor([n + n], "int32"), BaseCheckResult.PASS),
        (Tuple([Object()]), Tuple([Object(), Object()]), fail_0),
        (Tuple([Prim("int32")]), Tuple([Object()]), fail_1),
        (Func.opaque_func(), Func([Object()], Object()), BaseCheckResult.PASS),
        (Func([Object()], Object()), Func.opaque_func(purity=True), fail_2),
        (Func([Object()], Object()), Func.opaque_func(purity=False), fail_0),
    ]

    for base, derived, expected in cases:
        assert struct_info_base_check(base, derived) == expected, (base, derived)
        assert base.is_base_of(derived) == (expected is BaseCheckResult.PASS)


def test_symbols_of_a_function_are_its_own() -> None:
    def square() -> relax.FuncStructInfo:
        n = size("n")
        return Func([Tensor([n, n], "float32")], Tensor([n], "float32"))

    erased = Func([Tensor(ndim=2, dtype="float32")], Tensor(ndim=1, dtype="float32"))

    assert square().is_base_of(square())
    assert erased.is_base_of(square())
    assert not square().is_base_of(erased)
    assert_structural_equal(struct_info_lca(square(), erased), erased)


def test_struct_info_lca() -> None:
    n = size("n")
    cases = [
        (Object(), Prim("int32"), Object()),
        (Shape([1, 2]), Shape([1, n]), Shape(ndim=2)),
        (Shape(ndim=2), Shape(ndim=3), Shape()),
        (
            Tensor([n, 1], "int32"),
            Tensor([n, 2], "int32"),
            Tensor(ndim=2, dtype="int32"),
        ),
        (Tensor(dtype="int32"), Tensor(dtype="float32"), Tensor(dtype="")),
        (
            Prim(value=prim.const(0, "int8")),
            Prim(value=prim.const(1, "int8")),
            Prim("int8"),
        ),
        (Prim("int8"), Prim("int16"), Object()),
        (Tuple([Object()]), Tuple([Object(), Object()]), Object()),
    ]

    for a, b, expected in cases:
        assert struct_info_lca(a, b) == expected
        assert struct_info_lca(b, a) == expected


def test_struct_info_without_sizes() -> None:
    n = size("n")

    assert get_static_type(Tensor([1, n], "int64")) == Tensor(ndim=2, dtype="int64")
    assert get_static_type(Shape([1, n])) == Shape(ndim=2)
    function = get_static_type(Func([Tensor([n], "int64")], Shape([n])))
    assert function == Func([Tensor(ndim=1, dtype="int64")], Shape(ndim=1))


def test_undefined_symbols_are_erased() -> None:
    n, m = size("n"), size("m")
    shape = relax.Var("shape", Shape(ndim=2))

    assert erase_to_well_defined(Shape([n + 1, m]), {n: n}) == Shape(ndim=2)
    assert erase_to_well_defined(Shape([n + 1, m]), {n: 2, m: m}) == Shape([3, m])
    assert erase_to_well_defined(Tensor(shape, "int32")) == Tensor(
        ndim=2, dtype="int32"
    )
    known = {shape: relax.ShapeExpr([1, 2])}
    assert erase_to_well_defined(Tensor(shape, "int32"), None, known) == Tensor(
        [1, 2], "int32"
    )


def test_derived_call_result_struct_info() -> None:
    n, m = size("n"), size("m")
    signature = Func([Tensor([n, m], "float32")], Tensor([m + 1, n], "float32"))

    def given(*infos: relax.StructInfo) -> relax.StructInfo:
        args = [relax.Var("a", info) for info in infos]
        call = relax.Call(relax.GlobalVar("f", signature), args)
        return derive_call_ret_struct_info(signature, call, relax.BlockBuilder())

    assert given(Tensor([10, 11], "float32")) == Tensor([12, 10], "float32")
    unknown = Tensor(ndim=2, dtype="float32")
    assert given(unknown) == unknown
    with pytest.raises(ValueError, match="takes 1 arguments, got 2"):
        given(unknown, unknown)
    with pytest.raises(ValueError, match=r"got R\.Object"):
        given(Object())


def test_variables_of_sizes() -> None:
    n, m, k = size("n"), size("m"), size("k")
    info = Tensor([1, n * 2, m], "int32")
    x = relax.Var("x", Tensor([m, m + n], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.match_cast(x, Tensor([m, k], "float32"))
        builder.emit_func_output(relax.const(1))
    main = builder.get()["main"]

    assert tir_vars_in_struct_info(info) == [n, m]
    assert definable_tir_vars_in_struct_info(info) == [m]
    assert names(defined_symbolic_vars(main)) == ["m", "k"]
    assert names(free_symbolic_vars(main)) == ["n"]


def test_sizes_are_not_negative_and_scalars_may_be() -> None:
    n, m = size("n"), size("m")
    info = Func([Tensor([4, m, n - 2]), Shape([m, n]), Prim(value=n)], Tuple([]))

    found = collect_non_negative_expressions(info)

    assert list(map(str, found)) == ["m", "n - 2", "n"]


def test_bindings_computable_at_compile_time() -> None:
    @R.function
    def main(
        x: R.Tensor(("m",), "float32"),
        w: R.Tensor((4,), "float32"),
        v: R.Tensor(("n",), "float32"),
    ):
        R.func_attr({"num_input": 1})
        m = T.int64()
        n = T.int64()
        a = R.add(w, w)
        b = R.zeros(R.shape([n]), "float32")
        c = R.zeros(R.shape([m]), "float32")
        d = R.add(x, x)
        return d

    assert names(computable_at_compile_time(main)) == ["w", "v", "a", "b"]
    assert computable_at_compile_time(Example["main"]) == []


def test_allocations_are_added_up() -> None:
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 4), "float32")):
            s = R.memory.alloc_storage(R.shape([64]), 0, "global", "float32")
            a = R.memory.alloc_tensor(s, 0, R.shape([2, 4]), "float32")
            b = R.memory.alloc_tensor(s, 0, R.shape([8]), "float32")
            c = R.builtin.alloc_tensor(R.shape([16]), "float32", 0)
            return x

    report = estimate_memory_usage(Module)

    assert "- Function main:\n" in report
    assert "there are 3 constant-size memory allocation(s)" in report
    assert "there are 2 constant-size memory allocation(s)" in report
    assert "reduces constant memory size to 100.0%" in report
    assert estimate_memory_usage(Module["main"]).count("Function") == 1


def function_of(
    *blocks: relax.BindingBlock, params: list[relax.Var], result: relax.Expr
) -> relax.Function:
    return relax.Function(params, relax.SeqExpr(blocks, result))


def broken() -> dict[str, relax.Function]:
    """One ill-formed function per rule."""
    info = Tensor((4,), "float32")
    x, y = relax.Var("x", info), relax.Var("y", info)
    inner = relax.DataflowVar("inner", info)
    stray = size("stray")
    wide = relax.Var("wide", Tensor((stray,), "float32"))
    add = relax.op.add(x, x)
    print_ = relax.op.print(x, format="{}")
    block, flow, bind = relax.BindingBlock, relax.DataflowBlock, relax.VarBinding
    choice = relax.If(relax.const(True), x, x)
    cases = {
        "variable `z` is undefined": [
            block([bind(y, relax.op.add(x, relax.Var("z", info)))])
        ],
        "variable `y` is redefined": [block([bind(y, add), bind(y, add)])],
        "defined outside of any dataflow": [block([bind(inner, add), bind(y, x)])],
        "outside of its dataflow": [flow([bind(inner, add)]), block([bind(y, inner)])],
        "symbolic variable `stray`": [block([bind(y, x), bind(wide, x)])],
        "contains an `If`": [flow([bind(y, choice)])],
        "is impure": [flow([bind(relax.Var("p", Object()), print_), bind(y, x)])],
        "has an impure call": [
            block([bind(relax.Var("p", Object()), print_), bind(y, x)])
        ],
        "expected a variable or a constant": [block([bind(y, relax.op.add(add, x))])],
        "bound to a sequence": [block([bind(y, relax.SeqExpr([], x))])],
    }
    return {
        rule: function_of(*blocks, params=[x], result=y)
        for rule, blocks in cases.items()
    }


@pytest.mark.parametrize("rule", list(broken()))
def test_a_broken_rule_is_found(rule: str) -> None:
    function = broken()[rule]
    if rule == "is impure":
        function = function.with_attr("relax.force_pure", True)

    assert not well_formed(function, check_struct_info=False)
    assert not check_well_formed(function, check_ty=False)
    with pytest.raises(IRError, match=rule):
        well_formed(function, check_ty=False)
    with pytest.raises(IRError):
        well_formed(function, check_ty=True)


def test_valid_functions_are_well_formed() -> None:
    @R.function(pure=False)
    def impure(x: R.Tensor((4,), "float32")):
        y = R.print(x, format="{}")
        return x

    assert well_formed(Example)
    assert well_formed(Example, check_ty=True)
    assert check_well_formed(impure)
    assert not well_formed(impure.with_attr("relax.force_pure", True))


def test_functions_share_no_variables() -> None:
    x = relax.Var("x", Tensor((4,), "float32"))
    same = IRModule(
        {n: relax.Function([x], x, attrs={"global_symbol": n}) for n in "fg"}
    )
    missing = relax.Call(
        relax.GlobalVar("missing", Func([x.struct_info], x.struct_info)), [x]
    )

    assert not well_formed(same)
    assert not well_formed(IRModule({"f": relax.Function([x], missing)}))
