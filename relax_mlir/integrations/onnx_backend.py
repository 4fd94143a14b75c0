"""ONNX backend interface, as ONNX's test suite uses it.

``prepare(model)`` compiles a model; ``run_model`` and ``run_node`` compile and run. See
:class:`onnx.backend.base.Backend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from relax_mlir.compiler.compile import compile
from relax_mlir.errors import near_misses
from relax_mlir.runtime.ndarray import Device

__all__ = [
    "RelaxBackend",
    "RelaxBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class RelaxBackendRep(BackendRep):
    """A compiled model.

    Args:
        model: the message.
        device: ``CPU`` or ``CUDA``, device 0.
        options: further keyword arguments of :func:`relax_mlir.compile`.

    Raises:
        RelaxError: the model cannot be compiled.
        ValueError: the device is unknown.
    """

    def __init__(
        self, model: onnx.ModelProto, device: str = "CPU", **options: Any
    ) -> None:
        self._outputs = [value.name for value in model.graph.output]
        self._call = compile(model, _device(device).type, **options)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: arrays, or sequences of them, in order.

        Returns:
            A named tuple of its outputs.
        """
        given = [_array(value) for value in inputs]
        return namedtupledict("Outputs", self._outputs)(*self._call(*given))


class RelaxBackend(Backend):
    """ONNX backend for this machine's CPU and its NVIDIA GPU."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is supported and available."""
        try:
            return _device(device).exist
        except ValueError:
            return False

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any
    ) -> RelaxBackendRep:
        """Compile a model.

        Raises:
            RelaxError: the model cannot be compiled.
        """
        return RelaxBackendRep(model, device=device, **kwargs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, in the opset ``opset_version``, by default the newest."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.GraphProto(name=node.op_type, node=[node])
        for name, value in zip(filter(None, node.input), inputs, strict=True):
            array = np.asarray(value)
            element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(
                onnx.helper.make_tensor_value_info(name, element, array.shape)
            )
        graph.output.extend(onnx.ValueInfoProto(name=n) for n in node.output if n)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device, **kwargs).run(inputs)


def _device(name: str) -> Device:
    """A device by its ONNX name.

    Raises:
        ValueError: the device is unknown.
    """
    kind = name.removesuffix(":0")
    if kind not in _KINDS:
        raise ValueError(
            f"device `{name}`: expected {' or '.join(_KINDS)}.{near_misses(name, _KINDS)}"
        )
    return Device(kind.lower())


_KINDS = ("CPU", "CUDA")


def _array(value: Any) -> Any:
    """An input as arrays; lists stay lists."""
    if isinstance(value, (list, tuple)):
        return [_array(part) for part in value]
    return None if value is None else np.asarray(value)


is_compatible = RelaxBackend.is_compatible
prepare = RelaxBackend.prepare
run_model = RelaxBackend.run_model
run_node = RelaxBackend.run_node
supports_device = RelaxBackend.supports_device
