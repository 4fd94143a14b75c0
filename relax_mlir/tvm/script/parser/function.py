"""Parser of Relax functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, Tuple, Var, VarBinding, const, convert
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.tvm.script.annotations import Annotation, as_annotation
from relax_mlir.tvm.script.blocks import BranchFrame, DataflowFrame, IfFrame
from relax_mlir.tvm.script.builder import Frame, FunctionFrame, IRBuilder
from relax_mlir.tvm.script.parser.evaluate import Evaluator
from relax_mlir.tvm.script.parser.statement import StatementParser

__all__ = ["FunctionParser", "MetaVar", "decorator_option", "function_signature"]


class MetaVar:
    """A Python value that an assignment binds as it is, without emitting a binding."""

    def __init__(self, value: Any) -> None:
        self.value = value


def decorator_option(node: ast.FunctionDef, option: str, default: bool) -> bool:
    """Returns a Boolean option of a function's decorator."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg == option and isinstance(keyword.value, ast.Constant):
                    return bool(keyword.value.value)
    return default


def function_signature(evaluator: Evaluator, node: ast.FunctionDef) -> FuncStructInfo:
    """Returns the struct info of a function from its header."""
    frame = FunctionFrame(is_pure=decorator_option(node, "pure", True))
    with evaluator.variables.frame():
        FunctionParser(evaluator, frame).header(node)
        return frame.signature()


