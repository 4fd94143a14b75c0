"""Tensor programs, parsed from scripts."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

from relax_mlir.errors import ScriptError, shown
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.stmt_writer import write_statement
from relax_mlir.objects.tir_writer import ProgramWriter
from relax_mlir.script.parser.evaluate import Evaluator, Variables, captured
from relax_mlir.script.parser.function import MetaVar, decorator_option
from relax_mlir.script.parser.macro import Macro
from relax_mlir.script.parser.source import Source
from relax_mlir.script.parser.statement import StatementParser
from relax_mlir.script.tir_frames import LetFrame, LoopFrame
from relax_mlir.script.tir_program import BlockScope, Program, Scope, current_program
from relax_mlir.script.tir_statements import message_text
from relax_mlir.script.tir_types import Handle, ScalarType

__all__ = ["ProgramMacro", "parse_function", "parse_prim_func"]


def parse_function(
    function: Callable[..., Any],
    frame: FrameType,
    *,
    is_private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """The tensor program that a Python function is a script of.

    Args:
        function: the Python function.
        frame: the one that it is defined in.
        is_private: whether only its module sees it.
        check_well_formed: whether what nothing defines is an error.

    Raises:
        ScriptError: it is no such script.
    """
    source, node = Source.of_function(function)
    evaluator = Evaluator(source, Variables(captured(function, frame)))
    is_open = not check_well_formed
    return _parsed(node, evaluator, is_private=is_private, is_open=is_open)


def parse_prim_func(
    node: ast.FunctionDef, evaluator: Evaluator, *, check: bool = True
) -> Any:
    """The tensor program that a definition is a script of.

    Args:
        check: whether what nothing defines is an error, unless the definition says it.

    Raises:
        ScriptError: it is no such script.
    """
    private = decorator_option(node, "private", False)
    is_open = not decorator_option(node, "check_well_formed", check)
    return _parsed(node, evaluator, is_private=private, is_open=is_open)


def _parsed(
    node: ast.FunctionDef, evaluator: Evaluator, *, is_private: bool, is_open: bool
) -> Any:
    parser = ProgramParser(evaluator, ProgramWriter(node.name, is_open=is_open))
    parser.program.returns = evaluator.variables.returns
    try:
        return parser.parse(node, is_private=is_private)
    except ScriptError:
        parser.writer.abandon()
        raise
    except Exception as error:
        parser.writer.abandon()
        message = str(error) or type(error).__name__
        raise evaluator.source.error(node, message) from error


class ProgramMacro(Macro):
    """A macro of tensor programs; as a method, one that knows its object."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return lambda *args, **kwargs: self(instance, *args, **kwargs)


