"""Visitors and mutators of Relax expressions."""

from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir.objects import expr_functor, prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import PyExprMutator, PyExprVisitor
from relax_mlir.tvm.relax.analysis import remove_all_unused
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812

# ruff: noqa: N805, SIM108  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false

M, N = prim.Var("m", "int64"), prim.Var("n", "int64")
X = relax.Var("x", relax.TensorStructInfo([M, N], "float32"))
Y = relax.Var("y", relax.TensorStructInfo([M, N], "float32"))

KINDS = {
    "Constant": "visit_constant_",
    "GlobalVar": "visit_global_var_",
    "Tuple": "visit_tuple_",
    "Var": "visit_var_",
    "DataflowVar": "visit_dataflow_var_",
    "Function": "visit_function_",
    "Call": "visit_call_",
    "If": "visit_if_",
    "Op": "visit_op_",
    "TupleGetItem": "visit_tuple_getitem_",
    "PrimValue": "visit_prim_value_",
    "StringImm": "visit_string_imm_",
    "DataTypeImm": "visit_data_type_imm_",
    "ShapeExpr": "visit_shape_expr_",
    "ExternFunc": "visit_extern_func_",
    "SeqExpr": "visit_seq_expr_",
    "VarBinding": "visit_var_binding_",
    "MatchCast": "visit_match_cast_",
    "BindingBlock": "visit_binding_block_",
    "DataflowBlock": "visit_dataflow_block_",
    "VarDef": "visit_var_def_",
    "DataflowVarDef": "visit_dataflow_var_def_",
}


def logging(base: type, after: Callable[[Any, str, Any], Any]) -> Any:
    """A class that logs each kind of node that it visits, after the default visit."""

    def method(label: str, name: str) -> Callable[[Any, Any], Any]:
        def visit(self: Any, part: Any) -> Any:
            return after(self, label, getattr(super(made, self), name)(part))

        return visit

    body = {name: method(label, name) for label, name in KINDS.items()}
    made = type("Logging", (base,), body)
    return made


def log_of(base: type, part: Any) -> list[str]:
    log: list[str] = []

    def after(_: Any, label: str, result: Any) -> Any:
        log.append(label)
        return result

    made = logging(base, after)()
    if isinstance(part, relax.Expr):
        made.visit_expr(part)
    else:
        made.visit_binding_block(part)
    return log


@pytest.mark.parametrize(
    ("part", "visited"),
    [
        (relax.const(1.0), "Constant"),
        (relax.GlobalVar("f"), "GlobalVar"),
        (relax.ExternFunc("f"), "ExternFunc"),
        (relax.StringImm("s"), "StringImm"),
        (relax.PrimValue(3), "PrimValue"),
        (relax.ShapeExpr([M, N]), "ShapeExpr"),
        (X, "ShapeExpr Var"),
        (relax.Tuple([relax.const(1)]), "Constant ShapeExpr Tuple"),
        (relax.Call("relax.add", [X, Y]), "Op ShapeExpr Var ShapeExpr Var Call"),
        (
            relax.TupleGetItem(relax.Tuple([relax.const(1)]), 0),
            "Constant ShapeExpr Tuple ShapeExpr TupleGetItem",
        ),
        (
            relax.If(relax.const(True), relax.const(1), relax.const(2)),
            "Constant Constant ShapeExpr SeqExpr Constant ShapeExpr SeqExpr If",
        ),
    ],
)
def test_visitors_are_in_post_order(part: relax.Expr, visited: str) -> None:
    assert log_of(PyExprVisitor, part) == visited.split()


def test_values_are_visited_before_variables() -> None:
    builder = relax.BlockBuilder()
    builder._begin_dataflow_block()
    builder.emit(relax.const(1))
    builder.match_cast(relax.const(2), relax.ObjectStructInfo())
    block = builder._end_block()

    assert log_of(PyExprVisitor, block) == [
        *("Constant", "VarDef", "DataflowVarDef", "VarBinding"),
        *("Constant", "VarDef", "DataflowVarDef", "MatchCast", "DataflowBlock"),
    ]


def test_a_function_is_visited_by_parameters_then_body() -> None:
    function = relax.Function([X], relax.SeqExpr([], relax.const(1)))

    assert log_of(PyExprVisitor, function) == [
        *("VarDef", "Constant", "ShapeExpr", "SeqExpr", "Function")
    ]


def test_a_mutator_that_changes_nothing_gives_the_same_object() -> None:
    @R.function
    def function(x: R.Tensor(("n", 4), "float32"), cond: R.Tensor((), "bool")):
        n = T.int64()
        with R.dataflow():
            a = R.add(x, x)
            b = (a, x)
            c = b[0]
            R.output(c)
        d = R.match_cast(c, R.Tensor((n, 4), "float32"))
        if cond:
            e = R.multiply(d, d)
        else:
            e = R.nn.relu(d)
        return e

    assert PyExprMutator().visit_expr(function) is function
    call = relax.BlockBuilder().normalize(relax.op.add(X, Y))
    assert PyExprMutator().visit_expr(call) is call


