"""Nodes that run by themselves: what they give is known when it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from relax_mlir.errors import (
    OutOfMemoryError,
    RelaxError,
    RunError,
    UnsupportedError,
)
from relax_mlir.frontends.onnx.report import sentence
from relax_mlir.frontends.onnx.stages import RUN_NODE
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.registry import register_func
from relax_mlir.stages import (
    categories,
    found,
    loops,
    pictures,
    sequences,
    text,
    tokens,
)
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.recent import ByModel
from relax_mlir.stages.stage import is_text

__all__ = ["run_node"]

_RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    **found.RUNNERS,
    **loops.RUNNERS,
    **pictures.RUNNERS,
    **sequences.RUNNERS,
}
_TEXT_RUNNERS = {**categories.RUNNERS, **text.RUNNERS, **tokens.RUNNERS}


@register_func(RUN_NODE, override=True)
def run_node(model: NDArray, *args: Any) -> Any:  # Any: tensors, and sequences
    """Run the only node of the model that these bytes are.

    Raises:
        RelaxError: it cannot be run on these values.
    """
    return _nodes.of(model)(args)


def _prepared(model: onnx.ModelProto) -> Callable[[Sequence[Any]], Any]:
    """What runs a node, given the values that it reads."""
    node = HostNode(model)
    on_text = _TEXT_RUNNERS.get(node.op_type)
    otherwise = _RUNNERS.get(node.op_type, on_text)
    if otherwise is None:
        raise UnsupportedError(f"{node}: it cannot run by itself")

    def call(args: Sequence[Any]) -> Any:
        values = dict(zip(node.names, args, strict=True))
        run = on_text if on_text and any(map(is_text, args)) else otherwise
        try:
            results = run(node, values)
        except MemoryError as error:
            raise OutOfMemoryError(f"{node}: {sentence(error)}") from error
        except RelaxError:
            raise
        except (ValueError, TypeError, NotImplementedError) as error:
            raise RunError(f"{node}: {sentence(error)}") from error
        except Exception as error:  # runners meet whatever stands in a file
            text = f"{type(error).__name__}: {sentence(error)}"
            raise RunError(f"{node}: {text}") from error
        wanted = [results[place] for place in node.wanted]
        return wanted[0] if len(wanted) == 1 else wanted

    return call


_nodes = ByModel(_prepared)
