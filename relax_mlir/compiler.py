"""From a module to machine code: the stages of a target, one after the other."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir import reference
from relax_mlir.context import borrowed_context
from relax_mlir.errors import (
    IRError,
    PassError,
    RelaxError,
    UnsupportedError,
    VerificationError,
    near_misses,
)
from relax_mlir.files import check_path_name
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.launch_plan import main_plan, program_code, unpacked
from relax_mlir.levels import level_of, misplaced, refuse_passed_level, remaining
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.pipeline import Instrument, PassCounter, Pipeline, Progress
from relax_mlir.rewriting import walk
from relax_mlir.runtime import cpu as cpu_runtime
from relax_mlir.runtime import objects
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import Executable, Signature
from relax_mlir.runtime.jit import run_lowered
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.object_cache import ObjectCache, default_cache_dir
from relax_mlir.runtime.process_exit import counted, map_on_threads
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.source_digest import source_digest
from relax_mlir.targets import (
    LEVELS,
    Stage,
    Target,
    TargetError,
    parse_target,
    plain_stages,
    stages,
)
from relax_mlir.tuning_database import TuningDatabase
from relax_mlir.units import CompiledUnit, Unit, kernel_calls, rule_of, split
from relax_mlir.value_check import ValueCheck, fitting_inputs

__all__ = [
    "compile",
    "compile_model",
    "compile_units",
    "level_of",
    "lower",
    "object_cache",
    "remaining",
    "run",
    "run_stage",
    "target_of",
]


def target_of(text: str | Target) -> Target:
    """The target called ``text``, such as ``cpu`` (this machine) or ``cpu:znver3``.

    Raises:
        TargetError: there is none.
    """
    target = parse_target(text, objects.host_cpu)
    if target.kind != "cpu":
        return target
    try:
        objects.check_target(target.triple, target.cpu, target.features, 2)
    except ValueError as error:
        raise TargetError(f"unknown target `{text}`: {error}") from error
    return target


@counted
def lower(
    module: IRModule,
    *,
    target: str | Target = "cpu",
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
    to: str = "llvm",
    instruments: Sequence[Instrument] = (),
) -> IRModule:
    """Take a module down to a level, from whatever level it is at.

    Args:
        precision, library, winograd, checks: as for :func:`relax_mlir.compile`.
        to: ``relax``, ``tir``, ``planned``, ``linalg``, ``loops`` or ``llvm``.
        instruments: who is told of every pass.

    Raises:
        IRError: there is no such level; the target has none, or the module has passed it;
            or an operation is left that has no place at a level that was reached.
        PassError: a pass failed.
    """
    if to not in LEVELS:
        raise IRError(
            f"unknown level `{to}`: expected one of {', '.join(LEVELS)}.{near_misses(to, LEVELS)}"
        )
    pipeline = stages(target_of(target), precision, library, winograd, checks)
    _refuse_unchecked(module, checks)
    refuse_passed_level(module, to, pipeline)
    lowered = module.clone()
    for stage in remaining(lowered, pipeline):
        if list(LEVELS).index(stage.level) > list(LEVELS).index(to):
            break
        run_stage(lowered, stage, instruments)
    return lowered


@counted
def run(module: IRModule, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Run a module from whatever level it is at, in code that LLVM hardly optimises.

    Args:
        *arrays: the inputs of ``main``.

    Raises:
        PassError: it cannot be lowered.
        CompileError: code generation failed.
        TypeError, ValueError: an array does not fit its parameter.
    """
    lowered = lower(module)
    return run_lowered(lowered, _signature(lowered), arrays)


class _PlainRuns:
    """Runs modules on the same inputs with as few passes as there can be.

    A graph runs by the definition of its operators. Two modules of the same text, or that
    lower to the same text, compute the same: only the first of them runs.

    Args:
        inputs: the inputs of ``main``.
    """

    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        self._inputs = inputs
        self._results: dict[object, tuple[np.ndarray, ...]] = {}
        self._constants: dict[int, np.ndarray] = {}  # kept, so that no id comes again

    def __call__(self, module: IRModule) -> tuple[np.ndarray, ...]:
        """What ``main`` returns, from whatever level it is at."""
        return self._once(module, self._run)

    def _run(self, module: IRModule) -> tuple[np.ndarray, ...]:
        if level_of(module) is None:
            try:
                return reference.run(module, *self._inputs)
            except UnsupportedError:  # calls of tensor programs
                pass
        lowered = module.clone()
        for stage in remaining(lowered, plain_stages(target_of("cpu"))):
            run_stage(lowered, stage)
        return self._once(
            lowered, lambda m: run_lowered(m, _signature(m), self._inputs)
        )

    def _once(
        self, module: IRModule, run: Callable[[IRModule], tuple[np.ndarray, ...]]
    ) -> tuple[np.ndarray, ...]:
        arrays = module.constants
        text = hashlib.sha256(str(module).encode()).digest()
        key = text, tuple(sorted((name, id(a)) for name, a in arrays.items()))
        if key not in self._results:
            self._results[key] = run(module)
            self._constants |= {id(a): a for a in arrays.values()}
        return self._results[key]


