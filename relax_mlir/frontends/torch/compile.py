"""``torch.compile(model, backend="relax_mlir")``: graphs of dynamo as machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd

from relax_mlir.compiler import compile
from relax_mlir.errors import UnsupportedError
from relax_mlir.frontends.torch.graph import Custom
from relax_mlir.frontends.torch.importer import decompositions, from_graph

__all__ = ["relax_mlir_backend"]

_OPTIONS = {
    "threads",
    "target",
    "cache",
    "freeze",
    "custom_convert_map",
    "winograd",
    "checks",
}


def relax_mlir_backend(
    module: Any,  # Any: torch.fx.GraphModule
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph that dynamo found.

    Tensors go in and come out by DLPack, without copies. Code is for inference: results
    carry no gradients, and asking for one is an error. What has no rule is an error as
    well: no graph falls back to torch's own operators.

    Args:
        module: the graph.
        example_inputs: what it is called with first.
        options: ``threads``, ``target``, ``winograd``, ``checks`` and ``cache`` as for
            :func:`relax_mlir.compile`;
            ``custom_convert_map`` as for :func:`from_exported`; ``freeze``: weights are
            constants, which may be computed with beforehand: for models whose weights
            do not change any more.
        mode: accepted for ``torch.compile``, only as None or ``default``.

    Raises:
        UnsupportedError: there is no rule for an operator, or tensors are not on the CPU.
        ValueError: there is no such option.
    """
    chosen = dict(options or {})
    if mode not in (None, "default"):
        raise ValueError(f"mode: expected None or `default`, got `{mode}`")
    unknown = sorted(set(chosen) - _OPTIONS)
    if unknown:
        raise ValueError(
            f"options: expected {', '.join(sorted(_OPTIONS))}, got {', '.join(unknown)}"
        )
    _check_devices(example_inputs)
    return _compiled(module, list(example_inputs), chosen)


def _check_devices(inputs: Sequence[Any]) -> None:
    for number, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise UnsupportedError(
                f"input {number}: expected a tensor on the CPU, got one on `{value.device}`"
            )


def _compiled(
    module: Any, inputs: list[Any], options: dict[str, Any]
) -> Callable[..., Any]:
    custom: Mapping[str, Custom] | None = options.pop("custom_convert_map", None)
    frozen = _weights(inputs) if options.pop("freeze", False) else {}

    def build(graph: Any, given: Sequence[Any]) -> Callable[..., Any]:
        # Torch may leave out inputs that are there twice; then numbers say nothing.
        kept = frozen if len(given) == len(inputs) else {}
        changed = _changed_inputs() if kept else set()
        kept = {n: value for n, value in kept.items() if n not in changed}
        return _Graph.of(graph, kept, custom, options)

    split = aot_autograd(
        fw_compiler=build,
        inference_compiler=build,
        decompositions=dict(decompositions(custom)),
    )
    with torch.no_grad():
        plain = split(module, inputs)
    wants_gradients = torch.is_grad_enabled() and any(
        isinstance(i, torch.Tensor) and i.requires_grad for i in inputs
    )
    return _guarded(plain) if wants_gradients else plain


def _weights(inputs: Sequence[Any]) -> dict[int, Any]:
    """The inputs that are parameters or buffers, by number."""
    return {
        number: value.detach()
        for number, value in enumerate(inputs)
        if isinstance(value, torch.nn.Parameter)
        or getattr(value, "_dynamo_static_input_type", None) is not None
    }


def _changed_inputs() -> set[int]:
    """The inputs of the graph being compiled that a call changes, by number."""
    metadata = torch._guards.TracingContext.get().fw_metadata
    infos = enumerate(metadata.input_info)
    return {number for number, info in infos if info.mutates_data}


