"""Sessions, which are compiled models with onnxruntime's interface, and bindings of calls."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from relax_mlir.compiler.compile import compile as compile_model
from relax_mlir.errors import UnsupportedError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.reading import read_model
from relax_mlir.onnxruntime.errors import InvalidArgument, translated, with_status
from relax_mlir.onnxruntime.options import RunOptions, SessionOptions
from relax_mlir.onnxruntime.types import ModelMetadata, NodeArg, node_arg
from relax_mlir.onnxruntime.values import OrtValue, array_at, check_device
from relax_mlir.runtime.cpu import get_max_threads

__all__ = ["PROVIDER", "IOBinding", "InferenceSession"]

PROVIDER = "CPUExecutionProvider"
Feed = Mapping[str, Any]  # Any: arrays, lists of arrays, None


class InferenceSession:
    """A model that is compiled when the session is created.

    Args:
        path_or_bytes: an ONNX file, or its bytes.
        sess_options: options of the session.
        providers: names of execution providers; all but the CPU's are left out.
        provider_options: ignored.
        kwargs: ignored; options of other providers.

    Raises:
        NoSuchFile, InvalidProtobuf, InvalidGraph, NotImplemented, Fail: as onnxruntime
            raises them, with this package's message.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._options = sess_options or SessionOptions()
        self._start_ns = time.monotonic_ns()
        self._feed: Feed | None = None  # of the last call, for the profile
        with translated(running=False):
            proto = read_model(path_or_bytes).proto
            initializers = {tensor.name for tensor in proto.graph.initializer}
            inputs = [v for v in proto.graph.input if v.name not in initializers]
            overridable = [v for v in proto.graph.input if v.name in initializers]
            self._inputs = [_sized(node_arg(v), self._options.sizes) for v in inputs]
            self._outputs = [node_arg(v) for v in proto.graph.output]
            self._overridable = [node_arg(v) for v in overridable]
            self._metadata = _metadata(proto)
            threads = self._options.intra_op_num_threads or get_max_threads()
            self._model = compile_model(self._source(path_or_bytes), threads=threads)

    def _source(self, model: str | os.PathLike[str] | bytes) -> Any:
        """What is compiled: the model, or a module for the sizes that the options give."""
        if not self._options.sizes:
            return model
        shapes = {i.name: [_known(d) for d in i.shape] for i in self._inputs if i.shape}
        return import_onnx(model, shapes=shapes)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Feed,
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model.

        Args:
            output_names: the outputs to return; None or empty for all.
            input_feed: inputs by name: arrays, values, or what becomes an array.
            run_options: ignored.

        Raises:
            ValueError: an input is missing.
            InvalidArgument: an input or output is unknown, or has a wrong type or shape.
            RuntimeException: the call failed.
        """
        known = [output.name for output in self._outputs]
        for name in output_names or ():
            if name not in known:
                raise with_status(InvalidArgument, f"Invalid output name: {name}")
        feed = self._checked(input_feed)
        with translated(running=True):
            results = self._model(*feed)
        if self._options.enable_profiling:
            self._feed = dict(input_feed)
        by_name = dict(zip(known, results, strict=True))
        return [by_name[name] for name in output_names or known]

    def _checked(self, input_feed: Feed) -> list[Any]:
        """The inputs in order."""
        names = [value.name for value in self._inputs]
        optional = {v.name for v in self._inputs if v.type.startswith("optional")}
        missing = [n for n in names if n not in input_feed and n not in optional]
        if missing:
            raise ValueError(
                f"Required inputs ({missing}) are missing from input feed "
                f"({list(input_feed)})."
            )
        unknown = [name for name in input_feed if name not in names]
        if unknown:
            raise with_status(InvalidArgument, f"Invalid input name: {unknown[0]}")
        values = (input_feed.get(name) for name in names)
        return [v.value() if isinstance(v, OrtValue) else v for v in values]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Feed,
        callback: Callable[[list[Any] | None, Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run the model, and call ``callback(results, user_data, error)``; synchronously."""
        try:
            results = self.run(output_names, input_feed, run_options)
        except Exception as error:
            callback(None, user_data, str(error))
            return
        callback(results, user_data, "")

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run the model on values; returns values."""
        return [OrtValue(v) for v in self.run(output_names, input_dict_ort_values)]

    def io_binding(self) -> IOBinding:
        """A new binding of inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run the model on what is bound."""
        iobinding.run()

    def get_inputs(self) -> list[NodeArg]:
        """Descriptions of the inputs."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """Descriptions of the outputs."""
        return self._outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Weights that the graph lists as inputs, too; they cannot be overridden here."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return self._metadata

    def get_session_options(self) -> SessionOptions:
        """The options of the session."""
        return self._options

    def get_providers(self) -> list[str]:
        """The CPU's provider."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None, by provider."""
        return {PROVIDER: {}}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Any = None
    ) -> None:
        """Ignored: the session runs on the CPU."""

    def disable_fallback(self) -> None:
        """Ignored: there is one provider."""

    def enable_fallback(self) -> None:
        """Ignored: there is one provider."""

    def get_profiling_start_time_ns(self) -> int:
        """When the session was created, on the monotonic clock."""
        return self._start_ns

    def end_profiling(self) -> str:
        """Measure the kernels of the last call's inputs, and write a trace for Chrome.

        Returns:
            The file's name; empty if profiling is not enabled, or nothing was called.
        """
        if not self._options.enable_profiling or self._feed is None:
            return ""
        arrays = [np.asarray(a) for a in self._checked(self._feed)]
        try:
            profile = self._model.profile(*arrays, calls=5)
        except UnsupportedError:  # compiled in stages: it has no fixed list of kernels
            return ""
        events: list[dict[str, Any]] = []
        at_us = 0.0
        medians_us = np.median(profile.durations_ns, axis=0) / 1e3
        for kernel, duration_us in zip(profile.kernels, medians_us, strict=True):
            name = "+".join(kernel.nodes) or kernel.name
            args = {"op_name": kernel.name, "rule": kernel.rule}
            event = {"cat": "Node", "ph": "X", "pid": os.getpid(), "tid": 0}
            event |= {
                "name": name,
                "ts": at_us,
                "dur": float(duration_us),
                "args": args,
            }
            events.append(event)
            at_us += float(duration_us)
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = Path(f"{self._options.profile_file_prefix}_{stamp}.json")
        path.write_text(json.dumps(events))
        return str(path)


