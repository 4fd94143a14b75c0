"""Backend of ``torch.compile(model, backend="relax_mlir")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd

from relax_mlir.compiler.driver import compile
from relax_mlir.compiler.options import INHERITED
from relax_mlir.errors import RelaxError, UnsupportedError
from relax_mlir.frontends.torch.graph import Custom, boxed
from relax_mlir.frontends.torch.importer import decompositions, from_graph
from relax_mlir.frontends.torch.partition import partitioned
from relax_mlir.support.log import WARNING, log

__all__ = ["relax_mlir_backend"]

_OWN_OPTIONS = ("freeze", "custom_convert_map", "require_full_compilation")


def relax_mlir_backend(
    module: Any,  # Any: torch.fx.GraphModule
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph captured by TorchDynamo.

    Tensors are passed by DLPack, without copies. What has no rule, or is not on the CPU,
    stays in torch: the logger ``relax_mlir.torch`` names it, once for each graph. Where
    gradients may be requested, forward and backward graphs are compiled.

    Args:
        module: the graph.
        example_inputs: the inputs of the first call.
        options: ``target``, which is a CPU, ``precision``, ``winograd``, ``checks``,
            ``threads``, ``cache`` and ``tuning`` as for :func:`relax_mlir.compile`;
            ``custom_convert_map`` as for :func:`from_exported`; ``freeze`` makes weights
            constants, which are folded and prepacked: for models whose weights do not
            change any more, and which have no gradients; ``require_full_compilation`` makes
            it an error if an operator has no rule.
        mode: only None or ``default``; an argument of ``torch.compile``.

    Raises:
        UnsupportedError: of ``require_full_compilation``: an operator has no rule, or a
            tensor is not on the CPU.
        ValueError: an option is unknown.
    """
    chosen = dict(options or {})
    if mode not in (None, "default"):
        raise ValueError(f"mode: expected None or `default`, got `{mode}`")
    known = {*INHERITED, *_OWN_OPTIONS}
    unknown = sorted(set(chosen) - known)
    if unknown:
        raise ValueError(
            f"options: expected {', '.join(sorted(known))}, got {', '.join(unknown)}"
        )
    is_strict = chosen.pop("require_full_compilation", False)
    problem = _wrong_device(example_inputs)
    if problem is not None:
        if is_strict:
            raise UnsupportedError(problem)
        log(
            WARNING, "torch", "torch.compile: left to torch: a graph, whose %s", problem
        )
        return module.forward
    return _compiled(module, list(example_inputs), chosen, is_strict)


def _wrong_device(inputs: Sequence[Any]) -> str | None:
    """The first input that is not on the CPU, in words."""
    for number, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            return f"input {number}: expected a tensor on the CPU, got one on `{value.device}`"
    return None


def _compiled(
    module: Any, inputs: list[Any], options: dict[str, Any], is_strict: bool
) -> Callable[..., Any]:
    custom: Mapping[str, Custom] | None = options.pop("custom_convert_map", None)
    frozen = _weights(inputs) if options.pop("freeze", False) else {}

    def build(graph: Any, given: Sequence[Any]) -> Callable[..., Any]:
        # Torch may drop duplicate inputs; the indices of weights are then invalid.
        kept = frozen if len(given) == len(inputs) else {}
        mutated = _mutated_inputs() if kept else set()
        kept = {n: value for n, value in kept.items() if n not in mutated}

        def compile_graph(
            part: Any, constants: Mapping[int, Any]
        ) -> Callable[..., Any]:
            return _Graph.of(part, constants, custom, options)

        try:
            return compile_graph(graph, kept)
        except RelaxError:
            if is_strict:
                raise
            return partitioned(graph, kept, custom, compile_graph)

    split = aot_autograd(
        fw_compiler=build,
        bw_compiler=build,
        inference_compiler=build,
        decompositions=dict(decompositions(custom)),
    )
    wants_gradients = torch.is_grad_enabled() and any(
        isinstance(i, torch.Tensor) and i.requires_grad for i in inputs
    )
    if wants_gradients and not frozen:
        return split(module, inputs)
    with torch.no_grad():
        plain = split(module, inputs)
    return _guarded(plain) if wants_gradients else plain


def _weights(inputs: Sequence[Any]) -> dict[int, Any]:
    """The inputs that are parameters or buffers, by index."""
    return {
        number: value.detach()
        for number, value in enumerate(inputs)
        if isinstance(value, torch.nn.Parameter)
        or getattr(value, "_dynamo_static_input_type", None) is not None
    }


