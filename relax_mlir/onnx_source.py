"""The ONNX model that a module was imported from."""

from dataclasses import dataclass

__all__ = ["DeclaredInput", "OnnxSource"]


@dataclass(frozen=True)
class DeclaredInput:
    """An input as a model declares it.

    Attributes:
        name: what the model calls it; dtype: its element type.
        shape: its sizes as text, of which nothing is assumed.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OnnxSource:
    """A model of which an import has assumed more than it says of its sizes.

    Attributes:
        model: bytes of the message, weights included.
        inputs: in order.
    """

    model: bytes
    inputs: tuple[DeclaredInput, ...]