class FunctionParser(StatementParser):
    """Parses one Relax function.

    Args:
        evaluator: evaluates its expressions.
        frame: the builder of the function.
    """

    construct = "a Relax function"

    def __init__(self, evaluator: Evaluator, frame: FunctionFrame) -> None:
        super().__init__(evaluator)
        self.frame = frame

    def parse(self, node: ast.FunctionDef) -> None:
        """Parses a function into the current frame."""
        with self._variables.frame():
            self.frame.name = node.name
            self.header(node)
            for param in self.frame.params:
                self._variables.define(param.name_hint, param)
            self.statements(node.body)

    def header(self, node: ast.FunctionDef) -> None:
        """Parses the parameters and the result annotation."""
        args = self._plain_params(node)
        for name in self._variables.sizes:
            if not isinstance(self._variables.get(name), prim.Var):
                self._variables.define(name, prim.Var(name, "int64"))
        annotations = [self._annotation(arg) for arg in args]
        for annotation in annotations:
            for name in annotation.symbols():
                if not isinstance(self._local_symbol(name), prim.Var):
                    self._variables.define(name, prim.Var(name, "int64"))
        for arg, annotation in zip(args, annotations, strict=True):
            info = self._resolved(arg.annotation or arg, annotation)
            self.frame.add_param(arg.arg, info)
        if node.returns is not None:
            result = self._evaluated_annotation(node.returns)
            self.frame.ret_info = self._resolved(node.returns, result)

    def _local_symbol(self, name: str) -> Any:
        return self._variables.get(name) if self._variables.is_in_frame(name) else None

    def _annotation(self, arg: ast.arg) -> Annotation:
        if arg.annotation is None:
            raise self._error(
                arg,
                f"parameter `{arg.arg}` has no annotation",
                'annotate it, for example `x: R.Tensor((2, 3), "float32")`',
            )
        return self._evaluated_annotation(arg.annotation)

    def _evaluated_annotation(self, node: ast.expr) -> Annotation:
        value = self.evaluator.eval_annotation(node)
        return self._guarded(node, lambda: as_annotation(value))

    def _resolved(self, node: ast.AST, annotation: Annotation) -> StructInfo:
        """Resolves an annotation, whose sizes may be text, to struct info."""

        def parse_size(text: str) -> Any:
            try:
                inner = ast.parse(text, mode="eval").body
            except SyntaxError as error:
                raise self._error(node, f"size `{text}`: {error.msg}") from error
            for part in ast.walk(inner):
                ast.copy_location(part, node)
            return self.evaluator.eval(inner)

        return self._guarded(node, lambda: annotation.resolve(parse_size))

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Parses statements in order."""
        for statement in body:
            self._visit(statement)

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> Any:
        """Expands the body of a macro; returns the macro's value.

        Raises:
            ScriptError: ``return`` is missing, or is not the last statement.
        """
        parser = FunctionParser(evaluator, self.frame)
        *before, last = body
        for statement in before:
            if isinstance(statement, ast.Return):
                raise parser._error(
                    statement, "`return` must be the last statement of a macro"
                )
        parser.statements(before)
        if not isinstance(last, ast.Return) or last.value is None:
            raise parser._error(last, "a macro must end with `return` and a value")
        return parser._eval(last.value)

    def _visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        self._assign(self._target(node), self._eval(node.value), None)

    def _visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value is None:
            raise self._error(node, "expected a value after the annotation")
        value = self._eval(node.value)
        annotation = self._evaluated_annotation(node.annotation)
        self._assign(node.target, value, self._resolved(node.annotation, annotation))

    def _assign(self, target: ast.expr, value: Any, info: StructInfo | None) -> None:
        is_unpacking = isinstance(target, (ast.Tuple, ast.List))
        if (
            is_unpacking
            and isinstance(value, Expr)
            and not isinstance(value, (Tuple, Var))
        ):
            value = self._guarded(target, lambda: self.frame.emit(value))
        for node, name, part in self.evaluator.assigned(target, value):
            bound = self._guarded(node, lambda n=name, p=part: self._bind(n, p, info))
            self._variables.define(name, bound)

    def _bind(self, name: str, value: Any, info: StructInfo | None) -> Any:
        """Emits the binding of ``name = value``; returns the new value of ``name``."""
        if isinstance(value, MetaVar):
            return value.value
        if isinstance(value, TypeVar):
            return self._symbol(name, prim.Var("", "int64"))
        if isinstance(value, prim.Var):
            return self._symbol(name, value)
        if isinstance(value, tuple) and _is_relax_value(value):
            value = convert(value)
        if isinstance(value, (bool, int, float, np.number, np.bool_)):
            value = const(value)
        if isinstance(value, Expr):
            var = self.frame.emit(value, info)
        elif hasattr(value, "value") and hasattr(value, "struct_info"):
            var = self._match_cast(value, info)
        else:
            return value
        return IRBuilder.name(name, var)

    def _match_cast(self, pair: Any, info: StructInfo | None) -> Var:
        if info is not None and info != pair.struct_info:
            raise ValueError(
                f"the annotation {info} contradicts `R.match_cast` to {pair.struct_info}"
            )
        return self.frame.emit_match_cast(pair.value, pair.struct_info)

    def _symbol(self, name: str, value: prim.Var) -> prim.Var:
        """Resolves ``n = T.int64()``: a symbolic size of the signature, or a new one."""
        existing = self._variables.get(name)
        if value.name and value.name != name:
            raise ValueError(
                f"size `{value.name}` cannot be renamed to `{name}`; for an alias "
                f"use `I.meta_var({value.name})`"
            )
        if isinstance(existing, prim.Var):
            if existing.dtype != value.dtype:
                raise ValueError(
                    f"size `{name}`: expected {existing.dtype}, as in the signature, got "
                    f"{value.dtype}"
                )
            return existing
        if isinstance(existing, Var):
            raise ValueError(f"size `{name}`: the name is bound to a variable already")
        value.name = name
        return value

    def _visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        value = self._eval(node.value)
        if value is None or isinstance(value, str):
            return
        if not isinstance(value, Expr):
            raise self._error(node, f"`{value!r}` is not a statement")
        var = IRBuilder.name("_", self.frame.emit(value))
        if var.struct_info != TupleStructInfo([]):
            raise self._error(
                node,
                f"unused value of {var.struct_info}: bind it to a variable",
            )

    def _visit_Return(self, node: ast.Return) -> None:  # noqa: N802
        if node.value is None:
            raise self._error(node, "`return`: expected a value")
        self.frame.returns(self._eval(node.value))

    def _visit_With(self, node: ast.With) -> None:  # noqa: N802
        if len(node.items) != 1:
            raise self._error(node, "`with`: expected one item")
        (item,) = node.items
        if item.optional_vars is not None:
            raise self._error(item.optional_vars, "`with ... as` is not allowed here")
        frame = self._eval(item.context_expr)
        if not isinstance(frame, Frame):
            raise self._error(item.context_expr, "expected `with R.dataflow():`")
        with frame, self._variables.frame():
            self.statements(node.body)
        if isinstance(frame, DataflowFrame):
            for var in frame.output_vars:
                self._variables.define(var.name_hint, var)

    def _visit_If(self, node: ast.If) -> None:  # noqa: N802
        if not node.orelse:
            raise self._error(
                node, "`if` without `else`: both branches must bind the value"
            )
        with IfFrame(self._eval(node.test)) as choice:
            for branch, body in (("then", node.body), ("else", node.orelse)):
                with BranchFrame(branch), self._variables.frame():
                    self.statements(body)
        self._variables.define(choice.var_name, choice.var)

    def _visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        """Parses a nested function, which is bound to a variable."""
        if not node.decorator_list:
            raise self._error(node, "expected `@R.function` before a function")
        decorator = self._eval(node.decorator_list[-1])
        if getattr(decorator, "dispatch_token", "") != "relax":
            raise self._error(
                node,
                "a PrimFunc cannot be nested in a Relax function: move it to the module",
            )
        recursive_var = self._recursive_var(node)
        inner = FunctionFrame(
            is_pure=decorator_option(node, "pure", True), is_private=True
        )
        with inner:
            FunctionParser(self.evaluator, inner).parse(node)
        assert inner.function is not None
        if recursive_var is None:
            var = IRBuilder.name(node.name, self.frame.emit(inner.function))
        else:
            var = self.frame.emit_binding(VarBinding(recursive_var, inner.function))
        self._variables.define(node.name, var)

    def _recursive_var(self, node: ast.FunctionDef) -> Var | None:
        """Declares the variable of a recursive function; None if it is not recursive."""
        names = (n for part in node.body for n in ast.walk(part))
        if not any(isinstance(n, ast.Name) and n.id == node.name for n in names):
            return None
        var = Var(node.name, function_signature(self.evaluator, node))
        self._variables.define(node.name, var)
        return var


def _is_relax_value(value: Any) -> bool:
    """Whether ``value`` converts to a Relax value or a tuple of Relax values."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_relax_value, value))
    return isinstance(value, (Expr, prim.PrimExpr, int, float, str, np.number))
