"""Modules and functions as JSON."""

from __future__ import annotations

import json
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.array_text import read_array, written_array
from relax_mlir.objects.function import BaseFunc

__all__ = ["load_json", "save_json"]

_FORMAT = "relax_mlir.ir"


def save_json(node: Any) -> str:
    """A module or a function as a text, with the arrays that it names.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(node, BaseFunc):
        name = str(node.attrs.get("global_symbol", "main"))
        return _saved(IRModule({name: node}), name)
    if isinstance(node, IRModule):
        return _saved(node, None)
    raise TypeError(
        f"save_json: expected a module or a function, got `{type(node).__name__}`"
    )


def _saved(module: IRModule, function: str | None) -> str:
    arrays = {name: written_array(a) for name, a in module.named_constants().items()}
    content = {"format": _FORMAT, "function": function, "mlir": str(module.mlir)}
    return json.dumps({**content, "constants": arrays}, indent=2)


def load_json(json_str: str) -> Any:
    """The module or the function that :func:`save_json` wrote.

    Raises:
        ValueError: it wrote no such text.
    """
    content = json.loads(json_str)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("load_json: expected a text that `save_json` wrote")
    arrays = {name: read_array(entry) for name, entry in content["constants"].items()}
    module = IRModule.restore(content["mlir"], arrays)
    function = content["function"]
    return module if function is None else module[function]
