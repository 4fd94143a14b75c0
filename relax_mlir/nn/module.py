"""Modules: trees of layers with parameters, and containers of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from relax_mlir.errors import UnknownNameError, UnsupportedArgumentError, near_misses
from relax_mlir.nn.subroutine import SubroutineMixin
from relax_mlir.nn.tensor import Parameter
from relax_mlir.support.argument_types import skip_argument_checks

__all__ = [
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "find_members",
]


class Module(SubroutineMixin):
    """Base class of networks and layers; subclasses define ``forward``.

    Parameters, effects and modules that are assigned to attributes become its members.
    """

    def _members(self) -> Iterator[tuple[str, Any]]:
        """Members by name."""
        yield from self.__dict__.items()

    def _replace_member(self, name: str, member: Any) -> None:
        """Replace a member."""
        setattr(self, name, member)

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """All parameters in the tree, by names such as ``layers.0.weight``.

        Args:
            prefix: a prefix of the names.
        """
        yield from find_members(self, Parameter, prefix)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters in the tree."""
        for _, parameter in self.named_parameters():
            yield parameter

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """All parameters in the tree as a dictionary.

        Args:
            prefix: a prefix of the names.
            destination: a dictionary to add them to.
        """
        found = {} if destination is None else destination
        found.update(self.named_parameters(prefix))
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Parameter], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Load the data of parameters from a ``state_dict``.

        Args:
            state_dict: parameters by name.
            strict: whether the names must match exactly.

        Returns:
            The names missing in ``state_dict``, and its unexpected names.

        Raises:
            KeyError: names do not match, and ``strict`` is set.
            ValueError: a parameter has no data.
        """
        missing = self.state_dict()
        unexpected: list[str] = []
        for name, value in state_dict.items():
            if name not in missing:
                unexpected.append(name)
                continue
            if value.data is None:
                raise ValueError(f"parameter `{name}` has no data: set its `data`")
            missing.pop(name).data = value.data
        if strict and (missing or unexpected):
            raise UnknownNameError(
                f"Missing keys: {list(missing)}, Unexpected keys: {unexpected}"
            )
        return list(missing), unexpected

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward``."""
        forward: Callable[..., Any] | None = getattr(self, "forward", None)
        if forward is None:
            raise UnsupportedArgumentError(
                f"module `{type(self).__name__}` has no method `forward`"
            )
        return forward(*args, **kwargs)

    def to(self, dtype: str | None = None) -> None:
        """Change the element type of all parameters in the tree."""
        for _, member in self._members():
            change = getattr(member, "to", None)
            if callable(change):
                change(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(
        self, spec: Any, debug: bool = False, allow_extern: bool = False
    ) -> Any:
        """Export methods as a Relax module.

        Args:
            spec: argument specs by method and argument: ``spec.Tensor((1, 784), "float32")``,
                ``int``, or a list of these. The key ``"$"`` holds ``param_mode`` and
                ``effect_mode``, each ``plain``, ``packed`` or ``none``.
            debug: whether methods may print, which adds an I/O effect to every function.
            allow_extern: whether methods may use external modules.

        Returns:
            The module and the parameters by name; with ``allow_extern`` also the external
            modules.

        Raises:
            ValueError: external modules are used, and ``allow_extern`` is not set.
        """
        from relax_mlir.nn.exporter import Exporter
        from relax_mlir.nn.spec import ModuleSpec

        exported, parameters, external = Exporter(debug=debug).build(
            ModuleSpec.from_raw(spec, self)
        )
        if allow_extern:
            return exported, parameters, external
        if external:
            raise ValueError(
                "the network uses functions of external modules: expected none. Export it "
                "with `allow_extern=True`."
            )
        return exported, parameters

    def jit(
        self,
        spec: Any,
        device: Any = "cpu",
        pipeline: Any = "default_build",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile methods just in time.

        Args:
            spec: as for :meth:`export_tvm`.
            device: the device to run on.
            pipeline: a pass to run first, or the name of a pipeline.
            out_format: the format of results: ``torch`` tensors or ``numpy`` arrays.
            debug: as for :meth:`export_tvm`.

        Returns:
            The compiled methods by name: ``model["forward"](x)``.

        Raises:
            ValueError: a parameter has no data, or the format is unknown.
            RelaxError: the module cannot be compiled.
        """
        from relax_mlir.nn.jit import compile_module

        return compile_module(
            self, spec, device, pipeline, out_format=out_format, debug=debug
        )


def find_members(
    root: Module, kind: type[Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """All members of a class in a module tree, by qualified name."""
    for name, member in root._members():
        if isinstance(member, kind):
            yield f"{prefix}{name}", member
        elif isinstance(member, Module):
            yield from find_members(member, kind, f"{prefix}{name}.")


class ModuleList(Module):
    """A list of modules; ``forward`` applies them in sequence."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = modules if isinstance(modules, list) else list(modules)

    def _members(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), module) for i, module in enumerate(self.modules))

    def _replace_member(self, name: str, member: Any) -> None:
        self[int(name)] = member

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, idx: int) -> Module:
        return self.modules[idx]

    def __setitem__(self, idx: int, module: Module) -> None:
        self.modules[idx] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Append a module."""
        self.modules.append(module)

    def forward(self, x: Any) -> Any:
        """Apply the modules to ``x`` in sequence."""
        for module in self.modules:
            x = module(x)
        return x


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, params: list[Parameter] | None = None) -> None:
        self.params: list[Parameter] = []
        self.extend(params or [])

    def _members(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), parameter) for i, parameter in enumerate(self.params))

    def _replace_member(self, name: str, member: Any) -> None:
        self[int(name)] = member

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.params)

    def __getitem__(self, idx: int) -> Parameter:
        return self.params[idx]

    def __setitem__(self, idx: int, param: Parameter) -> None:
        self.params[idx] = _checked(param, "ParameterList elements")

    def __len__(self) -> int:
        return len(self.params)

    @skip_argument_checks  # with TVM's error message
    def append(self, param: Parameter) -> None:
        """Append a parameter.

        Raises:
            TypeError: the argument is not a parameter.
        """
        self.params.append(_checked(param, "ParameterList elements"))

    def extend(self, params: list[Parameter]) -> None:
        """Append parameters."""
        for param in params:
            self.append(param)


class _ByName(Module):
    """A dictionary of members."""

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items: dict[str, Any] = {}
        self.update(items or {})

    def _members(self) -> Iterator[tuple[str, Any]]:
        yield from self._items.items()

    def _replace_member(self, name: str, member: Any) -> None:
        self[name] = member

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._items[key] = value

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def keys(self) -> Any:
        """All names."""
        return self._items.keys()

    def values(self) -> Any:
        """All members."""
        return self._items.values()

    def items(self) -> Any:
        """All members by name."""
        return self._items.items()

    def get(self, key: str, default: Any = None) -> Any:
        """The member called ``key``, or ``default``."""
        return self._items.get(key, default)

    def update(self, items: Mapping[str, Any]) -> None:
        """Add members."""
        for key, value in items.items():
            self[key] = value

    def clear(self) -> None:
        """Remove all members."""
        self._items.clear()

    def pop(self, key: str) -> Any:
        """Remove and return the member called ``key``.

        Raises:
            UnknownNameError: there is no such member.
        """
        if key not in self._items:
            raise UnknownNameError(
                f"{type(self).__name__}.pop: no member `{key}`: expected one of "
                f"{', '.join(self._items) or 'none'}.{near_misses(key, self._items)}"
            )
        return self._items.pop(key)


class ModuleDict(_ByName):
    """A dictionary of modules; iterates over the modules."""

    @property
    def modules(self) -> dict[str, Module]:
        """The modules by name."""
        return self._items

    def __iter__(self) -> Iterator[Module]:
        return iter(self._items.values())


class ParameterDict(_ByName):
    """A dictionary of parameters; iterates over the names."""

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters by name."""
        return self._items

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"ParameterDict keys must be strings, but got {type(key).__name__}"
            )
        super().__setitem__(key, _checked(value, "ParameterDict values"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)


def _checked(param: object, what: str) -> Parameter:
    if not isinstance(param, Parameter):
        raise TypeError(f"{what} must be nn.Parameter, but got {type(param).__name__}")
    return param
