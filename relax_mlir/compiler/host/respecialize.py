"""Respecialisation of models for calls that violate their compile-time broadcasting.

Import assumes a broadcast pattern of symbolic sizes; a call with a different pattern
compiles the model's source for its sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import onnx

from relax_mlir.compiler.host.build import jit_options
from relax_mlir.compiler.host.subgraph import JITSubgraph
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import IndexOutOfRangeError, RelaxError
from relax_mlir.runtime.host.jit_options import JIT_OPTIONS, JITOptions
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.source_model import RESPECIALIZE, SourceModel

__all__ = ["run"]

_subgraphs: WeakKeyDictionary[SourceModel, tuple[JITSubgraph, JITOptions]] = (
    WeakKeyDictionary()
)


def run(
    source: SourceModel, arrays: Sequence[NDArray], refusal: ValueError
) -> Sequence[Any]:  # Any: arrays
    """Run a model, compiled for the shapes of these inputs.

    Args:
        refusal: raised if the model cannot be compiled for them, since the shapes do not
            broadcast.
    """
    if source not in _subgraphs:
        subgraph = JITSubgraph(onnx.ModelProto.FromString(source.source.model))
        options = replace(
            jit_options(CompileOptions.from_fields(source.options)),
            counters=source.counters,
        )
        _subgraphs[source] = subgraph, options
    subgraph, options = _subgraphs[source]
    token = JIT_OPTIONS.set(options)
    try:
        result = subgraph(arrays)
    except IndexOutOfRangeError:
        raise
    except RelaxError as error:
        raise refusal from error
    finally:
        JIT_OPTIONS.reset(token)
    return result if isinstance(result, list) else [result]


RESPECIALIZE.set(run)
