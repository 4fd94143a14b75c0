"""Printing of constants and attributes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relax_mlir.objects.array_text import encode_array
from relax_mlir.objects.prim import PrimExpr

__all__ = ["Metadata", "attribute_text", "scalar_text"]


class Metadata:
    """The constants of a script, which refers to them by number."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def reference(self, array: np.ndarray) -> str:
        """Returns the expression by which the script refers to an array."""
        numbers = (n for n, stored in enumerate(self._arrays) if stored is array)
        number = next(numbers, len(self._arrays))
        if number == len(self._arrays):
            self._arrays.append(array)
        return f'metadata["relax.expr.Constant"][{number}]'

    def lines(self) -> list[str]:
        """Prints the statement that defines the constants."""
        entries = [encode_array(array) for array in self._arrays]
        text = json.dumps({"relax.expr.Constant": entries}, indent=2)
        return f'metadata = I.load_metadata("""{text}""")'.split("\n")


def scalar_text(value: Any) -> str:
    """Prints a NumPy scalar as the shortest text that round-trips."""
    number = value[()] if isinstance(value, np.ndarray) else value
    if number.dtype.kind == "b":
        return str(bool(number))
    if number.dtype.kind in "iu":
        return str(int(number))
    if not math.isfinite(float(number)):
        return f'float("{float(number)}")'
    text = str(number)
    return text if any(c in text for c in ".e") else f"{text}.0"


def attribute_text(value: Any, expr: Callable[[PrimExpr], str]) -> str:
    """Prints an attribute as a Python literal.

    Args:
        value: numbers, strings, and lists and dictionaries of them.
        expr: prints a scalar expression.
    """
    if isinstance(value, Mapping):
        items = (
            f"{json.dumps(str(k))}: {attribute_text(v, expr)}" for k, v in value.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(attribute_text(v, expr) for v in value)}]"
    if isinstance(value, PrimExpr):
        return expr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)
