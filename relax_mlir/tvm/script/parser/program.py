"""Parser of PrimFuncs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

from relax_mlir.errors import ScriptError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.stmt import statements as stmt
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.objects.write.statements import write_statement
from relax_mlir.tvm.script.parser.evaluate import (
    Evaluator,
    VarTable,
    captured_variables,
)
from relax_mlir.tvm.script.parser.function import MetaVar, decorator_option
from relax_mlir.tvm.script.parser.macro import Macro
from relax_mlir.tvm.script.parser.source import Source
from relax_mlir.tvm.script.parser.statement import StatementParser
from relax_mlir.tvm.script.tir_frames import LetFrame, LoopFrame
from relax_mlir.tvm.script.tir_program import (
    BlockScope,
    PrimFuncState,
    Scope,
    current_prim_func,
)
from relax_mlir.tvm.script.tir_statements import assert_message
from relax_mlir.tvm.script.tir_types import Handle, ScalarType

__all__ = ["PrimFuncMacro", "parse_prim_func", "parse_prim_func_def"]


def parse_prim_func(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    is_private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """Parses a Python function as a PrimFunc.

    Args:
        function: the Python function.
        frame: the Python frame that defines it.
        is_private: whether the PrimFunc has no global symbol.
        check_well_formed: whether undefined variables are errors.

    Raises:
        ScriptError: the function is not a valid script.
    """
    source, node = Source.of_function(function)
    evaluator = Evaluator(source, VarTable(captured_variables(function, frame)))
    return _parse(
        node,
        evaluator,
        is_private=is_private,
        allows_free_vars=not check_well_formed,
    )


def parse_prim_func_def(
    node: ast.FunctionDef, evaluator: Evaluator, *, check: bool = True
) -> Any:
    """Parses a function definition as a PrimFunc.

    Args:
        check: whether undefined variables are errors; ``check_well_formed`` of the
            decorator takes precedence.

    Raises:
        ScriptError: the definition is not a valid script.
    """
    private = decorator_option(node, "private", False)
    is_checked = decorator_option(node, "check_well_formed", check)
    return _parse(node, evaluator, is_private=private, allows_free_vars=not is_checked)


def _parse(
    node: ast.FunctionDef,
    evaluator: Evaluator,
    *,
    is_private: bool,
    allows_free_vars: bool,
) -> Any:
    parser = PrimFuncParser(
        evaluator, PrimFuncWriter(node.name, allows_free_vars=allows_free_vars)
    )
    parser.state.returns = evaluator.variables.returns
    try:
        return parser.parse(node, is_private=is_private)
    except ScriptError:
        parser.writer.abandon()
        raise
    except Exception as error:
        parser.writer.abandon()
        message = str(error) or type(error).__name__
        raise evaluator.source.error(node, message) from error


class PrimFuncMacro(Macro):
    """A macro of PrimFuncs; as a class member, it is bound like a method."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)