def _route(module: IRModule) -> list[str]:
    """The passes of ours that :class:`_PlainRuns` takes a module through."""
    reached = level_of(module)
    if reached is None and all(
        op.operation.name not in ("relax.call_tir", "relax.call")
        for op in walk(module.mlir.operation)
    ):
        return []
    rest = remaining(module, plain_stages(target_of("cpu")))
    return [name for s in rest for name in _OUR_PASS.findall(s.pipeline)]


_OUR_PASS = re.compile(r"\b(?:relax|tir|schedule)-[a-z-]+")


def run_stage(
    module: IRModule, stage: Stage, instruments: Sequence[Instrument] = ()
) -> None:
    """Take a module through one stage.

    Raises:
        PassError: a pass failed.
        VerificationError: an operation is left that has no place at its level.
    """
    Pipeline.parse(stage.pipeline).run(module, instruments=instruments)
    allowed = LEVELS[stage.level] | stage.also
    wrong = misplaced(module, allowed)
    if wrong:
        first = wrong[0]
        raise VerificationError(
            f"{first.location}: `{first.operation.name}` is left after the stage "
            f"`{stage.level}`, where only {', '.join(sorted(allowed))} may stand"
        )


@counted
def compile(
    model: "IRModule | str | os.PathLike[str] | bytes",
    *,
    target: str | Target = "cpu",
    threads: int = 1,
    **options: Any,  # Any: those of compile_model
) -> Executable:
    """Compile a model to machine code of a CPU; see :func:`compile_model`.

    Raises:
        UnsupportedError: the target is no CPU.
    """
    machine = target_of(target)
    if machine.kind != "cpu":
        raise UnsupportedError(
            f"target `{target}`: code for a CPU is needed here. Hint: `relax_mlir.compile`"
        )
    made = compile_model(model, target=machine, threads=threads, **options)
    assert isinstance(made, Executable)
    return made


@counted
def compile_model(
    model: "IRModule | str | os.PathLike[str] | bytes",
    *,
    target: str | Target = "cpu",
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
    threads: int = 1,
    cache: bool | str | os.PathLike[str] = True,
    tuning: str | os.PathLike[str] | None = None,
    dump: str | os.PathLike[str] | None = None,
    verify: str | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    progress: Progress | None = None,
) -> Executable | CudaExecutable:
    """Compile a model to machine code.

    Args:
        model: a module, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        target: ``cpu`` for this machine.
        precision, library, winograd, checks: as for :func:`relax_mlir.compile`.
        threads: how many may work on one call; of no meaning on a GPU.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        tuning: the database of :func:`relax_mlir.tune`; its kernels are written as it
            says.
        dump: a folder that gets the module after every stage, numbered.
        verify: ``each-pass`` runs the module after every pass and compares.
        inputs: what to run it on then; random by default.
        progress: is told of every stage, pass by pass, and of every kernel.

    Raises:
        VerificationError: a pass changes what the module computes.
        ModelError: the model cannot be read.
        PassError: a pass failed.
        TuningError: the database is damaged.
        CompileError: code generation failed.
    """
    module = model.clone() if isinstance(model, IRModule) else import_onnx(model)
    database = TuningDatabase.of(module, tuning)
    machine = target_of(target)
    todo = remaining(module, stages(machine, precision, library, winograd, checks))
    _refuse_unchecked(module, checks)
    if verify is not None:
        _verify_passes(module, machine, todo, verify, inputs)
    whole = [s for s in todo if s.level in ("relax", "tir", "planned")]
    for number, stage in enumerate(whole):
        run_stage(module, stage, _counters(stage, progress))
        if dump is not None:
            _dump(module, Path(dump), f"{number}-{stage.level}")
    signature = _signature(module)
    if database is not None:
        database.apply(module, machine)
    units = split(module)
    if machine.kind == "cuda":
        units = [unit for unit in units if unit.programs]  # `main` becomes a plan
    rest = [s for s in todo if s not in whole]
    with _told_of(database):
        built = compile_units(units, rest, machine, object_cache(cache), progress)
    if dump is not None:
        _dump_rest(module, rest, Path(dump), len(whole))
    rules = {n: b.rule for u, b in zip(units, built, strict=True) for n in u.programs}
    kernels = kernel_calls(module, rules)
    if machine.kind == "cuda":
        contents = _contents(module, units, built, signature, machine, kernels)
        return CudaExecutable(contents)
    return Executable(
        [unit.code for unit in built],
        signature,
        module.constants,
        Machine.of(machine.triple, machine.cpu, machine.features),
        threads=threads,
        kernels=kernels,
    )


def _refuse_unchecked(module: IRModule, checks: str) -> None:
    """Refuse to check what no longer says which operators read indices.

    Raises:
        IRError: the module is no graph any more.
    """
    level = level_of(module)
    if checks != "none" and level not in (None, "relax"):
        raise IRError(
            f"checks `{checks}`: expected a graph, got a module at the level `{level}`, "
            "where operators are tensor programs. Hint: compile the graph"
        )


