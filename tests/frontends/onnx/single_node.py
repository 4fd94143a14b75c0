"""Single-node models for tests of operators in other domains."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSETS = {"": 21, "ai.onnx.ml": 3, "com.microsoft": 1, "ai.onnx.preview.training": 1}


def node_model(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int | Sequence[bool] = 1,
    *,
    known: Sequence[int] = (),
    opsets: Mapping[str, int] | None = None,
    **attrs: Any,  # Any: as many types as attributes
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of the node ``domain::Name``, and what to feed it.

    Args:
        operator: its name.
        inputs: None where one is left out.
        outputs: how many, or which of them.
        known: places of inputs that are initializers.
        opsets: versions that differ from the usual ones.
        **attrs: of the node.
    """
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    names = [f"i{n}" if x is not None else "" for n, x in enumerate(inputs)]
    made = [f"o{n}" if is_wanted else "" for n, is_wanted in enumerate(wanted)]
    domain, _, name = operator.rpartition("::")
    node = helper.make_node(name, names, made, domain=domain, **attrs)
    arrays = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    weights = [numpy_helper.from_array(arrays.pop(f"i{n}"), f"i{n}") for n in known]
    values = [
        helper.make_tensor_value_info(n, _element(x), x.shape)
        for n, x in arrays.items()
    ]
    results = [onnx.ValueInfoProto(name=n) for n in made if n]
    graph = helper.make_graph([node], "g", values, results, weights)
    versions = {**OPSETS, **(opsets or {})}
    imports = [helper.make_opsetid(*item) for item in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), arrays


def _element(array: np.ndarray) -> int:
    if array.dtype.kind in "OU":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)
