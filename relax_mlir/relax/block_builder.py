"""Build functions of Relax binding by binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from mlir import ir

from relax_mlir.errors import BuilderError
from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.infer import infer
from relax_mlir.objects.operators import normal_form_of
from relax_mlir.objects.struct_info import StructInfo, TupleStructInfo
from relax_mlir.objects.structure import structural_equal, structural_hash
from relax_mlir.relax.open_function import BlockSequence, NameSupply, OpenFunction

__all__ = ["BlockBuilder"]


class BlockBuilder:
    """Builds functions of Relax in TVM's normal form: one operation per binding.

    Args:
        mod: functions to start with.
        applies_normal_forms: whether operators' own normal forms are asked for, too.
    """

    _stack: ClassVar[list[BlockBuilder]] = []

    def __init__(
        self, mod: IRModule | None = None, *, applies_normal_forms: bool = True
    ) -> None:
        self.applies_normal_forms = applies_normal_forms
        self._module = IRModule({}) if mod is None else mod.in_shared_context()
        self._exported = False
        self._frames: list[OpenFunction] = []
        self._loose = OpenFunction("", None, {}, is_pure=True, is_private=True)
        # As in TVM, functions that one builder makes have no names of variables in common.
        self._given = self._loose.names
        self._hashes: dict[int, list[str]] | None = None
        self.func_params: list[Var] = []

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose ``with`` is open, if one is."""
        return BlockBuilder._stack[-1] if BlockBuilder._stack else None

    @contextmanager
    def _opened(self) -> Iterator[None]:
        BlockBuilder._stack.append(self)
        try:
            yield
        finally:
            BlockBuilder._stack.pop()

    @property
    def _frame(self) -> OpenFunction:
        return self._frames[-1] if self._frames else self._loose

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
        """What is emitted inside becomes one function.

        Args:
            name: what it is called; a number is added if the name is taken.
            params: its parameters; they may also be given to ``emit_func_output``.
            attrs: its attributes.
            pure: whether it does nothing but compute its result.
            private: whether only this module sees it.

        Raises:
            BuilderError: another function is open, or ``emit_func_output`` was not called
                inside.
        """
        if isinstance(params, Var):
            params = [params]
        listed = None if params is None else list(params)
        names = NameSupply(shared=self._given)
        frame = OpenFunction(name, listed, dict(attrs or {}), pure, private, names)
        for param in listed or ():
            frame.names.take(param.name_hint)
        self._frames.append(frame)
        try:
            with self._opened():
                yield
        finally:
            self._frames.pop()
        if not frame.is_finished:
            raise BuilderError(
                f"function `{name}`: expected `emit_func_output` before its end"
            )

    @contextmanager
    def testing_scope(self, def_vars: Sequence[Any] = ()) -> Iterator[None]:
        """What is emitted inside is checked and dropped."""
        frame = OpenFunction("testing", None, {}, is_pure=True, is_private=True)
        self._frames.append(frame)
        try:
            with self._opened():
                yield
        finally:
            self._frames.pop()

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """What is emitted inside stands in one dataflow block."""
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
        """The block that the last ``_begin_..._block`` opened, even if it is empty."""
        if not self._frame.sequences:
            raise BuilderError("`_end_block`: expected a `_begin_..._block` before it")
        sequence = self._frame.sequences.pop()
        is_dataflow = sequence.is_dataflow
        if not sequence.blocks:
            return (DataflowBlock if is_dataflow else BindingBlock)(sequence.bindings)
        sequence.end_block()
        return BindingBlock([b for block in sequence.blocks for b in block.bindings])

    def current_block_is_dataflow(self) -> bool:
        """Whether a dataflow block is open."""
        return self._sequence.is_dataflow

    def current_bindings(self) -> list[Binding]:
        """The bindings of the open block so far."""
        return self._sequence.bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an expression to a new variable, which is returned."""
        value = self.normalize_flat(convert(expr))
        return self._bind(value, name_hint, is_output=not self._sequence.is_dataflow)

    def emit_output(self, output: Any, name_hint: str = "") -> Var:
        """Bind an expression to a variable that is seen outside the dataflow block.

        Raises:
            BuilderError: no dataflow block is open.
        """
        if not self._sequence.is_dataflow:
            raise BuilderError("`emit_output`: expected to be inside `dataflow()`")
        value = self.normalize_flat(convert(output))
        return self._bind(value, name_hint, is_output=True)

    def _bind(self, value: Expr, name_hint: str, *, is_output: bool) -> Var:
        name = self._frame.names.fresh(name_hint or ("gv" if is_output else "lv"))
        var = (Var if is_output else DataflowVar)(name, self._info(value))
        self.emit_normalized(VarBinding(var, value))
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Add a binding as it is."""
        self._sequence.bindings.append(binding)
        self._frame.names.take(binding.var.name_hint)
        if isinstance(binding, VarBinding):
            self._frame.bound[binding.var.vid] = binding.value

    def match_cast(self, value: Expr, struct_info: Any, name_hint: str = "") -> Var:
        """Bind ``value`` to a variable of which more is known; checked when it runs."""
        value = self.normalize_argument(convert(value))
        is_inner = self._sequence.is_dataflow
        name = self._frame.names.fresh(name_hint or ("lv" if is_inner else "gv"))
        info = getattr(struct_info, "as_struct_info", lambda: struct_info)()
        var = (DataflowVar if is_inner else Var)(name, info)
        self.emit_normalized(MatchCast(var, value, info))
        return var

    def emit_func_output(self, output: Any, params: Any = None) -> GlobalVar:
        """End the function: it gives ``output``.

        Args:
            output: an expression, or a list of them for a tuple.
            params: the parameters, if ``function`` was not given them.

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
        return self.add_func(self._finished(frame, sequence), frame.name)

    def _finished(self, frame: OpenFunction, body: SeqExpr) -> Function:
        attrs = dict(frame.attrs)
        if not frame.is_private:
            attrs = {"global_symbol": self._unique_function(frame.name), **attrs}
        return Function(
            frame.params or [], body, None, is_pure=frame.is_pure, attrs=attrs
        )

    def normalize(self, expr: Expr) -> Expr:
        """An expression in normal form, of which the struct info is known.

        What is nested in it is bound to variables in the open block. What is in normal
        form already stays the same object.
        """
        if isinstance(expr, SeqExpr):
            return self.normalize_branch(expr)
        return self.normalize_flat(expr)

    def normalize_flat(self, expr: Expr) -> Expr:
        """As ``normalize``; the bindings of a sequence are added to the open block."""
        if isinstance(expr, Tuple):
            fields = [self.normalize_argument(f) for f in expr.fields]
            return expr if _same(fields, expr.fields) else Tuple(fields)
        if isinstance(expr, TupleGetItem):
            whole = self.normalize_argument(expr.tuple_value)
            if whole is not expr.tuple_value:
                expr = TupleGetItem(whole, expr.index)
            return self._with_info(expr)
        if isinstance(expr, Call):
            return self._normalized_call(expr)
        if isinstance(expr, If):
            return self._normalized_if(expr)
        if isinstance(expr, SeqExpr):
            return self._flattened(expr)
        return expr

    def _normalized_call(self, call: Call) -> Expr:
        made = self._with_leaves(call)
        normal_form = normal_form_of(made.op)
        if normal_form is None or not self.applies_normal_forms:
            return made
        normal = normal_form(self, made)
        return self._with_leaves(normal) if isinstance(normal, Call) else normal

    def _with_leaves(self, call: Call) -> Call:
        """A call of variables and constants, of whose result something is known."""
        args = [self.normalize_argument(a) for a in call.args]
        known = call.struct_info_or_none()
        if known is not None and _same(args, call.args):
            return call
        if not _same(args, call.args):
            call = Call(call.op, args, call.attrs, call.sinfo_args, call.span)
        call._struct_info = known or self._info(call)
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
        expr._struct_info = expr._struct_info or self._info(expr)
        return expr

    def normalize_branch(self, branch: Expr) -> SeqExpr:
        """A branch in normal form; its bindings stand in the branch."""
        self.begin_scope()
        old = as_sequence(branch)
        body = self.normalize_argument(self._flattened(old))
        blocks = self.end_scope()
        unchanged = body is old.body and _same_blocks(blocks, old.blocks)
        return old if unchanged else SeqExpr(blocks, body)

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """What is emitted until ``end_scope`` stands in a sequence of its own."""
        self._frame.sequences.append(BlockSequence())

    def end_scope(self) -> list[BindingBlock]:
        """The blocks emitted since ``begin_scope``.

        Raises:
            BuilderError: there was none.
        """
        if not self._frame.sequences:
            raise BuilderError("`end_scope`: expected a `begin_scope` before it")
        sequence = self._frame.sequences.pop()
        sequence.end_block()
        return sequence.blocks

    def _flattened(self, sequence: SeqExpr) -> Expr:
        """Add the blocks of a nested sequence here; returns its value."""
        for block in sequence.blocks:
            inside = self._sequence.is_dataflow
            if isinstance(block, DataflowBlock) and not inside:
                with self.dataflow():
                    self._renormalize(block)
            elif inside and not isinstance(block, DataflowBlock):
                with self._outside_dataflow():
                    self._renormalize(block)
            else:
                self._renormalize(block)
        return self.normalize_flat(sequence.body)

    @contextmanager
    def _outside_dataflow(self) -> Iterator[None]:
        """What is emitted inside parts the dataflow block that is open in two."""
        self._sequence.end_block()
        try:
            yield
        finally:
            self._sequence.end_block()
            self._sequence.is_dataflow = True

    def _renormalize(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            if isinstance(binding, MatchCast):
                value = self.normalize_argument(binding.value)
                if value is not binding.value:
                    binding = MatchCast(binding.var, value, binding.struct_info)
                self.emit_normalized(binding)
                continue
            value = self.normalize_flat(binding.value)
            if binding.var.struct_info_or_none() is None:
                binding.var._struct_info = self._info(value)
            if value is not binding.value:
                binding = VarBinding(binding.var, value)
            self.emit_normalized(binding)

    def normalize_argument(self, expr: Expr) -> Expr:
        """An expression as an argument: bound to a variable if it is no leaf.

        A variable that holds nothing, as the result of a call that has only effects, is
        the empty tuple.
        """
        if is_leaf(expr) or isinstance(expr, BaseFunc):
            return Tuple(()) if _holds_nothing(expr) else expr
        if id(expr) in self._sequence.named:
            return self._sequence.named[id(expr)][1]
        value = self.normalize_flat(expr)
        if not is_leaf(value) and not isinstance(value, BaseFunc):
            value = self._bind(value, "", is_output=not self._sequence.is_dataflow)
        self._sequence.named[id(expr)] = (expr, value)
        return value

    def _info(self, expr: Expr) -> StructInfo:
        with self._module.context, ir.Location.unknown():
            return infer(expr, self._frame.symbols, self._module.signature_of)

    def _with_info(self, expr: Expr) -> Expr:
        if expr.struct_info_or_none() is None:
            expr._struct_info = self._info(expr)
        return expr

    def lookup_binding(self, var: Var) -> Expr | None:
        """What a variable of the open function is bound to, or None."""
        vid = getattr(var, "vid", None)
        for frame in reversed([self._loose, *self._frames]):
            if vid in frame.bound:
                return frame.bound[vid]
        return None

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that no variable of the open function has."""
        return self._frame.names.fresh(name_prefix)

    def get(self) -> IRModule:
        """The module as it is now; what is built later does not change it."""
        self._exported = True
        return self._module

    def finalize(self) -> IRModule:
        """The module when all is built."""
        return self.get()

    def _own(self) -> IRModule:
        """The module, to be changed: a copy if it was given away."""
        if self._exported:
            self._module = self._module.in_shared_context()
            self._exported = False
        return self._module

    def add_func(self, func: BaseFunc, func_name: str) -> GlobalVar:
        """Add a function; one that is there already is used again.

        Returns:
            Its name, to call it: ``func_name``, or with a number if that is taken.
        """
        found = self._equal_function(func)
        if found is not None:
            return self._module.get_global_var(found)
        name = self._unique_function(func_name)
        self._own().update_func(name, func)
        if self._hashes is not None:
            self._hashes.setdefault(structural_hash(func), []).append(name)
        return self._module.get_global_var(name)

    def _equal_function(self, func: BaseFunc) -> str | None:
        if self._hashes is None:
            self._hashes = {}
            for var, known in self._module.functions.items():
                names = self._hashes.setdefault(structural_hash(known), [])
                names.append(var.name_hint)
        for name in self._hashes.get(structural_hash(func), ()):
            if name in self._module and structural_equal(self._module[name], func):
                return name
        return None

    def _unique_function(self, name: str) -> str:
        return NameSupply(self._module.function_names()).fresh(name)

    def update_func(
        self, gv: GlobalVar | str, updated_func: BaseFunc | ExternFunc
    ) -> None:
        """Put a function in place of the one with this name, or add it."""
        self._hashes = None
        self._own().update_func(gv, updated_func)

    def call_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
        """A call of the tensor program that a tensor-expression function makes.

        See :func:`relax_mlir.te.call_te`.
        """
        from relax_mlir.te.call_te import call_te

        return self.normalize(call_te(self, func, *args, **kwargs))  # pyright: ignore[reportReturnType]

    def call_te_with_grad(
        self, func: Callable[..., Any], *args: Any, te_grad_name: str, **kwargs: Any
    ) -> Call:
        """The same call, which knows how its gradient is made.

        See :func:`relax_mlir.te.call_te`.
        """
        return self.call_te(func, *args, te_grad_name=te_grad_name, **kwargs)

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
        """Bind a call of the tensor program that a tensor-expression function makes."""
        name_hint = kwargs.pop("name_hint", "")
        return self.emit(self.call_te(func, *args, **kwargs), name_hint)


def _holds_nothing(expr: Expr) -> bool:
    """Whether an expression is a variable whose type is that of the empty tuple."""
    info = expr.struct_info_or_none() if isinstance(expr, Var) else None
    return isinstance(info, TupleStructInfo) and not info.fields


def _same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Whether two lists hold the same objects."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _same_blocks(new: Sequence[BindingBlock], old: Sequence[BindingBlock]) -> bool:
    """Whether two lists of blocks hold the same bindings."""
    return len(new) == len(old) and all(
        type(a) is type(b) and _same(a.bindings, b.bindings)
        for a, b in zip(new, old, strict=True)
    )
