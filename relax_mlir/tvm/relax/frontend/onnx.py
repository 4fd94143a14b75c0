"""ONNX front end: :func:`relax_mlir.import_onnx` with TVM's signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.mlir_attributes import ArrayName

__all__ = ["from_onnx"]


def from_onnx(
    model: Any,  # Any: as import_onnx takes it
    shape_dict: Mapping[str, Sequence[int | str]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Import an ONNX model as a Relax module.

    Args:
        model: as for :func:`relax_mlir.import_onnx`.
        shape_dict: input shapes by input name.
        dtype_dict: element types that override those of the model, by input name.
        opset: opset version of ai.onnx that overrides the imported one.
        keep_params_in_input: make floating-point weights parameters of ``main`` after the
            inputs; :func:`.detach_params` returns their arrays. Other initializers stay
            constants, because the import reads them.
        sanitize_input_names: ignored: names are kept, and the script printer makes valid
            Python identifiers of them.

    Raises:
        ModelError, UnsupportedError: as for :func:`relax_mlir.import_onnx`.
    """
    del sanitize_input_names
    types = dtype_dict if isinstance(dtype_dict, Mapping) else {}
    if not types and opset is None and not keep_params_in_input:
        return import_onnx(model, shapes=shape_dict)
    message = _message(model)
    _set_types(message.graph, types)
    if opset is not None:
        _set_opset(message, opset)
    weights = _move_weights_to_inputs(message.graph) if keep_params_in_input else {}
    module = import_onnx(message, shapes=shape_dict)
    if not keep_params_in_input:
        return module
    attrs = {"num_input": len(message.graph.input) - len(weights)}
    params = [ArrayName(name, array) for name, array in weights.items()]
    main = module["main"].with_attrs({**attrs, "params": params})
    module.update_func("main", main)
    return module


def _message(model: Any) -> onnx.ModelProto:
    """A copy of an in-memory model, or the model in serialized bytes or a file."""
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model)
    return onnx.load(model)


def _set_types(graph: onnx.GraphProto, types: Mapping[str, str]) -> None:
    for value in graph.input:
        if value.name in types:
            dtype = np.dtype(types[value.name])
            value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)


def _set_opset(model: onnx.ModelProto, opset: int) -> None:
    for imported in model.opset_import:
        if imported.domain in ("", "ai.onnx"):
            imported.version = opset


def _move_weights_to_inputs(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Turns floating-point initializers into trailing inputs; returns their arrays."""
    arrays = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    weights = {n: a for n, a in arrays.items() if a.dtype.kind == "f"}
    inputs = [value for value in graph.input if value.name not in arrays]
    rest = [tensor for tensor in graph.initializer if tensor.name not in weights]
    for name, array in weights.items():
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(name, element, array.shape))
    changed = onnx.GraphProto(input=inputs, initializer=rest)
    for field in ("input", "initializer"):
        graph.ClearField(field)
    graph.MergeFrom(changed)
    return weights
