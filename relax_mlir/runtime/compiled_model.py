"""Interface of compiled models on all devices.

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.jit_statistics import JITStatistics
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.serializable import Serializable
from relax_mlir.runtime.signature import Parameter, Signature

if TYPE_CHECKING:
    from relax_mlir.runtime.source_model import SourceModel

__all__ = ["CompiledModel"]


class CompiledModel(Serializable):
    """A compiled model; call it with arrays.

    Attributes:
        signature: of ``main``.
        threads: maximum number of threads per call.
        source: the ONNX model, to respecialise for calls that violate the assumed
            broadcasting; None if not needed.
    """

    signature: Signature
    threads: int
    source: SourceModel | None = None

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(p.name for p in self.signature.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(p.name for p in self.signature.outputs)

    @property
    def size_bytes(self) -> int | None:
        """Size of code and weights; None if subgraphs are JIT-compiled."""
        return None

    @abstractmethod
    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main`` by name, as compiled callers obtain it.

        Raises:
            KeyError: the name is not ``main``.
        """

    def __repr__(self) -> str:
        """The signature."""
        return f"<{type(self).__name__} {self.signature}>"

    @abstractmethod
    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[Any, ...]:  # Any: DLPack arrays
        """Run the model.

        Args:
            *arrays: inputs in order; or by name, or a dictionary of them. DLPack arrays,
                or Python numbers and lists of them, of the input's element type.
            out: arrays to write the outputs to, instead of new ones.

        Returns:
            The outputs as numpy arrays; a sequence is a list of arrays.

        Raises:
            TypeError: the number, name, element type or device of an input is wrong.
            ValueError: a rank or size is wrong; the message names input and dimension.
        """

    @abstractmethod
    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        """Measure every kernel over several calls.

        Args:
            *arrays: inputs in order; or by name.
            calls: number of measured calls, after one warm-up call.

        Raises:
            TypeError, ValueError: as for a call; or ``calls`` is not positive.
            UnsupportedError: subgraphs of the model are JIT-compiled.
        """

    def statistics(self) -> JITStatistics:
        """What the model has compiled while it ran: nothing, if it is compiled as a whole."""
        return (
            JITStatistics() if self.source is None else self.source.counters.statistics
        )

    def warm_up(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, Any] | None = None,  # Any: DLPack arrays
    ) -> None:
        """Run the model once, so that later calls with such inputs wait for nothing.

        It compiles what is compiled at run time, allocates memory and starts threads.

        Args:
            shapes: of inputs with open sizes, by name.
            values: of inputs whose values matter, such as those that decide on what is
                computed; zeros by default.

        Raises:
            ValueError: a shape is missing; or it, or a value, does not fit.
            TypeError: there is no such input.
        """
        given = {**(shapes or {}), **(values or {})}
        unknown = [name for name in given if name not in self.input_names]
        if unknown:
            raise TypeError(f"warm_up: {_wrong_names(self.input_names, list(given))}")
        inputs: list[Any] = []
        for parameter in self.signature.inputs:
            name = parameter.name
            if values is not None and name in values:
                inputs.append(values[name])
                continue
            shape = (shapes or {}).get(name, parameter.shape)
            if not parameter.dtype or not all(isinstance(n, int) for n in shape):
                raise ValueError(
                    f"warm_up: input `{name}`: expected a shape or a value, since its type is "
                    f"{parameter}. Hint: `warm_up(shapes={{{name!r}: ...}})`"
                )
            inputs.append(
                np.zeros([int(n) for n in shape], element_type(parameter.dtype))
            )
        self(*inputs)

    def _bound(
        self, arrays: tuple[Any, ...], out: Any, named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Any]:  # Any: DLPack arrays
        """The inputs in order, and the arrays for the outputs, of the arguments of a call.

        A dictionary has the inputs by name. Python numbers and lists become arrays of the
        input's element type. If an input is called `out`, the argument of this name is it.
        """
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            twice = sorted(set(arrays[0]).intersection(named))
            if twice:
                raise TypeError(f"`main`: got the input `{twice[0]}` twice")
            arrays, named = (), {**arrays[0], **named}
        if out is not None and "out" in self.input_names[len(arrays) :]:
            named, out = {**named, "out": out}, None
        if named:
            arrays = self._in_order(arrays, named)
        if not _PYTHON.isdisjoint(map(type, arrays)):
            # Too many arrays are rejected where they are counted.
            parameters = self.signature.inputs[: len(arrays)]
            first = map(_as_array, arrays, parameters)
            arrays = (*first, *arrays[len(parameters) :])
        return arrays, out

    def _in_order(
        self, arrays: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        names = self.input_names[len(arrays) :]
        if set(names) != set(named):
            raise TypeError(f"`main`: {_wrong_names(names, list(named))}")
        return (*arrays, *(named[n] for n in names))

    def _broadcast(
        self, arrays: Sequence[Any], out: Sequence[Any] | None, refusal: ValueError
    ) -> tuple[Any, ...]:
        """Respecialise the model for sizes that the code rejected, if its source is known.

        Raises:
            ValueError: ``refusal``, if the sizes do not broadcast.
        """
        if self.source is None or isinstance(refusal, IndexOutOfRangeError):
            raise refusal
        results = self.source.results(arrays, refusal)
        if out is None:
            return tuple(results)
        self.source.write(results, out)
        return tuple(out)

    def _check_count(self, out: Sequence[Any]) -> None:
        """Check the number of arrays in ``out``."""
        count = len(self.signature.outputs)
        if len(out) != count:
            raise TypeError(f"`main`: expected {count} arrays in `out`, got {len(out)}")


_PYTHON = frozenset((bool, float, int, list, tuple))


def _as_array(value: Any, parameter: Parameter) -> Any:  # Any: DLPack arrays
    """A Python number, or a list of them, as an array of the element type of an input.

    Conversions that lose something are left to the check of the call, which refuses them.
    """
    if type(value) not in _PYTHON or not parameter.dtype:
        return value
    array = np.asarray(value)
    is_float = "float" in parameter.dtype
    if array.dtype.kind not in ("biuf" if is_float else "biu"):
        return array
    converted = array.astype(element_type(parameter.dtype))
    return converted if is_float or np.array_equal(converted, array) else array


def _wrong_names(expected: Sequence[str], got: Sequence[str]) -> str:
    """Error text for keyword inputs; ``expected`` are those not passed by position."""
    listed = ", ".join(f"`{name}`" for name in expected)
    wanted = f"inputs {listed} by name" if expected else "no more inputs"
    passed = ", ".join(f"`{name}`" for name in sorted(got))
    missing = [f"`{name}`" for name in expected if name not in got]
    rest = f"; {', '.join(missing)} missing" if missing else ""
    return f"expected {wanted}, got {passed}{rest}"