def test_a_mutator_visits_sizes_in_struct_info() -> None:
    call = relax.BlockBuilder().normalize(relax.op.add(X, Y))

    assert log_of(PyExprMutator, call) == ["Op", "Var", "Var", "ShapeExpr", "Call"]


def test_a_subclass_may_call_what_it_overrides() -> None:
    log: list[str] = []

    @expr_functor.visitor
    class Outer(PyExprVisitor):
        def visit_call_(self, op: relax.Call) -> None:
            log.append("outer")
            super().visit_call_(op)

    @expr_functor.visitor
    class Inner(Outer._cls):
        def visit_call_(self, op: relax.Call) -> None:
            log.append("inner")
            super().visit_call_(op)

    Inner().visit_expr(relax.op.add(X, Y))

    assert log == ["inner", "outer"]


def test_no_class_inherits_from_a_decorated_one() -> None:
    @expr_functor.visitor
    class Outer(PyExprVisitor):
        pass

    with pytest.raises(TypeError, match=r"inherit from `Inner\._cls`"):

        @expr_functor.visitor
        class Inner(Outer):
            pass


def test_missing_methods_are_errors() -> None:
    with pytest.raises(TypeError, match="expected a Relax expression, got int"):
        PyExprVisitor().visit_expr(3)
    with pytest.raises(NotImplementedError, match="`Var`"):
        expr_functor.ExprFunctor().visit_expr(X)


def test_a_multiply_add_becomes_one_operator() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                lv0 = R.multiply(x, y)
                gv0 = R.add(lv0, y)
                R.output(gv0)
            return gv0

    @expr_functor.mutator
    class EwiseFma(PyExprMutator):
        def visit_call_(self, op: relax.Call) -> relax.Expr:
            call = self.visit_expr_post_order(op)
            if call.op != relax.Op.of("relax.add"):
                return call
            value = self.lookup_binding(call.args[0])
            if not isinstance(value, relax.Call) or value.op.name != "relax.multiply":
                return call
            return relax.Call(
                "relax.ewise_fma", [*value.args, call.args[1]], None, None
            )

    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            gv0 = R.ewise_fma(x, y, y)
            R.output(gv0)
        return gv0

    updated = EwiseFma().visit_expr(Module["main"])

    assert len(updated.body.blocks[0].bindings) == 2
    assert_structural_equal(remove_all_unused(updated), main)


def test_a_mutator_adds_functions_to_its_module() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(a)
                R.output(b)
            return b

    class Outline(PyExprMutator):
        def visit_call_(self, op: relax.Call) -> relax.Expr:
            call = self.visit_expr_post_order(op)
            param = relax.Var("p", call.args[0].struct_info)
            builder = relax.BlockBuilder()
            with builder.function("fused_exp", [param]):
                builder.emit_func_output(builder.emit(relax.op.exp(param)))
            fused = builder.get()["fused_exp"].with_attr("Primitive", 1)
            return relax.Call(self.builder_.add_func(fused, "fused_exp"), call.args)

    outline = Outline(Module)
    outline.builder_.update_func("main", outline.visit_expr(Module["main"]))
    made = outline.builder_.get()

    assert [v.name_hint for v in made.get_global_vars()] == ["main", "fused_exp"]
    callees = [b.value.op.name_hint for b in made["main"].body.blocks[0].bindings]
    assert callees == ["fused_exp", "fused_exp"]


def test_a_mutator_emits_bindings_before() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return a

    @R.function(private=True)
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.negative(x)
            lv1 = R.exp(lv)
            a = R.negative(lv1)
            R.output(a)
        return a

    class Negate(PyExprMutator):
        def visit_call_(self, op: relax.Call) -> relax.Expr:
            inner = self.builder_.emit(relax.op.negative(op.args[0]))
            return relax.op.negative(relax.op.exp(inner))

    assert_structural_equal(Negate().visit_expr(before), expected)


def test_parameters_may_change() -> None:
    class Batched(PyExprMutator):
        def visit_var_def_(self, var: relax.Var) -> relax.Var:
            if var.name_hint != "a":
                return var
            return relax.Var("a1", relax.TensorStructInfo((1, 8), "float32"))

    @R.function(private=True)
    def before(a: R.Tensor((4, 8), "float32"), b: R.Tensor((8, 2), "float32")):
        return R.matmul(a, b)

    @R.function(private=True)
    def expected(a: R.Tensor((1, 8), "float32"), b: R.Tensor((8, 2), "float32")):
        return R.matmul(a, b)

    assert_structural_equal(Batched().visit_expr(before), expected)


def test_a_variable_keeps_its_identity_when_its_type_is_refined() -> None:
    known = relax.TensorStructInfo((4,), "float32")
    var = relax.Var("x", relax.TensorStructInfo(ndim=1, dtype="float32"))

    same = PyExprMutator.with_struct_info(
        var, relax.TensorStructInfo(ndim=1, dtype="float32")
    )
    other = PyExprMutator.with_struct_info(var, known)

    assert same is var
    assert other.vid is var.vid
    assert other.struct_info == known
    mutator = PyExprMutator()
    mutator.set_var_remap(var.vid, other)
    assert mutator.get_var_remap(var.vid) is other
    assert mutator.visit_expr(var) is other