class ProgramParser(StatementParser):
    """Parses one tensor program.

    Args:
        evaluator: of its expressions.
        writer: writes it.
        program: the program, where another parser has begun it.
    """

    what = "a tensor program"

    def __init__(
        self,
        evaluator: Evaluator,
        writer: ProgramWriter,
        program: Program | None = None,
    ) -> None:
        super().__init__(evaluator)
        self.writer = writer
        self.program = program or Program(writer, self._size_of)
        # What stands open until the end of the statements that we are in.
        self._rest: list[ExitStack] = []

    def parse(self, node: ast.FunctionDef, *, is_private: bool) -> Any:
        """Parse a function."""
        with self.program.open(), self._variables.frame():
            self._variables.define("range", _range)
            self._header(node)
            self.statements(node.body)
            attrs = dict(self.program.attrs)
            if is_private and "global_symbol" in attrs:
                raise self._error(node, "a private program has no `global_symbol`")
            if not is_private:
                attrs.setdefault("global_symbol", node.name)
            made = self.writer.finish(attrs, self.program.ret_type)
        symbol = attrs.get("global_symbol", node.name)
        return made if symbol == made.name else made.with_only_attrs(attrs)

    # the signature

    def _header(self, node: ast.FunctionDef) -> None:
        args = self._plain_params(node)
        if node.returns is not None:
            returned = self.evaluator.eval_annotation(node.returns)
            if returned is not None:
                self.program.ret_type = str(getattr(returned, "dtype", returned))
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
                'write what it is, such as `A: T.Buffer((128,), "float32")`',
            )
        kind = self.evaluator.eval_annotation(arg.annotation)
        value = kind() if isinstance(kind, (ScalarType, Handle)) else kind
        if isinstance(value, Buffer):
            self.program.name(value, arg.arg)
            value.name = arg.arg
            self.writer.buffer_param(value)
            return value
        if not isinstance(value, Var):
            raise self._error(
                arg,
                f"parameter `{arg.arg}`: expected a type such as `T.handle`, got {shown(kind)}",
            )
        self.program.name(value, arg.arg)
        value.name = arg.arg
        if isinstance(value, Pointer):
            return self.writer.handle_param(value)
        return self.writer.scalar_param(value)

    def _size_of(self, text: str) -> Any:
        """The size that a text spells; a name that is new is a new variable."""
        if text.isidentifier():
            known = self._variables.get(text)
            if not isinstance(known, (Var, int)):
                known = Var(text, "int64")
                self._variables.define(text, known)
            return known
        return self.evaluator.eval(ast.parse(text, mode="eval").body)

    def inlined(self, evaluator: Evaluator, body: Sequence[ast.stmt]) -> None:
        """Parse the body of a macro here."""
        ProgramParser(evaluator, self.writer, self.program).statements(body)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Parse statements in order."""
        with ExitStack() as rest:
            self._rest.append(rest)
            for statement in body:
                self._visit(statement)
            self._rest.pop()

    # statements

    def _visit_For(self, node: ast.For) -> None:  # noqa: N802
        loop = self._eval(node.iter)
        if isinstance(loop, range):
            loop = _serial(loop)
        if not isinstance(loop, LoopFrame):
            raise self._error(
                node.iter,
                f"expected `range`, `T.serial`, `T.grid` or another loop, got {shown(loop)}",
            )
        with self._variables.frame():
            self._define(node.target, loop.value, _name_only)
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
                f"expected `T.block()` or another scope, got {shown(scope)}",
            )
        target = item.optional_vars
        if target is not None and isinstance(scope, BlockScope):
            raise self._error(target, "`with T.block() as ...` is not allowed")
        if target is not None and isinstance(target, ast.Name):
            scope.name(target.id)
        value = stack.enter_context(scope)
        if target is not None:
            self._define(target, value, _name_only)

    def _visit_If(self, node: ast.If) -> None:  # noqa: N802
        condition = self._eval(node.test)
        if isinstance(condition, BufferRegion):
            condition = condition.as_prim_expr()
        if not isinstance(condition, PrimExpr):
            with self._variables.frame():
                self.statements(node.body if condition else node.orelse)
            return
        with self.writer.if_(condition) as choice, self._variables.frame():
            self.statements(node.body)
        if node.orelse:
            with choice.otherwise(), self._variables.frame():
                self.statements(node.orelse)

    def _visit_While(self, node: ast.While) -> None:  # noqa: N802
        condition = self._eval(node.test)
        with self.writer.while_(condition), self._variables.frame():
            self.statements(node.body)

    def _visit_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        message = "" if node.msg is None else message_text(self._eval(node.msg))
        self.writer.assertion(self._eval(node.test), message)

    def _visit_Return(self, node: ast.Return) -> None:  # noqa: N802
        value = None if node.value is None else self._eval(node.value)
        if isinstance(value, (bool, int, float)):
            value = prim.convert(value)
        if isinstance(value, BufferRegion):
            value = value.as_prim_expr()
        if not isinstance(value, PrimExpr):
            raise self._error(node, "`return` needs a scalar: expected `T.ret(value)`")
        self.writer.evaluate(prim.Call(value.dtype, "ret", [value]))

    def _visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        value = self._eval(node.value)
        if value is None or isinstance(value, str):
            return
        if isinstance(value, Scope):
            self._open_rest(node, value, "")
        elif isinstance(value, (PrimExpr, bool, int, float)):
            self.writer.evaluate(value)
        elif isinstance(value, stmt.Stmt):
            write_statement(self.writer, value)
        elif not isinstance(value, (Buffer, list, tuple)):
            raise self._error(node, f"`{value!r}` is no statement")

    def _open_rest(self, node: ast.AST, scope: Any, name: str) -> Any:
        """Open a scope for the rest of the statements that we are in."""
        if isinstance(scope, BlockScope):
            raise self._error(node, "a block is opened by `with`")
        if name:
            scope.name(name)
        return self._rest[-1].enter_context(scope)

    def _visit_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        raise self._error(node, "a function stands outside of a tensor program")

    # assignments

    def _visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        target = self._target(node)
        if isinstance(target, ast.Subscript):
            self._store(target, self._eval(node.value))
            return
        value = self._eval(node.value)
        if isinstance(target, ast.Name) and isinstance(value, Scope):
            value = self._open_rest(node, value, target.id)
            self._variables.define(target.id, value)
            return
        if isinstance(value, MetaVar):
            self._define(target, value.value, lambda name, part: part)
        else:
            self._define(target, value, self._bound)

    def _visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if not isinstance(node.target, ast.Name):
            raise self._error(node.target, "expected a variable before the annotation")
        kind = self.evaluator.eval_annotation(node.annotation)
        var = kind() if isinstance(kind, (ScalarType, Handle)) else kind
        if not isinstance(var, Var):
            raise self._error(
                node.annotation, f"expected a scalar type, got {shown(kind)}"
            )
        if node.value is None:
            raise self._error(node, "expected a value after the annotation")
        self.program.name(var, node.target.id)
        with LetFrame(self._eval(node.value), var):
            self._add(node.target, node.target.id, var)

    def _visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        load = _loaded(node.target)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        ast.fix_missing_locations(value)
        if not isinstance(node.target, ast.Subscript):
            raise self._error(node.target, "only elements of buffers can be changed")
        self._store(node.target, self._eval(value))

    def _visit_Break(self, node: ast.Break) -> None:  # noqa: N802
        self.writer.evaluate(prim.Call("void", "break_loop", []))

    def _visit_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        self.writer.evaluate(prim.Call("void", "continue_loop", []))

    def _store(self, target: ast.Subscript, value: Any) -> None:
        buffer = self._eval(target.value)
        if not isinstance(buffer, Buffer):
            raise self._error(target.value, f"expected a buffer, got {shown(buffer)}")
        indices = self._eval(target.slice)
        listed = list(indices) if isinstance(indices, (tuple, list)) else [indices]
        if any(isinstance(i, slice) for i in listed):
            part = buffer[tuple(listed)]
            place = part if isinstance(part, BufferLoad) else part.as_load()
            if place is None:
                raise self._error(
                    target,
                    "an element or a vector of known length is written, not a region",
                )
            listed = list(place.indices)
        self._guarded(target, lambda: self.writer.store(buffer, value, listed))

    def _define(
        self, target: ast.expr, value: Any, bind: Callable[[str, Any], Any]
    ) -> None:
        for node, name, part in self.evaluator.assigned(target, value):
            bound = self._guarded(node, lambda n=name, p=part: bind(n, p))
            self._add(node, name, bound)

    def _add(self, node: ast.AST, name: str, value: Any) -> None:
        if self._variables.is_in_frame(name) and name != "_":
            raise self._error(
                node, f"`{name}` is defined already: give this one another name"
            )
        self._variables.define(name, value)

    def _bound(self, name: str, value: Any) -> Any:
        """What a name stands for after an assignment."""
        if isinstance(value, MetaVar):
            return value.value
        if isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                self._bound_fresh(f"{name}_{number}", part)
            return value
        if isinstance(value, IterVar):
            self.program.name(value.var, name)
            return value
        if isinstance(value, (Buffer, Var)) and id(value) in self.program.fresh:
            self.program.name(value, name)
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

    def _bound_fresh(self, name: str, value: Any) -> None:
        if id(value) in self.program.fresh:
            self.program.name(value, name)


def _name_only(name: str, value: Any) -> Any:
    """A name for loop variables: a list of them gets numbers."""
    program = current_program("T.serial")
    if isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            program.name(part, f"{name}_{number}")
    else:
        program.name(value, name)
    return value


def _loaded(target: ast.expr) -> ast.expr:
    """The target of an assignment, read."""
    made = ast.parse(ast.unparse(target), mode="eval").body
    for part in ast.walk(made):
        ast.copy_location(part, target)
    return made


def _range(*args: Any) -> Any:
    """Python's ``range``; of terms, a loop."""
    if all(type(a) is int for a in args):
        return builtins.range(*args)
    from relax_mlir.script.tir_loops import serial

    step = args[2] if len(args) == 3 else None
    return serial(*args[:2], step=step)


def _serial(steps: range) -> LoopFrame:
    from relax_mlir.script.tir_loops import serial

    return serial(steps.start, steps.stop, step=steps.step)
