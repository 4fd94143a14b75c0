"""Weights that a front end left beside a function."""

from typing import Any

import numpy as np

from relax_mlir.errors import shown
from relax_mlir.module import IRModule
from relax_mlir.objects.attributes import ArrayName
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.runtime.ndarray import shared

__all__ = ["detach_params"]


def _array(function: GlobalVar, name: Any) -> np.ndarray:  # Any: checked here
    if isinstance(name, ArrayName):
        return name.numpy()
    raise ValueError(
        f"`{function.name_hint}`: attribute `params`: expected arrays, got {shown(name)}"
    )


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Take the weights out of a module whose functions name them in an attribute.

    Returns:
        The module without them, and the arrays for the last parameters of each function.
    """
    detached: dict[str, list[Any]] = {}
    made = mod.clone()
    for var, function in mod.functions.items():
        params = function.attrs.get("params") if function.attrs else None
        if params is not None:
            detached[var.name_hint] = [shared(_array(var, name)) for name in params]
            made.update_func(var.name_hint, function.without_attr("params"))
            for name in params:
                made.constants.pop(str(name), None)
    return made, detached