def _contents(
    module: IRModule,
    units: Sequence[Unit],
    built: Sequence[CompiledUnit],
    signature: Signature,
    machine: Target,
    kernels: Sequence[KernelCall],
) -> Contents:
    """A model for a GPU, as its file holds it."""
    read = [unpacked(unit.code) for unit in built]
    programs = [program for program, _ in read]
    constants = {k: np.asarray(module.constants[k]) for k in signature.constants}
    plan, named = main_plan(module, units, programs, kernels)
    without_code = len(plan.programs) - len(programs)
    return Contents(
        (*(ptx for _, ptx in read), *[b""] * without_code),
        plan,
        asdict(signature),
        machine.cpu,
        constants,
        named,
    )


@contextmanager
def _told_of(database: TuningDatabase | None) -> Iterator[None]:
    """Say where a kernel has a configuration from, if that is why a pass fails."""
    try:
        yield
    except PassError as error:
        if database is None or CONFIGURATION not in str(error):
            raise
        raise PassError(
            f"{error}. Hint: `{database.path}` may be older than the rules; tune again."
        ) from error


def _counters(stage: Stage, progress: Progress | None) -> list[Instrument]:
    return [] if progress is None else [PassCounter(stage.level, progress)]


def _verify_passes(
    module: IRModule,
    machine: Target,
    todo: Sequence[Stage],
    verify: str,
    inputs: Sequence[np.ndarray] | None,
) -> None:
    """Take a copy through all passes and compare its values after each."""
    if verify != "each-pass":
        raise RelaxError(f"unknown `verify`: expected `each-pass`, got `{verify}`")
    if machine.kind != "cpu":
        raise UnsupportedError(
            f"`verify`: expected a target that runs here after every pass, got `{machine}`"
        )
    if inputs is None:
        inputs = fitting_inputs(module)
    run = _PlainRuns(inputs)
    check = ValueCheck(run, run(module), _route)
    copy = module.clone()
    for stage in todo:
        run_stage(copy, stage, [check])


def object_cache(cache: bool | str | os.PathLike[str]) -> ObjectCache | None:
    """Where compiled kernels are kept: True is the user's cache folder, False nowhere."""
    if isinstance(cache, (str, os.PathLike)):
        check_path_name(cache)
        return ObjectCache(Path(cache))
    return ObjectCache(default_cache_dir()) if cache else None


def _dump(module: IRModule, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.mlir").write_text(str(module))


def _dump_rest(
    module: IRModule, rest: Sequence[Stage], folder: Path, start: int
) -> None:
    joined = module.clone()
    for number, stage in enumerate(rest, start=start):
        run_stage(joined, stage)
        _dump(joined, folder, f"{number}-{stage.level}")


def _signature(module: IRModule) -> Signature:
    """What a module takes and returns; known from the level ``planned`` on."""
    attributes = module.mlir.operation.attributes
    if "relax.signature" not in attributes:
        raise IRError(
            "module has no signature: expected a function `main` of tensors, or what "
            "`relax-lower-main` makes of it"
        )
    try:
        return Signature.from_fields(json.loads(attributes["relax.signature"].value))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IRError(f"attribute `relax.signature` is damaged: {error}") from error


def compile_units(
    units: Sequence[Unit],
    rest: Sequence[Stage],
    target: Target,
    cache: ObjectCache | None = None,
    progress: Progress | None = None,
) -> list[CompiledUnit]:
    """Compile units on threads.

    Args:
        rest: the stages that they have not been through.
        cache: where objects are kept.
        progress: is told of every kernel.

    Raises:
        PassError: a pass failed.
        CompileError: code generation failed.
    """

    def build(unit: Unit) -> CompiledUnit:
        key = _cache_key(unit, rest, target)
        kept = cache.load(key) if cache else None
        if kept is not None:
            return CompiledUnit.unpacked(kept)
        made = _compile_unit(unit, rest, target)
        if cache:
            cache.store(key, made.packed())
        return made

    found: list[CompiledUnit] = []
    for unit in map_on_threads(build, units, cpu_runtime.get_max_threads()):
        found.append(unit)
        if progress is not None:
            progress("kernels", len(found), len(units))
    return found


def _cache_key(unit: Unit, rest: Sequence[Stage], target: Target) -> str:
    parts = [unit.text, repr(rest), repr(target), target.features, _sources()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _sources() -> str:
    return source_digest(("frontends", "tools"))


def _compile_unit(unit: Unit, rest: Sequence[Stage], target: Target) -> CompiledUnit:
    with borrowed_context() as context:
        return _compile_text(unit.text, rest, target, context)


def _compile_text(
    text: str, rest: Sequence[Stage], target: Target, context: ir.Context
) -> CompiledUnit:
    module = IRModule.parse(text, context=context)
    rule = ""
    for stage in rest:
        rule = rule or rule_of(module)  # from `loops` on, which is never the last
        run_stage(module, stage)
    if target.kind == "cuda":
        return CompiledUnit(program_code(module), rule)
    code = objects.compile_object(
        module.mlir, triple=target.triple, cpu=target.cpu, features=target.features
    )
    return CompiledUnit(code, rule)