class _Inference(torch.autograd.Function):
    """A call whose results refuse to give gradients."""

    @staticmethod
    def forward(ctx: Any, call: Callable[..., Any], *inputs: Any) -> Any:
        """The results."""
        del ctx
        return tuple(call(*inputs))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Refuse.

        Raises:
            UnsupportedError: always.
        """
        del ctx, gradients
        raise UnsupportedError(
            "backend `relax_mlir`: expected inference, got a call of `backward`. Hint: train "
            "without `torch.compile`, or with another backend."
        )


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        return _Inference.apply(call, *inputs)

    return run


@dataclass(frozen=True)
class _Graph:
    """A compiled graph.

    Attributes:
        function: of tensors.
        taken: the numbers of the inputs that it takes.
        symbols: where the value of each size is: the input, and the dimension, or None
            where the input is the size.
        returned: for each result its number among the function's, or what else it is: a
            term of sympy, a number or None.
    """

    function: Callable[..., Any]
    taken: tuple[int, ...]
    symbols: Mapping[Any, tuple[int, int | None]]
    returned: tuple[Any, ...]

    @staticmethod
    def of(
        graph: Any,
        frozen: Mapping[int, Any],
        custom: Mapping[str, Custom] | None,
        options: Mapping[str, Any],
    ) -> Callable[..., Any]:
        """A graph of ATen operators as a function of a list of inputs."""
        module, returned = from_graph(graph, frozen, custom)
        found = iter(range(len(returned)))
        results = tuple(_returned(value, found) for value in returned)
        count = sum(isinstance(r, _Place) for r in results)
        places = [n for n in graph.graph.nodes if n.op == "placeholder"]
        taken = tuple(i for i in range(len(places)) if i not in frozen)
        function = compile(module, **options)["main"] if count else _nothing
        made = _Graph(function, taken, _symbols(places), results)
        return _boxed(made)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it."""
        given = [_argument(inputs[i]) for i in self.taken]
        found = self.function(*given)
        return [self._result(r, found, inputs) for r in self.returned]

    def _result(self, known: Any, found: Any, inputs: Sequence[Any]) -> Any:
        if not isinstance(known, _Place):
            return self._number(known, inputs)
        tensor = torch.from_dlpack(found[known.number])
        if known.strides is None:
            return tensor
        strides = [self._number(s, inputs) for s in known.strides]
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(
            tensor
        )

    def _number(self, known: Any, inputs: Sequence[Any]) -> Any:
        """A term of sympy as a number; what is none stays."""
        if not hasattr(known, "free_symbols"):
            return known
        values = {s: self._size(s, inputs) for s in known.free_symbols}
        return int(known.subs(values))

    def _size(self, symbol: Any, inputs: Sequence[Any]) -> int:
        number, dimension = self.symbols[symbol]
        value = inputs[number]
        return int(value if dimension is None else value.shape[dimension])


@dataclass(frozen=True)
class _Place:
    """A result that is a tensor.

    Attributes:
        number: among the function's.
        strides: that torch counts on when it takes views of the result; None for those of
            row-major order.
    """

    number: int
    strides: tuple[Any, ...] | None


def _returned(value: Any, numbers: Any) -> Any:
    if not isinstance(value, fx.Node):
        return value
    found = value.meta["val"]
    if isinstance(found, torch.SymInt):
        return found.node.expr
    if not isinstance(found, torch.Tensor):
        return found
    if found.is_contiguous():
        return _Place(next(numbers), None)
    strides = (
        s.node.expr if isinstance(s, torch.SymInt) else s for s in found.stride()
    )
    return _Place(next(numbers), tuple(strides))


def _symbols(places: Sequence[Any]) -> dict[Any, tuple[int, int | None]]:
    """Where the value of each size is."""
    found: dict[Any, tuple[int, int | None]] = {}
    for number, node in enumerate(places):
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            found.setdefault(value.node.expr, (number, None))
        elif isinstance(value, torch.Tensor):
            for dimension, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, (number, dimension))
    return found


def _argument(value: Any) -> Any:
    """An input as the function takes it; a size as an array with a dimension of that."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.empty((0, int(value)))


def _nothing(*inputs: Any) -> tuple[()]:
    """What runs where no tensor is returned."""
    del inputs
    return ()


def _boxed(graph: _Graph) -> Callable[..., Any]:
    """The function of a list of inputs that torch takes it for."""

    def run(inputs: list[Any]) -> list[Any]:
        return graph(inputs)

    run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return run


# Installed, the package tells torch of this by an entry point, which torch registers when
# the name is first used. In a source tree nothing does, so the entry stands here as well.
_ENTRY = EntryPoint(
    "relax_mlir", f"{__name__}:relax_mlir_backend", "torch_dynamo_backends"
)
registry._BACKENDS.setdefault("relax_mlir", _ENTRY)
