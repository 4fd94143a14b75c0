"""Which schedule rule writes each kernel of a model, how, and why others do not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.compiler import lower, remaining, run_stage, target_of
from relax_mlir.errors import RelaxError, UnsupportedError, VerificationError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.reading import ModelSource
from relax_mlir.levels import level_of
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.apply import Apply
from relax_mlir.passes.schedule.apply_gpu import ApplyGpu
from relax_mlir.pipeline import Pipeline
from relax_mlir.pipeline.pipeline import OurPass
from relax_mlir.schedules.choice import Choice, Refused
from relax_mlir.schedules.nest import read_kernel
from relax_mlir.targets import Stage, Target, stages
from relax_mlir.traversal import own_operations
from relax_mlir.tuning_database import TuningDatabase
from relax_mlir.units import kernel_calls, split

__all__ = [
    "Explanation",
    "KernelExplanation",
    "RuleChoice",
    "explain",
    "rule_choice",
    "to_kernels",
]

_NODES = 4  # that a line shows


@dataclass(frozen=True)
class RuleChoice:
    """How a kernel is written.

    Attributes:
        rule: the schedule rule.
        configuration: how it writes the kernel, as text; empty if there is one way.
        configurations: all ways, its own choice first.
        refused: the rules before it, with their reasons.
    """

    rule: str
    configuration: str
    configurations: tuple[str, ...]
    refused: tuple[Refused, ...]


@dataclass(frozen=True)
class KernelExplanation:
    """How a kernel of a model is written.

    Attributes:
        name: of the tensor program.
        choice: the rule and its configuration.
        nodes: of the model that it computes, as far as they are known by name.
        runs: how often a call of the model runs it.
    """

    name: str
    choice: RuleChoice
    nodes: tuple[str, ...]
    runs: int

    def __str__(self) -> str:
        """A paragraph."""
        runs = f", {self.runs} times" if self.runs > 1 else ""
        choice = self.choice
        count = len(choice.configurations)
        ways = f", of {count} configurations" if count > 1 else ""
        lines = [f"{self.name}{runs}"]
        lines += [f"  nodes: {_listed(self.nodes)}"] if self.nodes else []
        lines.append(f"  written by {choice.configuration or choice.rule}{ways}")
        lines += [f"  not {r.rule}: {r.reason}" for r in choice.refused]
        return "\n".join(lines)


def _listed(nodes: Sequence[str]) -> str:
    more = f" +{len(nodes) - _NODES}" if len(nodes) > _NODES else ""
    return ", ".join(nodes[:_NODES]) + more


@dataclass(frozen=True)
class Explanation:
    """How the kernels of a model are written.

    Attributes:
        kernels: in the order in which ``main`` first calls them.
    """

    kernels: tuple[KernelExplanation, ...]

    def __str__(self) -> str:
        """A paragraph for each kernel."""
        return "\n\n".join(map(str, self.kernels))


def explain(
    model: IRModule | ModelSource,
    *,
    target: str | Target = "cpu",
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
    tuning: str | os.PathLike[str] | None = None,
) -> Explanation:
    """Tell which schedule rule writes each kernel of a model, and why others do not.

    Nothing is compiled to machine code, so the target may be any.

    Args:
        model: a module, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        target, precision, library, winograd, checks: as for :func:`relax_mlir.compile`.
        tuning: the database that it would be compiled with.

    Raises:
        RelaxError: the model cannot be lowered, or has been scheduled already.
    """
    module = model if isinstance(model, IRModule) else import_onnx(model)
    machine = target_of(target)
    database = TuningDatabase.of(module, tuning)
    lowered = to_kernels(module, machine, precision, winograd, checks)
    if database is not None:
        database.apply(lowered, machine)
    rest = remaining(lowered, stages(machine, precision, library, winograd, checks))
    choices = {
        name: rule_choice(unit.text, rest)
        for unit in split(lowered)
        if unit.programs
        for name in unit.programs
    }
    return Explanation(_kernels(lowered, choices))


_BELOW_KERNELS = ("linalg", "loops", "llvm", "ptx")  # levels


def to_kernels(
    module: IRModule,
    target: Target,
    precision: str,
    winograd: str = "auto",
    checks: str = "none",
) -> IRModule:
    """A model as ``main`` and the kernels that it calls; one that is lower as it is.

    Raises:
        RelaxError: it cannot be lowered.
        UnsupportedError: it is not all machine code.
    """
    if level_of(module) in _BELOW_KERNELS:
        return module.clone()  # whoever needs its kernels refuses it
    try:
        return lower(
            module,
            target=target,
            precision=precision,
            winograd=winograd,
            checks=checks,
            to="planned",
        )
    except VerificationError as error:
        raise UnsupportedError(
            f"model: expected one that is machine code as a whole, got one of which parts "
            f"run in Python or are compiled when it runs: {error}"
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
    """How a kernel is written.

    Args:
        text: of a module that is the kernel.
        rest: the stages that it has not been through.

    Raises:
        RelaxError: it has been scheduled already.
        PassError: it asks for what there is not.
    """
    module = IRModule.parse(text)
    scheduler = None
    for stage in rest:
        found = (
            e.value
            for e in Pipeline.parse(stage.pipeline).elements
            if isinstance(e, OurPass)
        )
        scheduler = next((p for p in found if isinstance(p, (Apply, ApplyGpu))), None)
        if scheduler is not None:
            break
        run_stage(module, stage)
    if scheduler is None:
        raise RelaxError(
            "module: its kernels have loops already: expected one that has not been "
            "through `schedule-apply`"
        )
    (function,) = module.func_ops()
    terminator = list(own_operations(function.entry_block))[-1]
    with ir.InsertionPoint(terminator), function.location:
        return _told(scheduler.choose(read_kernel(function)))


def _told(choice: Choice) -> RuleChoice:
    configurations = tuple(map(str, choice.configurations()))
    made = getattr(choice.rule, "configuration", None)
    default = configurations[0] if configurations else ""
    return RuleChoice(
        choice.name,
        default if made is None else str(made),
        configurations,
        choice.refused,
    )
