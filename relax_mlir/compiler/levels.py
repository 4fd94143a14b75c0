"""Lowering levels of a module: the level it is at, and the remaining pipeline stages."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import IRError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.passes.relax.normalize import is_script
from relax_mlir.targets import LEVELS, Stage

__all__ = ["illegal_operations", "level_of", "reject_passed_level", "remaining_stages"]


def remaining_stages(module: IRModule, pipeline: Sequence[Stage]) -> list[Stage]:
    """The remaining stages of a pipeline for a module."""
    names = list(LEVELS)
    reached = level_of(module)
    start = 0 if reached is None else names.index(reached) + 1
    rest = [s for s in pipeline if names.index(s.level) >= start]
    if reached == "tir":  # call_tir with sizes that no pass has checked
        return [Stage("tir", "relax-bind-sizes"), *rest]
    return rest


def level_of(module: IRModule) -> str | None:
    """The lowest level that all of a module has reached; None before the first."""
    names = {op.operation.name for op in walk(module.mlir.operation)}
    dialects = {name.split(".")[0] for name in names}
    if "relax" in dialects or _takes_tensors(module):
        is_grouped = any(map(function_attributes.is_primitive, module.func_ops()))
        is_called = "relax.call_tir" in names and not is_grouped
        is_called = is_called and not is_script(module)
        return (
            "tir"
            if is_called and not illegal_operations(module, LEVELS["tir"])
            else None
        )
    if any(n.startswith("tir.") and n not in _LEGAL_AT_ALL_LEVELS for n in names):
        return "planned"
    if "linalg" in dialects:
        return "linalg"
    if "gpu.binary" in names:
        return "ptx"
    if "gpu.module" in names:
        return "llvm"
    if any(map(_is_unscheduled, module.func_ops())):
        return "planned"  # unscheduled loops
    has_casts = "builtin.unrealized_conversion_cast" in names
    return "llvm" if dialects <= {"builtin", "llvm"} and not has_casts else "loops"


# Operations of tir that are legal at all later levels.
_LEGAL_AT_ALL_LEVELS = frozenset(
    {"tir.call_packed", "tir.library_convolution", "tir.library_product"}
)


def _is_unscheduled(function: func.FuncOp) -> bool:
    is_program = function_attributes.is_defined_prim_func(function)
    return is_program and "tir.rule" not in function.attributes


def _takes_tensors(module: IRModule) -> bool:
    """Whether ``main`` still takes tensors, sequences or other values of a graph."""
    types = [
        t for f in module.func_ops() if f.name.value == "main" for t in f.type.inputs
    ]
    return any(
        isinstance(t, ir.RankedTensorType) or str(t).startswith("!relax.")
        for t in types
    )


def illegal_operations(module: IRModule, allowed: frozenset[str]) -> list[ir.OpView]:
    """The operations that are illegal: neither they nor their dialect are allowed."""
    return [
        op
        for op in walk(module.mlir.operation)
        if op.operation.name not in allowed
        and op.operation.name.split(".")[0] not in allowed
    ]


def reject_passed_level(module: IRModule, to: str, pipeline: Sequence[Stage]) -> None:
    """Reject lowering to a level above the module's own.

    Raises:
        IRError: the module is below the level, or the pipeline does not have it.
    """
    targets = [stage for stage in pipeline if stage.level == to]
    if not targets:
        known = ", ".join(f"`{stage.level}`" for stage in pipeline)
        raise IRError(f"lower: expected a level of the target ({known}), got `{to}`")
    reached = level_of(module)
    if reached is not None and _has_passed(module, reached, targets[0]):
        names = list(LEVELS)
        below = ", ".join(f"`{n}`" for n in names[names.index(reached) :])
        raise IRError(
            f"lower: the module is at level `{reached}`: expected `to` to be one of "
            f"{below}, got `{to}`, which it has passed. Hint: lower the original module."
        )


def _has_passed(module: IRModule, reached: str, stage: Stage) -> bool:
    """Whether a module is below the level of a stage.

    A module without kernels may be at several levels.
    """
    names = list(LEVELS)
    if names.index(reached) <= names.index(stage.level):
        return False
    if reached in ("tir", "llvm", "ptx"):
        return True
    if illegal_operations(module, LEVELS[stage.level] | stage.also):
        return True
    functions = list(module.func_ops())
    is_scheduled = any("tir.rule" in f.attributes for f in functions)
    if stage.level not in ("relax", "tir"):
        return is_scheduled and stage.level != "loops"
    graphs = [f for f in functions if not function_attributes.is_prim_func(f)]
    is_planned = any(f.name.value == "main" for f in graphs)
    return is_scheduled or (is_planned and not _takes_tensors(module))
