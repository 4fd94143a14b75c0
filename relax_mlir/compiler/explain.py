"""Explanation of schedule rule selection: per kernel, the rule and why others do not apply."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.compiler.driver import lower_to, remaining_stages, run_stage, target_of
from relax_mlir.compiler.host.kernels import kernel_names, with_main
from relax_mlir.compiler.kernel_modules import kernel_calls, split_kernels
from relax_mlir.compiler.levels import level_of
from relax_mlir.compiler.module_kind import ModuleKind, kind_of, module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.compiler.tuning.database import TuningDatabase
from relax_mlir.errors import RelaxError, UnsupportedError, VerificationError
from relax_mlir.frontends.onnx.reading import ModelSource
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.function import BaseFunc
from relax_mlir.passes.schedule.apply import Apply
from relax_mlir.passes.schedule.apply_gpu import ApplyGpu
from relax_mlir.pipeline import Pipeline
from relax_mlir.pipeline.pipeline import OurPass
from relax_mlir.schedules.kernel_view import read_kernel
from relax_mlir.schedules.rule_selection import RejectedRule, SelectedRule
from relax_mlir.targets import Stage, Target, stages

__all__ = [
    "Explanation",
    "KernelExplanation",
    "RuleChoice",
    "explain",
    "lower_to_kernels",
    "rule_choice",
]

_NODES = 4  # listed per kernel


@dataclass(frozen=True)
class RuleChoice:
    """The schedule rule and configuration selected for a kernel.

    Attributes:
        rule: name of the schedule rule.
        configuration: of the rule, as text; empty if the rule has only one.
        configurations: all configurations of the rule, the default first.
        refused: rules of higher priority, with the reasons why they do not apply.
    """

    rule: str
    configuration: str
    configurations: tuple[str, ...]
    refused: tuple[RejectedRule, ...]


@dataclass(frozen=True)
class KernelExplanation:
    """The schedule of one kernel of a model.

    Attributes:
        name: of the PrimFunc.
        choice: the rule and its configuration.
        nodes: names of the ONNX nodes that it computes, if they have names.
        runs: number of launches per call of the model.
    """

    name: str
    choice: RuleChoice
    nodes: tuple[str, ...]
    runs: int

    def __str__(self) -> str:
        """The explanation as a paragraph."""
        runs = f", {self.runs} times" if self.runs > 1 else ""
        choice = self.choice
        count = len(choice.configurations)
        selected = f", of {count} configurations" if count > 1 else ""
        lines = [f"{self.name}{runs}"]
        lines += [f"  nodes: {_listed(self.nodes)}"] if self.nodes else []
        lines.append(f"  written by {choice.configuration or choice.rule}{selected}")
        lines += [f"  not {r.rule}: {r.reason}" for r in choice.refused]
        return "\n".join(lines)


def _listed(nodes: Sequence[str]) -> str:
    more = f" +{len(nodes) - _NODES}" if len(nodes) > _NODES else ""
    return ", ".join(nodes[:_NODES]) + more


@dataclass(frozen=True)
class Explanation:
    """The schedules of the kernels of a model.

    Attributes:
        kernels: in the order in which ``main`` first calls them.
    """

    kernels: tuple[KernelExplanation, ...]

    def __str__(self) -> str:
        """A paragraph for each kernel."""
        return "\n\n".join(map(str, self.kernels))


def explain(
    model: IRModule | BaseFunc | ModelSource,
    *,
    target: str | Target = "cpu",
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
    tuning: str | os.PathLike[str] | None = None,
) -> Explanation:
    """Report the schedule rule of each kernel of a model, and why others do not apply.

    Generates no machine code, so any target is possible.

    Args:
        model: a module, a function, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        target, precision, library, winograd, checks: as for :func:`relax_mlir.compile`.
        tuning: the tuning database, as for :func:`relax_mlir.compile`.

    Raises:
        RelaxError: the model cannot be lowered, or has been scheduled already.
    """
    options = CompileOptions(
        target=target,
        precision=precision,
        library=library,
        winograd=winograd,
        checks=checks,
        tuning=tuning,
    )
    module, machine = module_of(model), target_of(options.target)
    database = TuningDatabase.of(module, options.tuning)
    kernels: list[KernelExplanation] = []
    for lowered in lower_to_kernels(module, options):
        if database is not None:
            database.apply(lowered, machine)
        rest = remaining_stages(lowered, stages(machine, options))
        choices = {
            name: rule_choice(unit.text, rest)
            for unit in split_kernels(lowered)
            for name in unit.programs
        }
        kernels += _kernels(lowered, choices)
    return Explanation(tuple(kernels))


_BELOW_KERNELS = ("linalg", "loops", "llvm", "ptx")  # levels


def lower_to_kernels(module: IRModule, options: CompileOptions) -> list[IRModule]:
    """Lower what is compiled to the level ``planned``: ``main`` and the kernels it calls.

    A module of a lower level is returned as it is.

    Returns:
        One module for a model; one for each public function of PrimFuncs alone.

    Raises:
        RelaxError: the model cannot be lowered.
        UnsupportedError: the model is not compiled ahead of time as a whole.
    """
    if level_of(module) in _BELOW_KERNELS:
        return [module.clone()]  # callers reject it
    if kind_of(module) is ModuleKind.KERNELS:
        models = [with_main(module, n, options) for n in kernel_names(module)]
    else:
        models = [module]
    try:
        return [lower_to(model, options, "planned") for model in models]
    except VerificationError as error:
        raise UnsupportedError(
            f"model: expected one that is compiled ahead of time as a whole, got one with "
            f"nodes that are interpreted, or compiled at run time: {error}"
        ) from error


def _kernels(
    module: IRModule, choices: Mapping[str, RuleChoice]
) -> tuple[KernelExplanation, ...]:
    calls = kernel_calls(module, {name: c.rule for name, c in choices.items()})
    names = [call.name for call in calls]
    nodes: dict[str, list[str]] = {name: [] for name in names}
    for call in calls:
        nodes[call.name] += call.nodes
    return tuple(
        KernelExplanation(name, choices[name], tuple(found), names.count(name))
        for name, found in nodes.items()
    )


def rule_choice(text: str, rest: Sequence[Stage]) -> RuleChoice:
    """The schedule rule and configuration selected for a kernel.

    Args:
        text: of the kernel module.
        rest: the remaining stages of the pipeline.

    Raises:
        RelaxError: the kernel has been scheduled already.
        PassError: the kernel requests a rule or configuration that does not exist.
    """
    module = IRModule.parse(text)
    scheduler = None
    for stage in rest:
        passes = (
            e.value
            for e in Pipeline.parse(stage.pipeline).elements
            if isinstance(e, OurPass)
        )
        scheduler = next((p for p in passes if isinstance(p, (Apply, ApplyGpu))), None)
        if scheduler is not None:
            break
        run_stage(module, stage)
    if scheduler is None:
        raise RelaxError(
            "module: its kernels are scheduled already: expected one before "
            "`schedule-apply`"
        )
    (function,) = module.func_ops()
    terminator = list(own_operations(function.entry_block))[-1]
    with ir.InsertionPoint(terminator), function.location:
        return _rule_choice(scheduler.choose(read_kernel(function)))


def _rule_choice(choice: SelectedRule) -> RuleChoice:
    configurations = tuple(map(str, choice.configurations()))
    configuration = getattr(choice.rule, "configuration", None)
    default = configurations[0] if configurations else ""
    return RuleChoice(
        choice.name,
        default if configuration is None else str(configuration),
        configurations,
        choice.refused,
    )
