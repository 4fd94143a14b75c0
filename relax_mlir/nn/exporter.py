"""Export of modules to Relax functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

from relax_mlir.errors import ArgumentTypeError, BuilderError
from relax_mlir.ir.module import IRModule
from relax_mlir.nn import spec as specs
from relax_mlir.nn.effect import Effect, IOEffect
from relax_mlir.nn.extern import ExternModule
from relax_mlir.nn.module import Module, find_members
from relax_mlir.nn.tensor import Object, Parameter, Tensor
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Expr, TupleGetItem, Var
from relax_mlir.objects.expr import Tuple as TupleExpr
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from relax_mlir.support.argument_types import check_exports

__all__ = ["Exporter", "add_extern"]


def add_extern(mod: ExternModule) -> None:
    """Register an external module with the network being exported.

    Raises:
        RuntimeError: no network is being exported.
        ValueError: another external module has a function of the same name.
    """
    Exporter.current().add_external_module(mod)


class Exporter:
    """Builds Relax functions from the methods of a module.

    Args:
        debug: whether functions may print.

    Attributes:
        builder: the builder of the functions.
        io_effect: the effect that orders printing, or None.
        extern_mods: external modules that the network uses.
    """

    _stack: ClassVar[list[Exporter]] = []

    def __init__(self, debug: bool = False) -> None:
        self.builder = BlockBuilder()
        self.io_effect = IOEffect() if debug else None
        self.extern_mods: list[ExternModule] = []

    @staticmethod
    def current() -> Exporter:
        """The active exporter.

        Raises:
            RuntimeError: no exporter is active.
        """
        if not Exporter._stack:
            raise BuilderError(
                "no network is being exported: expected a call inside of `export_tvm`"
            )
        return Exporter._stack[-1]

    @contextmanager
    def _activate(self) -> Iterator[None]:
        Exporter._stack.append(self)
        try:
            yield
        finally:
            Exporter._stack.pop()

    def add_external_module(self, mod: ExternModule) -> None:
        """Register an external module that the network uses.

        Raises:
            ValueError: another one has a function of the same name.
        """
        if mod in self.extern_mods:
            return
        known = {name for other in self.extern_mods for name in other.symbols}
        duplicates = sorted(known & set(mod.symbols))
        if duplicates:
            raise ValueError(
                f"external modules: expected each function once, got {duplicates} twice"
            )
        self.extern_mods.append(mod)

    def build(
        self, spec: specs.ModuleSpec
    ) -> tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]:
        """Build the functions.

        Returns:
            The module, its parameters by name, and the external modules that it uses.
        """
        module = spec.module
        if not isinstance(module, Module):
            raise ArgumentTypeError(
                "Exporter.build: `spec`: expected one of an nn.Module, got one of "
                f"{type(module).__name__}"
            )
        parameters = list(module.named_parameters())
        effects: list[tuple[str, Effect]] = list(find_members(module, Effect))
        if self.io_effect is not None:
            effects.insert(0, ("", self.io_effect))
        with self._activate():
            if effects:
                self._initialize(effects)
            for name, method in zip(spec.method_names, spec.method_specs, strict=True):
                _Method(self.builder, method, parameters, effects).emit(name)
        return self.builder.finalize(), parameters, self.extern_mods

    def _initialize(self, effects: Sequence[tuple[str, Effect]]) -> None:
        """Emit the function that creates the initial state of all effects."""
        builder = self.builder
        with builder.function("_initialize_effect", params=[]):
            with builder.dataflow():
                states = [s for name, e in effects for s in e.emit_init(name, builder)]
                outputs = builder.emit_output(builder.emit(TupleExpr(states)))
            builder.emit_func_output(outputs)


class _Method:
    """Export of one method."""

    def __init__(
        self,
        builder: BlockBuilder,
        spec: specs.MethodSpec,
        parameters: Sequence[tuple[str, Parameter]],
        effects: Sequence[tuple[str, Effect]],
    ) -> None:
        self.builder = builder
        self.spec = spec
        self.parameters = parameters
        self.effects = effects

    def emit(self, name: str) -> None:
        """Emit the function."""
        states = {"packed": 1, "none": 0, "plain": len(self.effects)}
        taken = len(self.spec.arg_specs) + states[self.spec.effect_mode]
        builder = self.builder
        with builder.function(name, attrs={"num_input": taken}):
            with builder.dataflow():
                arguments = _Arguments(builder)
                given = [
                    arguments.add(name, spec)
                    for name, spec in zip(
                        self.spec.arg_names, self.spec.arg_specs, strict=True
                    )
                ]
                inputs = [*arguments.variables, *self._states(), *self._weights()]
                values = [value() if callable(value) else value for value in given]
                outputs = self.spec.method(*values)
                result = builder.emit_output(self._with_states(_expr(outputs)))
            builder.emit_func_output(result, inputs)

    def _with_states(self, result: Expr) -> Expr:
        """The result, with the final states of the effects."""
        states = [state for _, effect in self.effects for state in effect.finalize()]
        if not states or self.spec.effect_mode == "none":
            return result
        return TupleExpr([result, TupleExpr(states)])

    def _states(self) -> list[Var]:
        """The function parameters for the states of the effects."""
        created = [(effect, effect.create(name)) for name, effect in self.effects]
        listed = [state for _, states in created for state in states]
        for effect, states in created:
            effect.set_state(states)
        if self.spec.effect_mode != "packed":
            return listed if self.spec.effect_mode == "plain" else []
        whole = _packed("packed_effects", listed)
        numbers = count()
        for effect, states in created:
            parts = [(TupleGetItem(whole, next(numbers)), s.name_hint) for s in states]
            effect.set_state([self.builder.emit(part, name) for part, name in parts])
        return [whole]

    def _weights(self) -> list[Var]:
        """The function parameters for the parameters of the module.

        Symbolic sizes of the same name are one variable, which is local to the function.
        """
        sizes: dict[str, prim.Var] = {}
        listed: list[Var] = []
        for name, parameter in self.parameters:
            shape = [_renewed(size, sizes) for size in parameter.shape]
            variable = Tensor.placeholder(shape, parameter.dtype, name).as_expr()
            assert isinstance(variable, Var)
            parameter.bind(variable)
            listed.append(variable)
        if self.spec.param_mode != "packed":
            return listed if self.spec.param_mode == "plain" else []
        whole = _packed("packed_params", listed)
        for number, (name, parameter) in enumerate(self.parameters):
            parameter.bind(self.builder.emit(TupleGetItem(whole, number), name))
        return [whole]


class _Arguments:
    """The arguments of one method; symbolic sizes of the same name are one variable.

    Attributes:
        variables: the function's parameters.
    """

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder
        self.variables: list[Var] = []
        self._sizes: dict[str, prim.Var] = {}

    def _size(self, name: str) -> prim.Var:
        return self._sizes.setdefault(name, prim.Var(name, "int64"))

    def add(self, name: str, spec: Any) -> Any:
        """Add an argument.

        Returns:
            The value for the method; for a tuple a function that emits the bindings of
            its elements and returns them.
        """
        value = self._value(name, spec)
        if not isinstance(spec, specs.Tuple):
            self.variables.append(_variable(name, value))
            return value
        whole = _packed(name, _variable(name, value))
        self.variables.append(whole)
        return lambda: self._unpack_tuple(name, spec, value, whole)

    def _value(self, name: str, spec: Any) -> Any:
        if isinstance(spec, specs.Int):
            return self._size(name)
        if isinstance(spec, specs.Tensor):
            shape = [self._size(s) if isinstance(s, str) else s for s in spec.shape]
            return Tensor.placeholder(shape, spec.dtype, name)
        if isinstance(spec, specs.Object):
            return spec.object_type(_expr=Var(name, ObjectStructInfo()), _name=name)
        if isinstance(spec, specs.Tuple):
            return [self._value(f"{name}_{i}", s) for i, s in enumerate(spec.elements)]
        raise TypeError(f"Invalid spec for argument {name}: {spec}")

    def _unpack_tuple(
        self, name: str, spec: specs.Tuple, value: Sequence[Any], whole: Var
    ) -> Any:
        """The elements of a tuple, each bound to a variable."""
        parts: list[Any] = []
        for i, (kind, known) in enumerate(zip(spec.elements, value, strict=True)):
            own = f"{name}_{i}"
            part = self.builder.emit(TupleGetItem(whole, i), own)
            if isinstance(kind, specs.Tuple):
                parts.append(self._unpack_tuple(own, kind, known, part))
            elif isinstance(kind, specs.Tensor):
                parts.append(Tensor(_expr=part))
            elif isinstance(kind, specs.Object):
                parts.append(kind.object_type(_expr=part, _name=own))
            else:
                parts.append(known)
        return type(spec.elements)(parts)


def _variable(name: str, value: Any) -> Any:
    """The function parameter of an argument; a nested list for a tuple."""
    if isinstance(value, prim.Var):
        return Var(name, ShapeStructInfo([value]))
    if isinstance(value, list):
        return [_variable(name, v) for v in value]
    return value.as_expr()


def _renewed(size: Any, sizes: dict[str, prim.Var]) -> Any:
    """A size with its variables replaced by those of the same name in ``sizes``."""
    if not isinstance(size, prim.PrimExpr):
        return size
    variables = [t for t in prim.post_order(size) if isinstance(t, prim.Var)]
    new = {v: sizes.setdefault(v.name, prim.Var(v.name, "int64")) for v in variables}
    return prim.substitute(size, new)


def _packed(name: str, variables: Sequence[Any]) -> Var:
    """A tuple parameter for several values."""
    return Var(name, _tuple_info(variables))


def _tuple_info(variables: Sequence[Any]) -> TupleStructInfo:
    return TupleStructInfo(
        [_tuple_info(v) if isinstance(v, list) else v.struct_info for v in variables]
    )


def _expr(value: Any) -> Expr:
    """The result of a method as an expression.

    Raises:
        TypeError: it is not a tensor, an object or a tuple of these.
    """
    if isinstance(value, (Tensor, Object)):
        return value.as_expr()
    if isinstance(value, (tuple, list)):
        return TupleExpr([_expr(v) for v in value])
    raise TypeError(f"Unsupported return type: {type(value)}")


check_exports(globals())
