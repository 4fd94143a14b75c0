"""Models whose sizes broadcast otherwise than was assumed when they were compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import onnx

from relax_mlir.errors import IndexOutOfRangeError, RelaxError
from relax_mlir.relax.vm.stage_options import STAGE_OPTIONS, StageOptions
from relax_mlir.runtime.ndarray import NDArray
from relax_mlir.runtime.source_model import SourceModel
from relax_mlir.stages.stage import Stage

__all__ = ["run"]

_stages: WeakKeyDictionary[SourceModel, Stage] = WeakKeyDictionary()


def run(
    source: SourceModel, arrays: Sequence[NDArray], refusal: ValueError
) -> Sequence[Any]:  # Any: arrays
    """The outputs of a model, which is compiled for the sizes of these inputs.

    Args:
        refusal: raised where the model cannot be compiled for them, as its sizes do not
            broadcast.
    """
    stage = _stages.get(source)
    if stage is None:
        stage = Stage(onnx.ModelProto.FromString(source.source.model))
        _stages[source] = stage
    options = StageOptions.of(source.options)
    token = STAGE_OPTIONS.set(options)
    try:
        made = stage(arrays)
    except IndexOutOfRangeError:
        raise
    except RelaxError as error:
        raise refusal from error
    finally:
        STAGE_OPTIONS.reset(token)
    return made if isinstance(made, list) else [made]
