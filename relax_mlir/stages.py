"""Stages of models: compiled for the values and types that they are called with.

See :mod:`relax_mlir.frontends.onnx.stages` for what becomes a stage. One is compiled for
the sizes of its first call. Where a later call brings others, the sizes that differ
become symbols: equal ones, if they were equal in all calls so far, become the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.compilation import compile
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.stages import CALLEE, CONSTANT, STATIC
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.ndarray import NDArray, shared
from relax_mlir.runtime.registry import register_func

__all__ = ["run_stage"]

_MAX_KINDS = 64  # of values and types for which one stage is kept compiled
_MAX_STAGES = 256


class _Stage:
    """A stage, and what it was compiled to."""

    def __init__(self, model: bytes) -> None:
        self._model = onnx.ModelProto.FromString(model)
        self._names = [value.name for value in self._model.graph.input]
        named = [(p.key, p.value) for p in self._model.metadata_props]
        static = {name for key, name in named if key == STATIC}
        constant = {name for key, name in named if key == CONSTANT}
        self._static = [n for n, name in enumerate(self._names) if name in static]
        self._fixed = [
            n for n, name in enumerate(self._names) if name in constant | static
        ]
        self._open = [n for n in range(len(self._names)) if n not in self._fixed]
        self._kinds: OrderedDict[Any, _Kind] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *args: NDArray) -> Any:
        values = [args[n].numpy() for n in self._static]
        key = (
            tuple((v.shape, v.dtype.str, v.tobytes()) for v in values),
            tuple((args[n].dtype, args[n].ndim) for n in self._open),
        )
        kind = self._kinds.get(key)
        if kind is None:
            fixed = {self._names[n]: args[n].numpy() for n in self._fixed}
            kind = _Kind(self._typed(args), fixed, [self._names[n] for n in self._open])
            with self._lock:
                self._kinds[key] = kind
                if len(self._kinds) > _MAX_KINDS:
                    self._kinds.popitem(last=False)
        return kind([args[n] for n in self._open])

    def _typed(self, args: Sequence[NDArray]) -> onnx.ModelProto:
        """The model with the types of its inputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        for value, arg in zip(model.graph.input, args, strict=True):
            element = helper.np_dtype_to_tensor_dtype(arg.numpy().dtype)
            type_ = helper.make_tensor_type_proto(element, arg.shape)
            value.type.CopyFrom(type_)
        return model


class _Kind:
    """A stage for known values and types: one executable, or several for sizes.

    Args:
        model: the stage, with types.
        fixed: the values of inputs that are known.
        names: of the other inputs.
    """

    def __init__(
        self, model: onnx.ModelProto, fixed: dict[str, np.ndarray], names: list[str]
    ) -> None:
        self._model, self._fixed, self._names = model, fixed, names
        self._known: dict[tuple[tuple[int, ...], ...], Callable[..., Any]] = {}

    def __call__(self, args: Sequence[NDArray]) -> Any:
        sizes = tuple(tuple(arg.shape) for arg in args)
        code = self._known.get(sizes)
        if code is None:
            code = self._known[sizes] = self._compiled(dict(zip(self._names, sizes)))
        return code(args)

    def _compiled(self, sizes: dict[str, tuple[int, ...]]) -> Callable[..., Any]:
        module = import_onnx(self._model, shapes=sizes, values=self._fixed)
        made = compile(module)
        if isinstance(made, Executable):
            one = len(made.output_names) == 1
            run = lambda args: [shared(a) for a in made(*args)]  # noqa: E731
            return (lambda args: run(args)[0]) if one else run
        call = made["main"]
        return lambda args: call(*args)


_stages: OrderedDict[tuple[int, int], tuple[object, _Stage]] = OrderedDict()


@register_func(CALLEE, override=True)
def run_stage(model: NDArray, *args: NDArray) -> Any:
    """Run the stage whose model these bytes are.

    Raises:
        RelaxError: it cannot be compiled for these values and types.
    """
    data = np.asarray(model)
    key = (data.ctypes.data, data.nbytes)
    found = _stages.get(key)
    if found is None:
        found = _stages[key] = model, _Stage(data.tobytes())
        if len(_stages) > _MAX_STAGES:
            _stages.popitem(last=False)
    return found[1](*args)
