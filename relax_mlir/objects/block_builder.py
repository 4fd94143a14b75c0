"""Builder of Relax functions, one binding at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

from mlir import ir

from relax_mlir.errors import BuilderError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_named
from relax_mlir.objects.compare.structural_equal import (
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_sequence,
    convert,
    is_leaf,
)
from relax_mlir.objects.expr.struct_info import StructInfo, TupleStructInfo
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.function_builder import BlockSequence, FunctionFrame, NameSupply
from relax_mlir.objects.infer.struct_info import infer_struct_info
from relax_mlir.objects.operators import normal_form_of
from relax_mlir.objects.stmt.prim_func import PrimFunc

__all__ = ["BlockBuilder"]


class BlockBuilder:
    """Builds Relax functions in A-normal form: one operation per binding, as in TVM.

    Args:
        mod: a module to extend.
        applies_normal_forms: whether to apply operators' ``FNormalize``, too.
    """

    _stack: ClassVar[list[BlockBuilder]] = []

    def __init__(
        self, mod: IRModule | None = None, *, applies_normal_forms: bool = True
    ) -> None:
        self.applies_normal_forms = applies_normal_forms
        self._module = IRModule({}) if mod is None else mod.in_shared_context()
        self._exported = False
        self._frames: list[FunctionFrame] = []
        self._root_frame = FunctionFrame("", None, {}, is_pure=True, is_private=True)
        # As in TVM, variable names are unique across the functions of one builder.
        self._used_names = self._root_frame.names
        self._functions: _FunctionTable | None = None
        self.func_params: list[Var] = []

    @staticmethod
    def current() -> BlockBuilder | None:
        """The innermost builder in a ``with`` scope, or None."""
        return BlockBuilder._stack[-1] if BlockBuilder._stack else None

    @contextmanager
    def _entered(self) -> Iterator[None]:
        BlockBuilder._stack.append(self)
        try:
            yield
        finally:
            BlockBuilder._stack.pop()

    @property
    def _frame(self) -> FunctionFrame:
        return self._frames[-1] if self._frames else self._root_frame

    @property
    def _sequence(self) -> BlockSequence:
        if not self._frame.sequences:
            raise BuilderError(
                "no block is open: expected no `end_scope` without its `begin_scope`"
            )
        return self._frame.sequences[-1]

    @contextmanager
    def function(
        self,
        name: str,
        params: Any = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Iterator[None]:
        """Builds a function from the bindings emitted in the scope.

        Args:
            name: its name; made unique by a number.
            params: its parameters; alternatively given to ``emit_func_output``.
            attrs: its attributes.
            pure: whether it is free of side effects.
            private: whether it is only visible in this module.

        Raises:
            BuilderError: ``emit_func_output`` was not called inside.
        """
        if isinstance(params, Var):
            params = [params]
        listed = None if params is None else list(params)
        names = NameSupply(shared=self._used_names)
        frame = FunctionFrame(name, listed, dict(attrs or {}), pure, private, names)
        for param in listed or ():
            frame.names.take(param.name_hint)
        self._frames.append(frame)
        try:
            with self._entered():
                yield
        finally:
            self._frames.pop()
        if not frame.is_finished:
            raise BuilderError(
                f"function `{name}`: expected `emit_func_output` before its end"
            )

    @contextmanager
    def testing_scope(self, def_vars: Sequence[Any] = ()) -> Iterator[None]:
        """A scope whose bindings are checked and discarded."""
        frame = FunctionFrame("testing", None, {}, is_pure=True, is_private=True)
        self._frames.append(frame)
        try:
            with self._entered():
                yield
        finally:
            self._frames.pop()

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """Emits the bindings of the scope as a dataflow block."""
        self._sequence.end_block()
        self._sequence.is_dataflow = True
        try:
            yield
        finally:
            self._sequence.end_block()

    def _begin_dataflow_block(self) -> None:
        self._frame.sequences.append(BlockSequence(is_dataflow=True))

    def _begin_binding_block(self) -> None:
        self._frame.sequences.append(BlockSequence())

    def _end_block(self) -> BindingBlock:
        """Ends the innermost ``_begin_..._block``; the block may be empty."""
        if not self._frame.sequences:
            raise BuilderError("`_end_block`: expected a `_begin_..._block` before it")
        sequence = self._frame.sequences.pop()
        is_dataflow = sequence.is_dataflow
        if not sequence.blocks:
            return (DataflowBlock if is_dataflow else BindingBlock)(sequence.bindings)
        sequence.end_block()
        return BindingBlock([b for block in sequence.blocks for b in block.bindings])

    def current_block_is_dataflow(self) -> bool:
        """Whether a dataflow block is being built."""
        return self._sequence.is_dataflow

    def current_bindings(self) -> list[Binding]:
        """The bindings of the current block so far."""
        return self._sequence.bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Binds an expression to a new variable and returns it."""
        value = self.normalize_flat(convert(expr))
        return self._bind(value, name_hint, is_output=not self._sequence.is_dataflow)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Binds an expression to a variable that is visible outside the dataflow block.

        Raises:
            BuilderError: no dataflow block is being built.
        """
        if not self._sequence.is_dataflow:
            raise BuilderError("`emit_output`: expected to be inside `dataflow()`")
        value = self.normalize_flat(convert(output))
        return self._bind(value, name_hint, is_output=True)

    def _bind(self, value: Expr, name_hint: str, *, is_output: bool) -> Var:
        name = self._frame.names.fresh(name_hint or ("gv" if is_output else "lv"))
        var = (Var if is_output else DataflowVar)(name, self._infer(value))
        self.emit_normalized(VarBinding(var, value))
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Appends a binding without normalizing it."""
        self._sequence.bindings.append(binding)
        self._frame.names.take(binding.var.name_hint)
        if isinstance(binding, VarBinding):
            self._frame.bound[binding.var.vid] = binding.value

    def match_cast(self, value: Expr, struct_info: Any, name_hint: str = "") -> Var:
        """Binds ``value`` to a variable with given struct info, checked at run time."""
        value = self.normalize_argument(convert(value))
        is_inner = self._sequence.is_dataflow
        name = self._frame.names.fresh(name_hint or ("lv" if is_inner else "gv"))
        info = getattr(struct_info, "as_struct_info", lambda: struct_info)()
        var = (DataflowVar if is_inner else Var)(name, info)
        self.emit_normalized(MatchCast(var, value, info))
        return var

    def emit_func_output(self, output: Any, params: Any = None) -> GlobalVar:
        """Ends the function with its result.

        Args:
            output: an expression, or a list of expressions for a tuple.
            params: the parameters, if ``function`` did not get them.

        Raises:
            BuilderError: the parameters were given twice or not at all, or the output was
                given twice.
        """
        if not self._frames:
            raise BuilderError("`emit_func_output`: expected to be inside `function()`")
        frame = self._frame
        if frame.is_finished:
            raise BuilderError(
                f"function `{frame.name}`: `emit_func_output` called twice"
            )
        if (params is None) == (frame.params is None):
            raise BuilderError(
                f"function `{frame.name}`: expected its parameters once, in `function` or "
                "in `emit_func_output`"
            )
        if params is not None:
            frame.params = [params] if isinstance(params, Var) else list(params)
        body = self.normalize_argument(convert(output))
        self._sequence.end_block()
        frame.is_finished = True
        sequence = SeqExpr(self._sequence.blocks, body)
        return self.add_func(self._build_function(frame, sequence), frame.name)

    def _build_function(self, frame: FunctionFrame, body: SeqExpr) -> Function:
        attrs = dict(frame.attrs)
        if not frame.is_private:
            attrs = {"global_symbol": self._unique_function(frame.name), **attrs}
        return Function(
            frame.params or [], body, None, is_pure=frame.is_pure, attrs=attrs
        )

    def normalize(self, expr: Expr) -> Expr:
        """An expression in A-normal form, with its struct info inferred.

        Nested expressions are bound to variables in the current block. An expression that is
        in normal form already is returned as is.
        """
        if isinstance(expr, SeqExpr):
            return self.normalize_branch(expr)
        return self.normalize_flat(expr)

    def normalize_flat(self, expr: Expr) -> Expr:
        """Like ``normalize``, with the bindings of a sequence inlined in the current block."""
        if isinstance(expr, Tuple):
            fields = [self.normalize_argument(f) for f in expr.fields]
            return expr if _same(fields, expr.fields) else Tuple(fields)
        if isinstance(expr, TupleGetItem):
            whole = self.normalize_argument(expr.tuple_value)
            if whole is not expr.tuple_value:
                expr = TupleGetItem(whole, expr.index)
            return self._with_struct_info(expr)
        if isinstance(expr, Call):
            return self._normalized_call(expr)
        if isinstance(expr, If):
            return self._normalized_if(expr)
        if isinstance(expr, SeqExpr):
            return self._inlined(expr)
        return expr

    def _normalized_call(self, call: Call) -> Expr:
        with_leaves = self._with_leaf_arguments(call)
        normal_form = normal_form_of(with_leaves.op)
        if normal_form is None or not self.applies_normal_forms:
            return with_leaves
        normal = normal_form(self, with_leaves)
        return self._with_leaf_arguments(normal) if isinstance(normal, Call) else normal

    def _with_leaf_arguments(self, call: Call) -> Call:
        """A call with leaf expressions as arguments, and the struct info of its result."""
        args = [self.normalize_argument(a) for a in call.args]
        known = call.struct_info_or_none()
        if known is not None and _same(args, call.args):
            return call
        if not _same(args, call.args):
            call = Call(call.op, args, call.attrs, call.sinfo_args, call.span)
        call._struct_info = known or self._infer(call)
        return call

    def _normalized_if(self, expr: If) -> If:
        parts = (
            self.normalize_argument(expr.cond),
            self.normalize_branch(expr.true_branch),
            self.normalize_branch(expr.false_branch),
        )
        if not _same(parts, (expr.cond, expr.true_branch, expr.false_branch)):
            known = expr._struct_info
            expr = If(*parts)
            expr._struct_info = known
        expr._struct_info = expr._struct_info or self._infer(expr)
        return expr

    def normalize_branch(self, branch: Expr) -> SeqExpr:
        """A branch in normal form, with its bindings inside the branch."""
        self.begin_scope()
        old = as_sequence(branch)
        body = self.normalize_argument(self._inlined(old))
        blocks = self.end_scope()
        unchanged = body is old.body and _same_blocks(blocks, old.blocks)
        return old if unchanged else SeqExpr(blocks, body)

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Begins a sequence expression of its own, until ``end_scope``."""
        self._frame.sequences.append(BlockSequence())

    def end_scope(self) -> list[BindingBlock]:
        """Ends the scope and returns its blocks.

        Raises:
            BuilderError: no scope was begun.
        """
        if not self._frame.sequences:
            raise BuilderError("`end_scope`: expected a `begin_scope` before it")
        sequence = self._frame.sequences.pop()
        sequence.end_block()
        return sequence.blocks

    def _inlined(self, sequence: SeqExpr) -> Expr:
        """Inlines a nested sequence in the current one and returns its value."""
        for block in sequence.blocks:
            inside = self._sequence.is_dataflow
            if isinstance(block, DataflowBlock) and not inside:
                with self.dataflow():
                    self._normalize_block(block)
            elif inside and not isinstance(block, DataflowBlock):
                with self._outside_dataflow():
                    self._normalize_block(block)
            else:
                self._normalize_block(block)
        return self.normalize_flat(sequence.body)

    @contextmanager
    def _outside_dataflow(self) -> Iterator[None]:
        """A scope outside of dataflow, which splits the current dataflow block in two."""
        self._sequence.end_block()
        try:
            yield
        finally:
            self._sequence.end_block()
            self._sequence.is_dataflow = True

    def _normalize_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            if isinstance(binding, MatchCast):
                value = self.normalize_argument(binding.value)
                if value is not binding.value:
                    binding = MatchCast(binding.var, value, binding.struct_info)
                self.emit_normalized(binding)
                continue
            value = self.normalize_flat(binding.value)
            if binding.var.struct_info_or_none() is None:
                binding.var._struct_info = self._infer(value)
            if value is not binding.value:
                binding = VarBinding(binding.var, value)
            self.emit_normalized(binding)

    def normalize_argument(self, expr: Expr) -> Expr:
        """An expression as an argument: bound to a variable unless it is a leaf.

        A variable of unit type, such as the result of a call with effects only, becomes the
        empty tuple.
        """
        if is_leaf(expr) or isinstance(expr, BaseFunc):
            return Tuple(()) if _is_unit(expr) else expr
        if id(expr) in self._sequence.named:
            return self._sequence.named[id(expr)][1]
        value = self.normalize_flat(expr)
        if not is_leaf(value) and not isinstance(value, BaseFunc):
            value = self._bind(value, "", is_output=not self._sequence.is_dataflow)
        self._sequence.named[id(expr)] = (expr, value)
        return value

    def _infer(self, expr: Expr) -> StructInfo:
        with self._module.context, ir.Location.unknown():
            return infer_struct_info(
                expr, self._frame.symbols, self._module.signature_of
            )

    def _with_struct_info(self, expr: Expr) -> Expr:
        if expr.struct_info_or_none() is None:
            expr._struct_info = self._infer(expr)
        return expr

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that a variable of the functions being built is bound to, or None."""
        vid = getattr(var, "vid", None)
        for frame in reversed([self._root_frame, *self._frames]):
            if vid in frame.bound:
                return frame.bound[vid]
        return None

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that no variable of the current function has."""
        return self._frame.names.fresh(name_prefix)

    def get(self) -> IRModule:
        """The module as it is now; later changes of the builder do not affect it."""
        self._exported = True
        return self._module

    def finalize(self) -> IRModule:
        """The finished module."""
        return self.get()

    def _writable_module(self) -> IRModule:
        """The module for modification: a copy if ``get`` has returned it."""
        if self._exported:
            self._module = self._module.in_shared_context()
            self._exported = False
        return self._module

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Adds a function, unless the module has a structurally equal one.

        Returns:
            Its global variable, named ``func_name`` or made unique by a number.
        """
        if self._functions is None:
            self._functions = _FunctionTable()
            for var, known in self._module.functions.items():
                self._functions.add(var.name_hint, _Comparable(known))
        comparable = _Comparable(func)
        found = self._functions.find(comparable, self._module)
        if found is not None:
            return self._module.get_global_var(found)
        name = self._unique_function(func_name)
        self._writable_module().update_func(name, func)
        self._functions.add(name, comparable)
        return self._module.get_global_var(name)

    def _unique_function(self, name: str) -> str:
        return NameSupply(self._module.function_names()).fresh(name)

    def update_func(
        self, gv: GlobalVar | str, updated_func: BaseFunc | ExternFunc
    ) -> None:
        """Adds a function, or replaces the one with this name."""
        self._functions = None
        self._writable_module().update_func(gv, updated_func)

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """A call of the PrimFunc that a tensor-expression function generates.

        See :func:`relax_mlir.tvm.te.call_te`.
        """
        from relax_mlir.tvm.te.call_te import call_te

        return self.normalize(call_te(self, func, *args, **kwargs))  # pyright: ignore[reportReturnType]

    def call_te_with_grad(
        self, func: Callable[..., Any], *args: Any, te_grad_name: str, **kwargs: Any
    ) -> Call:
        """Like ``call_te``, with the tensor-expression gradient registered.

        See :func:`relax_mlir.tvm.te.call_te`.
        """
        return self.call_te(func, *args, te_grad_name=te_grad_name, **kwargs)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Binds a call of the PrimFunc that a tensor-expression function generates."""
        name_hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)


class _Comparable:
    """A function with what it is compared by, each derived once.

    Encoding the structure of a function takes longer than building it, so only functions
    of equal summaries are compared.
    """

    def __init__(self, func: BaseFunc) -> None:
        self.func = func
        self.summary = _summary(func)

    @cached_property
    def hash(self) -> int:
        """The structural hash."""
        return structural_hash(self.func)


class _FunctionTable:
    """The functions of a module, to find one that is structurally equal to another."""

    def __init__(self) -> None:
        self._named: dict[object, list[tuple[str, _Comparable]]] = {}  # by summary

    def add(self, name: str, func: _Comparable) -> None:
        """Adds a function of the module."""
        self._named.setdefault(func.summary, []).append((name, func))

    def find(self, func: _Comparable, module: IRModule) -> str | None:
        """The name of an equal function, or None."""
        for name, known in self._named.get(func.summary, ()):
            if known.hash != func.hash or name not in module:
                continue
            if structural_equal(module[name], func.func):
                return name
        return None


def _summary(func: BaseFunc) -> object:
    """What structurally equal functions have in common, and is quickly derived."""
    if not isinstance(func, PrimFunc):
        return type(func)
    op = func.op
    return str(op.type), len(operations_named(op, "tir.block"))


def _is_unit(expr: Expr) -> bool:
    """Whether an expression is a variable of unit type (the empty tuple)."""
    info = expr.struct_info_or_none() if isinstance(expr, Var) else None
    return isinstance(info, TupleStructInfo) and not info.fields


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two lists have identical elements."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _same_blocks(new: Sequence[BindingBlock], old: Sequence[BindingBlock]) -> bool:
    """Whether two lists of blocks have identical bindings."""
    return len(new) == len(old) and all(
        type(a) is type(b) and _same(a.bindings, b.bindings)
        for a, b in zip(new, old, strict=True)
    )
