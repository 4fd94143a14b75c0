"""Arrays and attributes as scripts spell them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relax_mlir.objects.array_text import written_array
from relax_mlir.objects.prim import PrimExpr

__all__ = ["Metadata", "attribute_text", "scalar_text"]


class Metadata:
    """Arrays that a script refers to by number."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def reference(self, array: np.ndarray) -> str:
        """What stands for an array in the script."""
        numbers = (n for n, known in enumerate(self._arrays) if known is array)
        number = next(numbers, len(self._arrays))
        if number == len(self._arrays):
            self._arrays.append(array)
        return f'metadata["relax.expr.Constant"][{number}]'

    def lines(self) -> list[str]:
        """The statement that holds the arrays."""
        entries = [written_array(array) for array in self._arrays]
        text = json.dumps({"relax.expr.Constant": entries}, indent=2)
        return f'metadata = I.load_metadata("""{text}""")'.split("\n")


def scalar_text(value: Any) -> str:
    """A number of numpy's, as short as still tells it from its neighbours."""
    number = value[()] if isinstance(value, np.ndarray) else value
    if number.dtype.kind == "b":
        return str(bool(number))
    if number.dtype.kind in "iu":
        return str(int(number))
    if not math.isfinite(float(number)):
        return f'float("{float(number)}")'
    text = str(number)
    return text if any(c in text for c in ".e") else f"{text}.0"


def attribute_text(value: Any, term: Callable[[PrimExpr], str]) -> str:
    """An attribute as Python.

    Args:
        value: numbers, strings, and lists and dictionaries of them.
        term: spells a scalar.
    """
    if isinstance(value, Mapping):
        items = (
            f"{json.dumps(str(k))}: {attribute_text(v, term)}" for k, v in value.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(attribute_text(v, term) for v in value)}]"
    if isinstance(value, PrimExpr):
        return term(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)
