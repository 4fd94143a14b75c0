"""Host interpreter of single nodes, whose output types are known only at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from relax_mlir.compiler.host import (
    category_ops,
    data_dependent_ops,
    image_decode,
    loops,
    sequences,
    tokenizer,
)
from relax_mlir.compiler.host import (
    string_ops as text,
)
from relax_mlir.compiler.host.lru_cache import PerModelCache
from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.compiler.host.subgraph import is_text
from relax_mlir.errors import (
    OutOfMemoryError,
    RelaxError,
    RunError,
    UnsupportedError,
)
from relax_mlir.frontends.onnx.report import error_sentence
from relax_mlir.frontends.onnx.stages import RUN_NODE
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.registry import register_func

__all__ = ["run_node"]

_RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    **data_dependent_ops.RUNNERS,
    **loops.RUNNERS,
    **image_decode.RUNNERS,
    **sequences.RUNNERS,
}
_TEXT_RUNNERS = {**category_ops.RUNNERS, **text.RUNNERS, **tokenizer.RUNNERS}


@register_func(RUN_NODE, override=True)
def run_node(model: NDArray, *args: Any) -> Any:  # Any: tensors, and sequences
    """Run the node of a serialised single-node model.

    Raises:
        RelaxError: the node cannot run on these values.
    """
    return _nodes.of(model)(args)


def _prepare(model: onnx.ModelProto) -> Callable[[Sequence[Any]], Any]:
    """The implementation of a node, as a function of the values that it reads."""
    node = HostNode(model)
    text_runner = _TEXT_RUNNERS.get(node.op_type)
    runner = _RUNNERS.get(node.op_type, text_runner)
    if runner is None:
        raise UnsupportedError(f"{node}: the host interpreter does not support it")

    def call(args: Sequence[Any]) -> Any:
        values = dict(zip(node.names, args, strict=True))
        run = text_runner if text_runner and any(map(is_text, args)) else runner
        try:
            results = run(node, values)
        except MemoryError as error:
            raise OutOfMemoryError(f"{node}: {error_sentence(error)}") from error
        except RelaxError:
            raise
        except (ValueError, TypeError, NotImplementedError) as error:
            raise RunError(f"{node}: {error_sentence(error)}") from error
        except Exception as error:  # attributes of a file may have any value
            text = f"{type(error).__name__}: {error_sentence(error)}"
            raise RunError(f"{node}: {text}") from error
        wanted = [results[index] for index in node.wanted]
        return wanted[0] if len(wanted) == 1 else wanted

    return call


_nodes = PerModelCache(_prepare)