def _mutated_inputs() -> set[int]:
    """Indices of the inputs that a call of the graph being compiled mutates."""
    metadata = torch._guards.TracingContext.get().fw_metadata
    infos = enumerate(metadata.input_info)
    return {number for number, info in infos if info.mutates_data}


class _Inference(torch.autograd.Function):
    """A call whose backward pass raises an error."""

    @staticmethod
    def forward(ctx: Any, call: Callable[..., Any], *inputs: Any) -> Any:
        """Run the call."""
        del ctx
        return tuple(call(*inputs))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Reject a backward pass.

        Raises:
            UnsupportedError: always.
        """
        del ctx, gradients
        raise UnsupportedError(
            "backend `relax_mlir`: expected inference, since weights are constants, got a call "
            "of `backward`. Hint: train without the option `freeze`."
        )


def _guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        return _Inference.apply(call, *inputs)

    return run


@dataclass(frozen=True)
class _Graph:
    """A compiled graph.

    Attributes:
        function: the compiled function of tensors.
        taken: indices of the inputs that it takes.
        symbols: the source of each symbolic size: an input's index, and the dimension, or
            None if the input itself is the size.
        returned: the results: a tensor of the function, a sympy expression, a number or
            None each.
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
        """Compile a graph of ATen operators to a function of a list of inputs."""
        module, returned = from_graph(graph, frozen, custom)
        indices = iter(range(len(returned)))
        results = tuple(_returned(value, indices) for value in returned)
        count = sum(isinstance(r, _TensorResult) for r in results)
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        taken = tuple(i for i in range(len(placeholders)) if i not in frozen)
        function = compile(module, **options)["main"] if count else _nothing
        return boxed(_Graph(function, taken, _symbols(placeholders), results))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the graph."""
        given = [_argument(inputs[i]) for i in self.taken]
        found = self.function(*given)
        return [self._result(r, found, inputs) for r in self.returned]

    def _result(self, known: Any, found: Any, inputs: Sequence[Any]) -> Any:
        if not isinstance(known, _TensorResult):
            return self._number(known, inputs)
        tensor = torch.from_dlpack(found[known.index])
        if known.strides is None:
            return tensor
        strides = [self._number(s, inputs) for s in known.strides]
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(
            tensor
        )

    def _number(self, known: Any, inputs: Sequence[Any]) -> Any:
        """A sympy expression evaluated to a number; other values unchanged."""
        if not hasattr(known, "free_symbols"):
            return known
        values = {s: self._size(s, inputs) for s in known.free_symbols}
        return int(known.subs(values))

    def _size(self, symbol: Any, inputs: Sequence[Any]) -> int:
        number, dimension = self.symbols[symbol]
        value = inputs[number]
        return int(value if dimension is None else value.shape[dimension])


@dataclass(frozen=True)
class _TensorResult:
    """A tensor among the results.

    Attributes:
        index: its index among the function's results.
        strides: the strides that torch expects; None for row-major order.
    """

    index: int
    strides: tuple[Any, ...] | None


def _returned(value: Any, indices: Any) -> Any:
    if not isinstance(value, fx.Node):
        return value
    found = value.meta["val"]
    if isinstance(found, torch.SymInt):
        return found.node.expr
    if not isinstance(found, torch.Tensor):
        return found
    if found.is_contiguous():
        return _TensorResult(next(indices), None)
    strides = (
        s.node.expr if isinstance(s, torch.SymInt) else s for s in found.stride()
    )
    return _TensorResult(next(indices), tuple(strides))


def _symbols(placeholders: Sequence[Any]) -> dict[Any, tuple[int, int | None]]:
    """The source of each symbolic size: input and dimension; see :class:`_Graph`."""
    found: dict[Any, tuple[int, int | None]] = {}
    for number, node in enumerate(placeholders):
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            found.setdefault(value.node.expr, (number, None))
        elif isinstance(value, torch.Tensor):
            for dimension, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, (number, dimension))
    return found


def _argument(value: Any) -> Any:
    """An input for the compiled function; a size is passed as the dimension of an array."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.empty((0, int(value)))


def _nothing(*inputs: Any) -> tuple[()]:
    """The function of a graph that returns no tensors."""
    del inputs
    return ()


# An installed package registers the backend by an entry point, which torch loads on first
# use of the name. A source tree has no entry points, so it is registered here, too.
_ENTRY = EntryPoint(
    "relax_mlir", f"{__name__}:relax_mlir_backend", "torch_dynamo_backends"
)
registry._BACKENDS.setdefault("relax_mlir", _ENTRY)