class PrimFuncParser(StatementParser):
    """Parses one PrimFunc.

    Args:
        evaluator: evaluates its expressions.
        writer: builds the PrimFunc.
        state: the PrimFunc under construction, for the expansion of a macro; None to
            start a new one.
    """

    construct = "a PrimFunc"

    def __init__(
        self,
        evaluator: Evaluator,
        writer: PrimFuncWriter,
        state: PrimFuncState | None = None,
    ) -> None:
        super().__init__(evaluator)
        self.writer = writer
        self.state = state or PrimFuncState(writer, self._parse_size)
        # Per enclosing statement list, the scopes that are open until its end.
        self._scopes: list[ExitStack] = []

    def parse(self, node: ast.FunctionDef, *, is_private: bool) -> Any:
        """Parses a function definition."""
        with self.state.open(), self._variables.frame():
            self._variables.define("range", _range)
            self._header(node)
            self.statements(node.body)
            attrs = dict(self.state.attrs)
            if is_private and "global_symbol" in attrs:
                raise self._error(
                    node, "a private PrimFunc cannot have a `global_symbol`"
                )
            if not is_private:
                attrs.setdefault("global_symbol", node.name)
            function = self.writer.finish(attrs, self.state.ret_type)
        symbol = attrs.get("global_symbol", node.name)
        return function if symbol == function.name else function.with_only_attrs(attrs)

    # signature

    def _header(self, node: ast.FunctionDef) -> None:
        args = self._plain_params(node)
        if node.returns is not None:
            returned = self.evaluator.eval_annotation(node.returns)
            if returned is not None:
                self.state.ret_type = str(getattr(returned, "dtype", returned))
        for name in self._variables.sizes:
            self._variables.define(name, Var(name, "int64"))
        for arg in args:
            value = self._guarded(arg, lambda a=arg: self._param(a))
            self._variables.define(arg.arg, value)

    def _param(self, arg: ast.arg) -> Any:
        if arg.annotation is None:
            raise self._error(
                arg,
                f"parameter `{arg.arg}` has no annotation",
                'annotate it, for example `A: T.Buffer((128,), "float32")`',
            )
        kind = self.evaluator.eval_annotation(arg.annotation)
        value = kind() if isinstance(kind, (ScalarType, Handle)) else kind
        if isinstance(value, Buffer):
            self.state.name(value, arg.arg)
            value.name = arg.arg
            self.writer.buffer_param(value)
            return value
        if not isinstance(value, Var):
            raise self._error(
                arg,
                f"parameter `{arg.arg}`: expected a type such as `T.handle`, got {short_repr(kind)}",
            )
        self.state.name(value, arg.arg)
        value.name = arg.arg
        if isinstance(value, Pointer):
            return self.writer.handle_param(value)
        return self.writer.scalar_param(value)

    def _parse_size(self, text: str) -> Any:
        """Parses the text of a size; a new name defines a variable."""
        if text.isidentifier():
            size = self._variables.get(text)
            if not isinstance(size, (Var, int)):
                size = Var(text, "int64")
                self._variables.define(text, size)
            return size
        return self.evaluator.eval(ast.parse(text, mode="eval").body)

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> None:
        """Expands the body of a macro."""
        PrimFuncParser(evaluator, self.writer, self.state).statements(body)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Parses statements in order."""
        with ExitStack() as scopes:
            self._scopes.append(scopes)
            for statement in body:
                self._visit(statement)
            self._scopes.pop()

    # statements

    def _visit_For(self, node: ast.For) -> None:  # noqa: N802
        loop = self._eval(node.iter)
        if isinstance(loop, range):
            loop = _serial(loop)
        if not isinstance(loop, LoopFrame):
            raise self._error(
                node.iter,
                f"expected `range`, `T.serial`, `T.grid` or another loop, got {short_repr(loop)}",
            )
        with self._variables.frame():
            self._define(node.target, loop.value, _name_variables)
            with loop:
                self.statements(node.body)

    def _visit_With(self, node: ast.With) -> None:  # noqa: N802
        with ExitStack() as stack:
            stack.enter_context(self._variables.frame())
            for item in node.items:
                self._enter(stack, item)
            self.statements(node.body)

    def _enter(self, stack: ExitStack, item: ast.withitem) -> None:
        scope = self._eval(item.context_expr)
        if not isinstance(scope, Scope):
            raise self._error(
                item.context_expr,
                f"expected `T.block()` or another scope, got {short_repr(scope)}",
            )
        target = item.optional_vars
        if target is not None and isinstance(scope, BlockScope):
            raise self._error(target, "`with T.block() as ...` is not allowed")
        if target is not None and isinstance(target, ast.Name):
            scope.name(target.id)
        value = stack.enter_context(scope)
        if target is not None:
            self._define(target, value, _name_variables)

    def _visit_If(self, node: ast.If) -> None:  # noqa: N802
        condition = self._eval(node.test)
        if isinstance(condition, BufferRegion):
            condition = condition.as_prim_expr()
        if not isinstance(condition, PrimExpr):
            with self._variables.frame():
                self.statements(node.body if condition else node.orelse)
            return
        with self.writer.if_(condition) as branches, self._variables.frame():
            self.statements(node.body)
        if node.orelse:
            with branches.otherwise(), self._variables.frame():
                self.statements(node.orelse)

    def _visit_While(self, node: ast.While) -> None:  # noqa: N802
        condition = self._eval(node.test)
        with self.writer.while_(condition), self._variables.frame():
            self.statements(node.body)

    def _visit_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        message = "" if node.msg is None else assert_message(self._eval(node.msg))
        self.writer.assertion(self._eval(node.test), message)

    def _visit_Return(self, node: ast.Return) -> None:  # noqa: N802
        value = None if node.value is None else self._eval(node.value)
        if isinstance(value, (bool, int, float)):
            value = prim.convert(value)
        if isinstance(value, BufferRegion):
            value = value.as_prim_expr()
        if not isinstance(value, PrimExpr):
            raise self._error(node, "`return`: expected a scalar")
        self.writer.evaluate(prim.Call(value.dtype, "ret", [value]))

    def _visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        value = self._eval(node.value)
        if value is None or isinstance(value, str):
            return
        if isinstance(value, Scope):
            self._enter_until_end(node, value, "")
        elif isinstance(value, (PrimExpr, bool, int, float)):
            self.writer.evaluate(value)
        elif isinstance(value, stmt.Stmt):
            write_statement(self.writer, value)
        elif not isinstance(value, (Buffer, list, tuple)):
            raise self._error(node, f"`{value!r}` is not a statement")

    def _enter_until_end(self, node: ast.AST, scope: Any, name: str) -> Any:
        """Opens a scope that ends with the current statement list."""
        if isinstance(scope, BlockScope):
            raise self._error(node, "a block must be opened by `with`")
        if name:
            scope.name(name)
        return self._scopes[-1].enter_context(scope)

    def _visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        raise self._error(node, "a function cannot be nested in a PrimFunc")

    # assignments

    def _visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        target = self._target(node)
        if isinstance(target, ast.Subscript):
            self._store(target, self._eval(node.value))
            return
        value = self._eval(node.value)
        if isinstance(target, ast.Name) and isinstance(value, Scope):
            value = self._enter_until_end(node, value, target.id)
            self._variables.define(target.id, value)
            return
        if isinstance(value, MetaVar):
            self._define(target, value.value, lambda name, part: part)
        else:
            self._define(target, value, self._bind)

    def _visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if not isinstance(node.target, ast.Name):
            raise self._error(node.target, "expected a variable before the annotation")
        kind = self.evaluator.eval_annotation(node.annotation)
        var = kind() if isinstance(kind, (ScalarType, Handle)) else kind
        if not isinstance(var, Var):
            raise self._error(
                node.annotation, f"expected a scalar type, got {short_repr(kind)}"
            )
        if node.value is None:
            raise self._error(node, "expected a value after the annotation")
        self.state.name(var, node.target.id)
        with LetFrame(self._eval(node.value), var):
            self._add(node.target, node.target.id, var)

    def _visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        load = _as_load(node.target)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        ast.fix_missing_locations(value)
        if not isinstance(node.target, ast.Subscript):
            raise self._error(
                node.target, "augmented assignment: expected a buffer element"
            )
        self._store(node.target, self._eval(value))

    def _visit_Break(self, node: ast.Break) -> None:  # noqa: N802
        self.writer.evaluate(prim.Call("void", "break_loop", []))

    def _visit_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        self.writer.evaluate(prim.Call("void", "continue_loop", []))

    def _store(self, target: ast.Subscript, value: Any) -> None:
        buffer = self._eval(target.value)
        if not isinstance(buffer, Buffer):
            raise self._error(
                target.value, f"expected a buffer, got {short_repr(buffer)}"
            )
        indices = self._eval(target.slice)
        listed = list(indices) if isinstance(indices, (tuple, list)) else [indices]
        if any(isinstance(i, slice) for i in listed):
            region = buffer[tuple(listed)]
            load = region if isinstance(region, BufferLoad) else region.as_load()
            if load is None:
                raise self._error(
                    target,
                    "a store writes an element or a vector of constant length, not a region",
                )
            listed = list(load.indices)
        self._guarded(target, lambda: self.writer.store(buffer, value, listed))

    def _define(
        self, target: ast.expr, value: Any, bind: Callable[[str, Any], Any]
    ) -> None:
        for node, name, part in self.evaluator.assigned(target, value):
            bound = self._guarded(node, lambda n=name, p=part: bind(n, p))
            self._add(node, name, bound)

    def _add(self, node: ast.AST, name: str, value: Any) -> None:
        if self._variables.is_in_frame(name) and name != "_":
            raise self._error(node, f"`{name}` is defined already in this scope")
        self._variables.define(name, value)

    def _bind(self, name: str, value: Any) -> Any:
        """Emits the binding of ``name = value``; returns the new value of ``name``."""
        if isinstance(value, MetaVar):
            return value.value
        if isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                self._name_if_unnamed(f"{name}_{number}", part)
            return value
        if isinstance(value, IterVar):
            self.state.name(value.var, name)
            return value
        if isinstance(value, (Buffer, Var)) and id(value) in self.state.unnamed:
            self.state.name(value, name)
            return value
        if isinstance(value, Buffer):
            return value
        if isinstance(value, BufferRegion):
            value = value.as_prim_expr()
        if isinstance(value, (PrimExpr, bool, int, float)):
            frame = LetFrame(value)
            frame.name(name)
            with frame:
                return frame.value
        return value

    def _name_if_unnamed(self, name: str, value: Any) -> None:
        if id(value) in self.state.unnamed:
            self.state.name(value, name)


def _name_variables(name: str, value: Any) -> Any:
    """Names loop variables; those of a list are numbered."""
    state = current_prim_func("T.serial")
    if isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            state.name(part, f"{name}_{number}")
    else:
        state.name(value, name)
    return value


def _as_load(target: ast.expr) -> ast.expr:
    """Returns the assignment target as an expression in load context."""
    load = ast.parse(ast.unparse(target), mode="eval").body
    for part in ast.walk(load):
        ast.copy_location(part, target)
    return load


def _range(*args: Any) -> Any:
    """Python's ``range``; with symbolic arguments, a serial loop."""
    if all(type(a) is int for a in args):
        return builtins.range(*args)
    from relax_mlir.tvm.script.tir_loops import serial

    step = args[2] if len(args) == 3 else None
    return serial(*args[:2], step=step)


def _serial(steps: range) -> LoopFrame:
    from relax_mlir.tvm.script.tir_loops import serial

    return serial(steps.start, steps.stop, step=steps.step)
