"""Builder frames of TIR statements: loops, lets, branches, allocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.pointers import Pointer, PointerType
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion
from relax_mlir.objects.write.prim_func import PrimFuncWriter
from relax_mlir.tvm.script import builder
from relax_mlir.tvm.script.tir_program import PrimFuncState, Scope, current_prim_func

__all__ = [
    "AllocateFrame",
    "AssertFrame",
    "AttrFrame",
    "BranchScope",
    "DeclareFrame",
    "IfScope",
    "LetFrame",
    "LoopDomain",
    "LoopFrame",
    "PrimFuncFrame",
    "RealizeFrame",
    "WriterScope",
]


@dataclass(frozen=True)
class LoopDomain:
    """The domain of one loop: begin and extent."""

    begin: PrimExpr
    extent: PrimExpr

    @property
    def dtype(self) -> str:
        """The dtype of the loop variable."""
        is_int64 = "int64" in (self.begin.dtype, self.extent.dtype)
        return "int64" if is_int64 else self.extent.dtype


class LoopFrame(Scope):
    """A perfect loop nest; its value is the loop variables.

    Args:
        domains: the domain of each loop, outermost first.
        kind: the loop kind: ``serial``, ``parallel``, ``vectorized``, ...
        thread: the thread axis to bind to, for ``thread_binding``.
        annotations: annotations of the loops.
        step: the step; None for 1.
        variables: the loop variables; new ones by default.
        dtype: dtype of new variables; by default that of the domain.
    """

    def __init__(
        self,
        domains: Sequence[LoopDomain],
        kind: str = "serial",
        thread: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        step: Any = None,
        *,
        variables: Sequence[Var] | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__()
        self._state = current_prim_func("T.serial")
        self._domains, self._kind, self._thread = domains, kind, thread
        self._annotations, self._step = annotations, step
        self._vars = list(variables or ()) or [
            self._state.add_unnamed(Var("v", dtype or domain.dtype))
            for domain in domains
        ]
        self.value = list(self._vars) if len(self._vars) > 1 else self._vars[0]

    def name(self, name: str) -> None:
        """Names the loop variable; several variables are numbered."""
        if len(self._vars) == 1:
            self._state.name(self._vars[0], name)
            return
        for number, var in enumerate(self._vars):
            self._state.name(var, f"{name}_{number}")

    def _open(self, stack: ExitStack) -> None:
        for var, domain in zip(self._vars, self._domains, strict=True):
            stack.enter_context(
                self._state.writer.loop(
                    var,
                    domain.extent,
                    domain.begin,
                    kind=self._kind,
                    thread=self._thread,
                    annotations=self._annotations,
                    step=self._step,
                )
            )


class LetFrame(Scope):
    """A let statement.

    Args:
        value: the scalar.
        var: the variable; a new one by default.
    """

    def __init__(self, value: Any, var: Var | None = None) -> None:
        super().__init__()
        expr = prim.convert(value)
        self._expr = expr
        self._state = current_prim_func("T.LetStmt")
        is_new = var is None
        self.value = self._state.add_unnamed(Var("v", expr.dtype)) if is_new else var

    def _open(self, stack: ExitStack) -> None:
        self._state.writer.let(self.value, self._expr)

    def name(self, name: str) -> None:
        self._state.name(self.value, name)


class PrimFuncFrame(Scope):
    """A PrimFunc built by Python code, statement by statement.

    Args:
        private: whether it has no global symbol.
    """

    def __init__(self, private: bool) -> None:
        super().__init__()
        self._is_private = private

    def _open(self, stack: ExitStack) -> None:
        writer = PrimFuncWriter("main", allows_free_vars=True)
        state = PrimFuncState(writer, lambda text: Var(text, "int64"))
        stack.push(lambda kind, *_: self._finish(state) if kind is None else None)
        stack.enter_context(state.open())
        self.value = state

    def _finish(self, state: PrimFuncState) -> None:
        attrs = dict(state.attrs)
        name = attrs.get("global_symbol", "main")
        if self._is_private:
            attrs.pop("global_symbol", None)
        owner = builder.innermost_frame(builder.IRBuilder)
        function = state.writer.finish(attrs, state.ret_type)
        if attrs.get("global_symbol", function.name) != function.name:
            function = function.with_only_attrs(attrs)
        module = builder.innermost_frame(builder.ModuleFrame)
        if module is not None:
            module.define(name, function)
        elif owner is not None:
            owner.set_result(function)


class IfScope(Scope):
    """An if statement, whose branches are opened by ``T.Then`` and ``T.Else``."""

    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = condition
        self.branches: Any = None
        self._state = current_prim_func("T.If")

    def _open(self, stack: ExitStack) -> None:
        self._state.if_scopes.append(self)
        stack.callback(self._state.if_scopes.pop)


class BranchScope(Scope):
    """One branch of the innermost ``T.If``."""

    def __init__(self, branch: str) -> None:
        super().__init__()
        self._state = current_prim_func(f"T.{branch}")
        if not self._state.if_scopes:
            raise ValueError(f"`T.{branch}` is used outside of `with T.If(...)`")
        self._branch = branch

    def _open(self, stack: ExitStack) -> None:
        owner = self._state.if_scopes[-1]
        if self._branch == "Then":
            then_branch = self._state.writer.if_(owner.condition)
            owner.branches = stack.enter_context(then_branch)
        elif owner.branches is None:
            raise ValueError("`T.Else`: expected `T.Then` before it")
        else:
            stack.enter_context(owner.branches.otherwise())


class DeclareFrame(Scope):
    """The scope of a buffer declared over existing memory."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._state = current_prim_func("T.decl_buffer")
        self.value = self._state.add_unnamed(buffer)

    def _open(self, stack: ExitStack) -> None:
        self._state.writer.decl_buffer(self.value)

    def name(self, name: str) -> None:
        self._state.name(self.value, name)


