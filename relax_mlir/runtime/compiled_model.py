"""What every compiled model is, whatever it runs on.

Imports nothing that compiles: files of models for GPUs carry this module.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from relax_mlir.errors import IndexOutOfRangeError, UnsupportedError
from relax_mlir.runtime.profile import Profile
from relax_mlir.runtime.signature import Signature

if TYPE_CHECKING:
    from relax_mlir.runtime.source_model import SourceModel

__all__ = ["CompiledModel"]


class CompiledModel(ABC):
    """A compiled model: call it with arrays.

    Attributes:
        signature: what it takes and returns.
        threads: how many may work on one call.
        source: the model for calls whose sizes broadcast otherwise than was assumed.
    """

    signature: Signature
    threads: int
    source: "SourceModel | None" = None

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
        """Of code and weights; None if some of the code is made when it runs."""
        return None

    @abstractmethod
    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function ``main``, as code that is compiled to call it does.

        Raises:
            KeyError: another name.
        """

    def __repr__(self) -> str:
        """What it takes and returns."""
        return f"<{type(self).__name__} {self.signature}>"

    @abstractmethod
    def __call__(
        self, *arrays: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[Any, ...]:  # Any: whatever has DLPack
        """Run the model.

        Args:
            *arrays: inputs in order; or by name.
            out: arrays to write the outputs to, instead of new ones.

        Returns:
            The outputs: arrays of numpy; a sequence is a list of them.

        Raises:
            TypeError: a wrong number of inputs, name, element type or device.
            ValueError: a wrong rank or size; the message names input and dimension.
        """

    @abstractmethod
    def profile(self, *arrays: Any, calls: int = 20, **named: Any) -> Profile:
        """Run the model some times, and measure every kernel.

        Args:
            *arrays: inputs in order; or by name.
            calls: how many are measured; one before them is not.

        Raises:
            TypeError, ValueError: as a call does; ``calls`` is no number of calls.
            UnsupportedError: the model is compiled when it runs.
        """

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write code and weights to one file, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """

    def write_to(self, file: BinaryIO) -> None:
        """Write what :meth:`save` writes to an open file, from its position on.

        Raises:
            OSError: it cannot be written.
            UnsupportedError: some of the code is made when the model runs.
        """
        raise UnsupportedError(
            "`main`: expected a model that is machine code as a whole to write to an open "
            "file, got one that is compiled further when it runs"
        )

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
        """Outputs for sizes that the code has refused, by the model's source if it has one.

        Raises:
            ValueError: ``refusal``, where the sizes do not broadcast.
        """
        if self.source is None or isinstance(refusal, IndexOutOfRangeError):
            raise refusal
        made = self.source.results(arrays, refusal)
        if out is None:
            return tuple(made)
        self.source.write(made, out)
        return tuple(out)

    def _check_count(self, out: Sequence[Any]) -> None:
        """Refuse arrays to write to that are not as many as the outputs."""
        count = len(self.signature.outputs)
        if len(out) != count:
            raise TypeError(f"`main`: expected {count} arrays in `out`, got {len(out)}")


def _wrong_names(expected: Sequence[str], got: Sequence[str]) -> str:
    """What is wrong with the names of inputs, those left that did not come by position."""
    listed = ", ".join(f"`{name}`" for name in expected)
    said = f"inputs {listed} by name" if expected else "no more inputs"
    given = ", ".join(f"`{name}`" for name in sorted(got))
    missing = [f"`{name}`" for name in expected if name not in got]
    rest = f"; {', '.join(missing)} missing" if missing else ""
    return f"expected {said}, got {given}{rest}"
