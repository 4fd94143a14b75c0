"""Weights that a front end left beside a function."""

from typing import Any

from relax_mlir.module import IRModule

__all__ = ["detach_params"]


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Take the weights out of a module whose functions name them in an attribute.

    Returns:
        The module without them, and the arrays for the last parameters of each function.
    """
    detached: dict[str, list[Any]] = {}
    made = mod.clone()
    for var, function in mod.functions.items():
        keys = function.attrs.get("params") if function.attrs else None
        if keys is not None:
            detached[var.name_hint] = [made.constants.pop(key) for key in keys]
            made.update_func(var.name_hint, function.without_attr("params"))
    return made, detached
