"""The ONNX model behind an imported module, kept for respecialisation."""

from dataclasses import dataclass

__all__ = ["DeclaredInput", "OnnxSource"]


@dataclass(frozen=True)
class DeclaredInput:
    """An input as the model declares it.

    Attributes:
        name: in the model; dtype: its element type.
        shape: its sizes as text, without assumptions about broadcasting.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OnnxSource:
    """A model whose import made assumptions about its symbolic sizes.

    Attributes:
        model: the serialised message, including weights.
        inputs: in order.
    """

    model: bytes
    inputs: tuple[DeclaredInput, ...]