class AllocateFrame(Scope):
    """The scope of an allocation; its value is the pointer.

    Args:
        memory: shape, dtype and memory scope of the allocation.
        annotations: annotations of the allocation.
        contents: the elements of constant memory; None for uninitialized memory.
    """

    def __init__(
        self,
        memory: Buffer,
        annotations: Mapping[str, Any],
        contents: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._state = current_prim_func("T.allocate")
        kind = PointerType(memory.dtype, memory.scope())
        self._memory, self._annotations = memory, annotations
        self._contents = contents
        self.value = self._state.add_unnamed(Pointer("v", kind))

    def _open(self, stack: ExitStack) -> None:
        writer = self._state.writer
        writer.allocate(self.value, self._memory, self._annotations, self._contents)

    def name(self, name: str) -> None:
        self._state.name(self.value, name)


class AssertFrame(Scope):
    """The scope of an assertion."""

    def __init__(self, condition: Any, message: str) -> None:
        super().__init__()
        self._condition, self._message = condition, message

    def _open(self, stack: ExitStack) -> None:
        writer = current_prim_func("T.Assert").writer
        writer.assertion(self._condition, self._message)


class WriterScope(Scope):
    """A scope that the PrimFunc writer opens: ``T.While``, ``T.attr``."""

    def __init__(self, open_scope: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self._open_scope = open_scope

    def _open(self, stack: ExitStack) -> None:
        self.value = stack.enter_context(self._open_scope())


class RealizeFrame(Scope):
    """The scope in which a buffer region is realized in memory."""

    def __init__(self, region: BufferRegion, scope: str, condition: Any) -> None:
        super().__init__()
        self._region, self._scope, self._condition = region, scope, condition

    def _open(self, stack: ExitStack) -> None:
        writer = current_prim_func("T.realize").writer
        buffer = self._region.buffer
        stack.enter_context(writer.attr(buffer, "realize_scope", self._scope))
        stack.enter_context(writer.attr(self._region, "realize", self._condition))


class AttrFrame(WriterScope):
    """The scope of an attribute statement."""

    def __init__(self, node: Any, key: str, value: Any) -> None:
        writer = current_prim_func("T.attr").writer
        super().__init__(lambda: writer.attr(node, key, value))
