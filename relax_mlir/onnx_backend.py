"""The compiler as ONNX's test suite, and others who test runtimes, call one.

``prepare(model)`` compiles a model, ``run_model`` and ``run_node`` run one at once; see
:class:`onnx.backend.base.Backend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from relax_mlir.compilation import compile
from relax_mlir.errors import near_misses
from relax_mlir.frontends.onnx import import_onnx
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
    """A model that was compiled.

    Args:
        model: the message.
        threads: how many may work on one call.
        device: ``CPU`` or ``CUDA``, the first of each.

    Raises:
        RelaxError: it cannot be compiled.
        ValueError: there is no such device.
    """

    def __init__(
        self, model: onnx.ModelProto, threads: int = 1, device: str = "CPU"
    ) -> None:
        self._outputs = [value.name for value in model.graph.output]
        where = _device(device)
        self._call = compile(import_onnx(model), target=where.type, threads=threads)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run it.

        Args:
            inputs: arrays, or sequences of them, in order.

        Returns:
            Its outputs by name and in order.
        """
        given = [_array(value) for value in inputs]
        return namedtupledict("Outputs", self._outputs)(*self._call(*given))


class RelaxBackend(Backend):
    """Compiles for this machine's CPU, or for its GPU of NVIDIA."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can be compiled for a device, and run there."""
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
            RelaxError: it cannot be compiled.
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
        """Run one node, of the opset ``opset_version`` or the newest one."""
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
    """A device by ONNX's name.

    Raises:
        ValueError: there is no such device.
    """
    kind = name.removesuffix(":0")
    if kind not in _KINDS:
        raise ValueError(
            f"device `{name}`: expected {' or '.join(_KINDS)}.{near_misses(name, _KINDS)}"
        )
    return Device(kind.lower())


_KINDS = ("CPU", "CUDA")


def _array(value: Any) -> Any:
    """An input: lists stay lists, numbers become arrays."""
    if isinstance(value, (list, tuple)):
        return [_array(part) for part in value]
    return None if value is None else np.asarray(value)


is_compatible = RelaxBackend.is_compatible
prepare = RelaxBackend.prepare
run_model = RelaxBackend.run_model
run_node = RelaxBackend.run_node
supports_device = RelaxBackend.supports_device
