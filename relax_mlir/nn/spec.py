"""Signatures of methods: shapes, element types and kinds of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.errors import ArgumentValueError, short_repr
from relax_mlir.objects.argument_checks import instance_of, mapping_of, sequence_of

__all__ = ["Int", "MethodSpec", "ModuleSpec", "Object", "Tensor", "Tuple"]

_MODES = ("plain", "packed", "none")


class Int:
    """An integer argument, which becomes a symbolic size."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """A tensor argument.

    Args:
        shape: numbers, expressions, or names of symbolic sizes; a name denotes the same
            size in all arguments of a method.
        dtype: element type.
    """

    def __init__(self, shape: Sequence[Any], dtype: str) -> None:
        self.shape = list(sequence_of(shape, "spec.Tensor: `shape`", "sizes"))
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """An opaque object argument.

    Args:
        object_type: the class that wraps it, a subclass of :class:`relax_mlir.nn.Object`.
    """

    def __init__(self, object_type: type) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return "object"


class Tuple:
    """A tuple argument.

    Args:
        name: the name of the argument.
        elements: specs of the elements, in a list or tuple, which the method receives.

    Raises:
        TypeError: ``elements`` is neither a list nor a tuple.
    """

    def __init__(self, name: str, elements: Any) -> None:
        instance_of(name, str, "spec.Tuple: `name`", "a string")
        if not isinstance(elements, (list, tuple)):
            raise TypeError(
                f"`{name}`: expected a list or a tuple, got {type(elements).__name__}"
            )
        self.name = name
        self.elements: list[Any] | tuple[Any, ...] = elements

    def __repr__(self) -> str:
        return repr(self.elements)


class MethodSpec:
    """The signature of a method.

    Args:
        method: the method.
        arg_names: names of its arguments.
        arg_specs: specs of its arguments.
        param_mode: passing of the module's parameters: ``plain`` one by one, ``packed``
            as one tuple, ``none`` not at all.
        effect_mode: passing of effects, likewise.

    Raises:
        ValueError: a mode is unknown.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: list[str],
        arg_specs: list[Any],
        param_mode: str,
        effect_mode: str,
    ) -> None:
        for what, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            instance_of(mode, str, f"spec.MethodSpec: `{what}`", "a string")
            if mode not in _MODES:
                raise ValueError(
                    f"Invalid {what}: {mode}: expected one of {', '.join(_MODES)}"
                )
        self.method = method
        self.arg_names = arg_names
        self.arg_specs = arg_specs
        self.param_mode = param_mode
        self.effect_mode = effect_mode

    def text(self, name: str) -> str:
        """The signature as text."""
        pairs = zip(self.arg_names, self.arg_specs, strict=True)
        return f"{name}({', '.join(f'{n}: {s}' for n, s in pairs)})"

    def __repr__(self) -> str:
        return self.text("MethodSpec")

    @staticmethod
    def from_raw(spec: Any, method: Callable[..., Any]) -> MethodSpec:
        """A signature from a dictionary of arguments; see :meth:`Module.export_tvm`.

        Raises:
            TypeError: a spec is of an unknown type, or an argument before one with a spec
                has none.
        """
        if isinstance(spec, MethodSpec):
            return spec
        config = spec.get("$", {})
        names = list(inspect.signature(method).parameters)
        specified = [name for name in names if name in spec]
        if specified != names[: len(specified)]:
            first = next(n for n in names if n not in spec)
            raise TypeError(
                f"argument `{first}` has no spec: expected one, as one after it has"
            )
        return MethodSpec(
            method,
            specified,
            [_spec(spec[name], name) for name in specified],
            param_mode=config.get("param_mode", "plain"),
            effect_mode=config.get("effect_mode", "plain"),
        )

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """A signature from example arguments: PyTorch tensors, arrays, integers.

        Raises:
            TypeError: the number of arguments is wrong, or one is of another type.
        """
        names = list(inspect.signature(method).parameters)
        if len(names) != len(args):
            raise TypeError(f"Expected {len(names)} arguments, but got {len(args)}")
        return MethodSpec(method, names, [_like(a) for a in args], "plain", "plain")


def _spec(given: Any, name: str) -> Any:
    """The spec of an argument from its shorthand forms."""
    if given is Int or given is int or given == "int":
        return Int()
    if isinstance(given, (Int, Tensor, Object)):
        return given
    if isinstance(given, Tuple):
        given = given.elements
    if isinstance(given, (list, tuple)):
        elements = [_spec(e, f"{name}_{i}") for i, e in enumerate(given)]
        return Tuple(name, type(given)(elements))
    raise TypeError(f"Invalid spec for argument {name}: {given}")


def _like(value: Any) -> Any:
    """The spec of an argument from an example value."""
    if isinstance(value, int):
        return Int()
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Tensor(list(value.shape), str(value.dtype).rpartition(".")[2])
    raise TypeError(f"Unsupported argument type: {type(value)}")


class ModuleSpec:
    """The signatures of a module's methods.

    Args:
        module: the module.
        method_names: the methods to export.
        method_specs: their signatures.
    """

    def __init__(
        self, module: Any, method_names: list[str], method_specs: list[MethodSpec]
    ) -> None:
        self.module = module
        where = "ModuleSpec: `method_names`"
        self.method_names = list(sequence_of(method_names, where, "names"))
        where = "ModuleSpec: `method_specs`"
        self.method_specs = [
            instance_of(spec, MethodSpec, where, "specs of methods")
            for spec in sequence_of(method_specs, where, "specs of methods")
        ]
        if len(self.method_names) != len(self.method_specs):
            raise ValueError(
                f"ModuleSpec: expected {len(self.method_names)} specs, one per name, "
                f"got {len(self.method_specs)}"
            )

    @staticmethod
    def from_raw(spec: Any, module: Any) -> ModuleSpec:
        """Signatures from dictionaries; see :meth:`Module.export_tvm`."""
        if isinstance(spec, ModuleSpec):
            return spec
        methods = mapping_of(spec, "ModuleSpec.from_raw: `spec`")
        for name in methods:
            if not isinstance(name, str) or not callable(getattr(module, name, None)):
                raise ArgumentValueError(
                    "ModuleSpec.from_raw: `spec`: expected names of methods of "
                    f"{type(module).__name__}, got {short_repr(name)}"
                )
        specs = [MethodSpec.from_raw(s, getattr(module, n)) for n, s in methods.items()]
        return ModuleSpec(module, list(methods), specs)

    def __repr__(self) -> str:
        pairs = zip(self.method_names, self.method_specs, strict=True)
        return "\n".join(["ModuleSpec:", *(f"  {s.text(n)}" for n, s in pairs)])
