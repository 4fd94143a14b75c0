"""Detaching of the weights that a front end stores in function attributes."""

from typing import Any

import numpy as np

from relax_mlir.errors import short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.mlir_attributes import ArrayName
from relax_mlir.runtime.ndarray import shared

__all__ = ["detach_params"]


def _array(function: GlobalVar, name: Any) -> np.ndarray:  # Any: checked here
    if isinstance(name, ArrayName):
        return name.numpy()
    raise ValueError(
        f"`{function.name_hint}`: attribute `params`: expected arrays, got {short_repr(name)}"
    )


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Remove the weights that functions reference in their ``params`` attribute.

    Returns:
        The module without weights; and for each function the arrays of its trailing
        parameters, by function name.
    """
    detached: dict[str, list[Any]] = {}
    stripped = mod.clone()
    for var, function in mod.functions.items():
        params = function.attrs.get("params") if function.attrs else None
        if params is not None:
            detached[var.name_hint] = [shared(_array(var, name)) for name in params]
            stripped.update_func(var.name_hint, function.without_attr("params"))
            for name in params:
                stripped.constants.pop(str(name), None)
    return stripped, detached
