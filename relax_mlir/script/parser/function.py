"""Functions of Relax, parsed from scripts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, Tuple, Var, VarBinding, const, convert
from relax_mlir.objects.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from relax_mlir.script.annotations import Annotation, as_annotation
from relax_mlir.script.blocks import BranchFrame, DataflowFrame, IfFrame
from relax_mlir.script.builder import Frame, FunctionFrame, IRBuilder
from relax_mlir.script.parser.evaluate import Evaluator
from relax_mlir.script.parser.statement import StatementParser

__all__ = ["FunctionParser", "MetaVar", "decorator_option", "signature"]


class MetaVar:
    """A Python value that an assignment in a script leaves as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def decorator_option(node: ast.FunctionDef, option: str, default: bool) -> bool:
    """What the decorator of a function is told."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            for keyword in decorator.keywords:
                if keyword.arg == option and isinstance(keyword.value, ast.Constant):
                    return bool(keyword.value.value)
    return default


def signature(evaluator: Evaluator, node: ast.FunctionDef) -> FuncStructInfo:
    """What is known of a function before its body is parsed."""
    frame = FunctionFrame(is_pure=decorator_option(node, "pure", True))
    with evaluator.variables.frame():
        FunctionParser(evaluator, frame).header(node)
        return frame.signature()


class FunctionParser(StatementParser):
    """Parses one function into a frame.

    Args:
        evaluator: of its expressions.
        frame: what is written.
    """

    what = "a function of Relax"

    def __init__(self, evaluator: Evaluator, frame: FunctionFrame) -> None:
        super().__init__(evaluator)
        self.frame = frame

    def parse(self, node: ast.FunctionDef) -> None:
        """Parse a function; its frame is open."""
        with self._variables.frame():
            self.frame.name = node.name
            self.header(node)
            for param in self.frame.params:
                self._variables.define(param.name_hint, param)
            self.statements(node.body)

    def header(self, node: ast.FunctionDef) -> None:
        """Parse the parameters and what the function gives."""
        args = self._plain_params(node)
        for name in self._variables.sizes:
            if not isinstance(self._variables.get(name), prim.Var):
                self._variables.define(name, prim.Var(name, "int64"))
        annotations = [self._annotation(arg) for arg in args]
        for annotation in annotations:
            for name in annotation.symbols():
                if not isinstance(self._own_symbol(name), prim.Var):
                    self._variables.define(name, prim.Var(name, "int64"))
        for arg, annotation in zip(args, annotations, strict=True):
            info = self._resolved(arg.annotation or arg, annotation)
            self.frame.add_param(arg.arg, info)
        if node.returns is not None:
            given = self._evaluated_annotation(node.returns)
            self.frame.ret_info = self._resolved(node.returns, given)

    def _own_symbol(self, name: str) -> Any:
        return self._variables.get(name) if self._variables.is_in_frame(name) else None

    def _annotation(self, arg: ast.arg) -> Annotation:
        if arg.annotation is None:
            raise self._error(
                arg,
                f"parameter `{arg.arg}` has no annotation",
                'write what it is, such as `x: R.Tensor((2, 3), "float32")`',
            )
        return self._evaluated_annotation(arg.annotation)

    def _evaluated_annotation(self, node: ast.expr) -> Annotation:
        value = self.evaluator.eval_annotation(node)
        return self._guarded(node, lambda: as_annotation(value))

    def _resolved(self, node: ast.AST, annotation: Annotation) -> StructInfo:
        """The struct info of an annotation, whose sizes may be text."""

        def size_of(text: str) -> Any:
            try:
                inner = ast.parse(text, mode="eval").body
            except SyntaxError as error:
                raise self._error(node, f"size `{text}`: {error.msg}") from error
            for part in ast.walk(inner):
                ast.copy_location(part, node)
            return self.evaluator.eval(inner)

        return self._guarded(node, lambda: annotation.resolve(size_of))

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Parse statements in order."""
        for statement in body:
            self._visit(statement)

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> Any:
        """Parse the body of a macro here; gives what it returns.

        Raises:
            ScriptError: its last statement is no ``return``, or another one is.
        """
        parser = FunctionParser(evaluator, self.frame)
        *before, last = body
        for statement in before:
            if isinstance(statement, ast.Return):
                raise parser._error(
                    statement, "`return` is the last statement of a macro"
                )
        parser.statements(before)
        if not isinstance(last, ast.Return) or last.value is None:
            raise parser._error(last, "a macro ends with `return` and a value")
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
        is_many = isinstance(target, (ast.Tuple, ast.List))
        if is_many and isinstance(value, Expr) and not isinstance(value, (Tuple, Var)):
            value = self._guarded(target, lambda: self.frame.emit(value))
        for node, name, part in self.evaluator.assigned(target, value):
            bound = self._guarded(node, lambda n=name, p=part: self._bound(n, p, info))
            self._variables.define(name, bound)

    def _bound(self, name: str, value: Any, info: StructInfo | None) -> Any:
        """What a name stands for after an assignment."""
        if isinstance(value, MetaVar):
            return value.value
        if isinstance(value, TypeVar):
            return self._symbol(name, prim.Var("", "int64"))
        if isinstance(value, prim.Var):
            return self._symbol(name, value)
        if isinstance(value, tuple) and _is_value(value):
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
                f"the annotation says {info}, `R.match_cast` says {pair.struct_info}"
            )
        return self.frame.emit_match_cast(pair.value, pair.struct_info)

    def _symbol(self, name: str, value: prim.Var) -> prim.Var:
        """The size that ``n = T.int64()`` means: one of the signature's, or a new one."""
        known = self._variables.get(name)
        if value.name and value.name != name:
            raise ValueError(
                f"size `{value.name}` cannot have the name `{name}` too; for a second "
                f"name use `I.meta_var({value.name})`"
            )
        if isinstance(known, prim.Var):
            if known.dtype != value.dtype:
                raise ValueError(
                    f"size `{name}` is {known.dtype} in the signature: got {value.dtype}"
                )
            return known
        if isinstance(known, Var):
            raise ValueError(
                f"`{name}` is a variable already: give the size another name"
            )
        value.name = name
        return value

    def _visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        value = self._eval(node.value)
        if value is None or isinstance(value, str):
            return
        if not isinstance(value, Expr):
            raise self._error(node, f"`{value!r}` is no statement")
        var = IRBuilder.name("_", self.frame.emit(value))
        if var.struct_info != TupleStructInfo([]):
            raise self._error(
                node,
                f"a value of {var.struct_info} is dropped: bind it to a variable",
            )

    def _visit_Return(self, node: ast.Return) -> None:  # noqa: N802
        if node.value is None:
            raise self._error(node, "`return` needs a value")
        self.frame.returns(self._eval(node.value))

    def _visit_With(self, node: ast.With) -> None:  # noqa: N802
        if len(node.items) != 1:
            raise self._error(node, "`with` takes one item")
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
                node, "an `if` needs an `else`: its value is bound in both"
            )
        with IfFrame(self._eval(node.test)) as choice:
            for which, body in (("then", node.body), ("else", node.orelse)):
                with BranchFrame(which), self._variables.frame():
                    self.statements(body)
        self._variables.define(choice.var_name, choice.var)

    def _visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        """A function inside a function: a value."""
        if not node.decorator_list:
            raise self._error(node, "expected `@R.function` before a function")
        decorator = self._eval(node.decorator_list[-1])
        if getattr(decorator, "dispatch_token", "") != "relax":
            raise self._error(
                node, "a tensor program stands in a module, not in a function of Relax"
            )
        reserved = self._recursive(node)
        inner = FunctionFrame(
            is_pure=decorator_option(node, "pure", True), is_private=True
        )
        with inner:
            FunctionParser(self.evaluator, inner).parse(node)
        assert inner.function is not None
        if reserved is None:
            var = IRBuilder.name(node.name, self.frame.emit(inner.function))
        else:
            var = self.frame.emit_binding(VarBinding(reserved, inner.function))
        self._variables.define(node.name, var)

    def _recursive(self, node: ast.FunctionDef) -> Var | None:
        """The variable of a function that calls itself."""
        names = (n for part in node.body for n in ast.walk(part))
        if not any(isinstance(n, ast.Name) and n.id == node.name for n in names):
            return None
        var = Var(node.name, signature(self.evaluator, node))
        self._variables.define(node.name, var)
        return var


def _is_value(value: Any) -> bool:
    """Whether it is a value of Relax, or a tuple of such."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_value, value))
    return isinstance(value, (Expr, prim.PrimExpr, int, float, str, np.number))