class IOBinding:
    """Inputs and outputs of a call of a session, by name.

    Args:
        session: the session.
    """

    def __init__(self, session: InferenceSession) -> None:
        self.session = session
        self.inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._found: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Bind an array to an input."""
        self.inputs[name] = OrtValue.ortvalue_from_numpy(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value to an input."""
        self.inputs[name] = ortvalue

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Bind memory at an address, which has to stay valid, to an input."""
        check_device(device_type)
        self.inputs[name] = OrtValue(array_at(buffer_ptr, shape, element_type))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output: to memory at an address, or to a new array at each call."""
        check_device(device_type)
        bound = None
        if buffer_ptr is not None:
            bound = OrtValue(array_at(buffer_ptr, shape or (), element_type))
        self._outputs[name] = bound

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind a value, which is written to, to an output."""
        self._outputs[name] = ortvalue

    def run(self) -> None:
        """Call the session, and write or keep the outputs."""
        names = list(self._outputs)
        feed = {name: value.value() for name, value in self.inputs.items()}
        found = self.session.run(names, feed)
        self._found = []
        for name, array in zip(names, found, strict=True):
            bound = self._outputs[name]
            if bound is None:
                bound = OrtValue(array)
            else:
                bound.update_inplace(array)
            self._found.append(bound)

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last call, in the order of their binding."""
        return list(self._found)

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The arrays of the outputs."""
        return [value.value() for value in self._found]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self.inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: the CPU has one order of memory."""

    def synchronize_outputs(self) -> None:
        """Nothing: a call returns when its outputs are written."""


def _sized(value: NodeArg, sizes: Mapping[str, int]) -> NodeArg:
    """A description with values for symbolic sizes."""
    shape = [sizes.get(d, d) if isinstance(d, str) else d for d in value.shape]
    return NodeArg(value.name, value.type, shape)


def _known(dim: int | str | None) -> int | str:
    if dim is None:
        raise UnsupportedError("free dimension overrides: a size has no name")
    return dim


def _metadata(proto: onnx.ModelProto) -> ModelMetadata:
    return ModelMetadata(
        proto.producer_name,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        proto.model_version,
        {entry.key: entry.value for entry in proto.metadata_props},
    )
