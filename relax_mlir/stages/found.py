"""Operators that give as many elements as they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.runtime.registry import get_global_func
from relax_mlir.stages.host_node import HostNode

__all__ = ["RUNNERS"]


def nonzero(node: HostNode, values: Mapping[str, Any]) -> Sequence[Any]:
    """The places of elements that are not 0.

    Source: ONNX NonZero-13.
    """
    return [get_global_func("relax_mlir.nonzero")(node.value(values, 0))]


RUNNERS: Mapping[str, Callable[[HostNode, Mapping[str, Any]], Sequence[Any]]] = {
    "NonZero": nonzero,
}
