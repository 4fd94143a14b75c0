"""Compilation driver: lowers a module through a target's pipeline to machine code."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.codegen import object_code
from relax_mlir.codegen.jit import run_lowered
from relax_mlir.codegen.object_cache import ObjectCache, default_cache_dir
from relax_mlir.codegen.target_machines import machine_of
from relax_mlir.compiler import reference
from relax_mlir.compiler.differential_check import (
    DifferentialCheck,
    inputs_of_valid_sizes,
)
from relax_mlir.compiler.kernel_modules import (
    CompilationUnit,
    CompiledUnit,
    called_functions,
    kernel_calls,
    schedule_rule_of,
    split_kernels,
)
from relax_mlir.compiler.launch_plan import main_plan, serialize_program, unpack_program
from relax_mlir.compiler.levels import (
    illegal_operations,
    level_of,
    reject_passed_level,
    remaining_stages,
)
from relax_mlir.compiler.module_kind import module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.compiler.source_digest import source_digest
from relax_mlir.compiler.tuning.database import TuningDatabase
from relax_mlir.errors import (
    IRError,
    PassError,
    UnsupportedError,
    VerificationError,
    near_misses,
)
from relax_mlir.ir.context import borrowed_context
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.pipeline import Instrument, PassCounter, Pipeline, Progress
from relax_mlir.runtime import archive as cpu_archive
from relax_mlir.runtime import cpu as cpu_runtime
from relax_mlir.runtime.cuda import archive as cuda_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import SYMBOLS, Executable, Signature
from relax_mlir.runtime.process_exit import awaited_at_exit, map_on_threads
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.support.files import check_path_name
from relax_mlir.targets import (
    LEVELS,
    Stage,
    Target,
    TargetError,
    parse_target,
    stages,
)
from relax_mlir.targets.cpu import plain_stages

__all__ = [
    "compile",
    "compile_contents",
    "compile_model",
    "compile_units",
    "level_of",
    "lower",
    "lower_to",
    "object_cache",
    "remaining_stages",
    "run",
    "run_stage",
    "target_of",
]


def target_of(text: str | Target) -> Target:
    """The target called ``text``, such as ``cpu`` (this machine) or ``cpu:znver3``.

    Raises:
        TargetError: the target is unknown.
    """
    target = parse_target(text, object_code.host_cpu)
    if target.device != "cpu":
        return target
    try:
        object_code.check_target(target.triple, target.cpu, target.features, 2)
    except ValueError as error:
        raise TargetError(f"unknown target `{text}`: {error}") from error
    return target


@awaited_at_exit
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
    """Lower a module to a level, from its current one.

    Args:
        precision, library, winograd, checks: as for :func:`relax_mlir.compile`.
        to: ``relax``, ``tir``, ``planned``, ``linalg``, ``loops`` or ``llvm``.
        instruments: pass instrumentation.

    Raises:
        IRError: the level is unknown, or not one of the target; the module is below it;
            or an operation remains that is illegal at a level that was reached.
        PassError: a pass failed.
    """
    if to not in LEVELS:
        raise IRError(
            f"unknown level `{to}`: expected one of {', '.join(LEVELS)}.{near_misses(to, LEVELS)}"
        )
    options = CompileOptions(
        target=target,
        precision=precision,
        library=library,
        winograd=winograd,
        checks=checks,
    )
    return lower_to(module, options, to, instruments)


def lower_to(
    module: IRModule,
    options: CompileOptions,
    to: str,
    instruments: Sequence[Instrument] = (),
) -> IRModule:
    """Lower a module to a level; see :func:`lower`."""
    pipeline = stages(target_of(options.target), options)
    _reject_late_checks(module, options.checks)
    reject_passed_level(module, to, pipeline)
    lowered = module.clone()
    for stage in remaining_stages(lowered, pipeline):
        if list(LEVELS).index(stage.level) > list(LEVELS).index(to):
            break
        run_stage(lowered, stage, instruments, verify_each=bool(instruments))
    return lowered


@awaited_at_exit
def run(module: IRModule, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Run a module of any level, compiled with few LLVM optimisations.

    Args:
        *arrays: the inputs of ``main``.

    Raises:
        PassError: the module cannot be lowered.
        CompileError: code generation failed.
        TypeError, ValueError: an array does not fit its parameter.
    """
    lowered = lower(module)
    return run_lowered(lowered, _signature(lowered), arrays)


class _MemoizedRunner:
    """Runs modules of any level on fixed inputs, with as few lowering passes as possible.

    A graph is interpreted by the numpy reference of its operators. Results are memoised by
    the text of the module, and of the lowered module.

    Args:
        inputs: the inputs of ``main``.
    """

    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        self._inputs = inputs
        self._results: dict[object, tuple[np.ndarray, ...]] = {}
        self._constants: dict[int, np.ndarray] = {}  # kept alive: ids are not reused

    def __call__(self, module: IRModule) -> tuple[np.ndarray, ...]:
        """The outputs of ``main`` of a module of any level."""
        return self._memoized(module, self._run)

    def _run(self, module: IRModule) -> tuple[np.ndarray, ...]:
        if level_of(module) is None:
            try:
                return reference.run(module, *self._inputs)
            except UnsupportedError:  # call_tir has no numpy reference
                pass
        lowered = module.clone()
        for stage in remaining_stages(lowered, plain_stages(target_of("cpu"))):
            run_stage(lowered, stage)
        return self._memoized(
            lowered, lambda m: run_lowered(m, _signature(m), self._inputs)
        )

    def _memoized(
        self, module: IRModule, run: Callable[[IRModule], tuple[np.ndarray, ...]]
    ) -> tuple[np.ndarray, ...]:
        arrays = module.constants
        text = hashlib.sha256(str(module).encode()).digest()
        key = text, tuple(sorted((name, id(a)) for name, a in arrays.items()))
        if key not in self._results:
            self._results[key] = run(module)
            self._constants |= {id(a): a for a in arrays.values()}
        return self._results[key]


def _lowering_passes(module: IRModule) -> list[str]:
    """The project's own passes that :class:`_MemoizedRunner` applies to a module."""
    reached = level_of(module)
    if reached is None and all(
        op.operation.name not in ("relax.call_tir", "relax.call")
        for op in walk(module.mlir.operation)
    ):
        return []
    rest = remaining_stages(module, plain_stages(target_of("cpu")))
    return [name for s in rest for name in _OUR_PASS.findall(s.pipeline)]


_OUR_PASS = re.compile(r"\b(?:relax|tir|schedule)-[a-z-]+")


def run_stage(
    module: IRModule,
    stage: Stage,
    instruments: Sequence[Instrument] = (),
    *,
    verify_each: bool = False,
) -> None:
    """Run the passes of one pipeline stage, and verify that its level is reached.

    Args:
        verify_each: as for :meth:`relax_mlir.pipeline.pipeline.Pipeline.run`.

    Raises:
        PassError: a pass failed.
        VerificationError: an operation remains that is illegal at the stage's level.
    """
    Pipeline.parse(stage.pipeline).run(
        module, verify_each=verify_each, instruments=instruments
    )
    allowed = LEVELS[stage.level] | stage.also
    wrong = illegal_operations(module, allowed)
    if wrong:
        first = wrong[0]
        raise VerificationError(
            f"{first.location}: `{first.operation.name}` is illegal after the stage "
            f"`{stage.level}`: expected only {', '.join(sorted(allowed))}"
        )


@awaited_at_exit
def compile(
    model: "IRModule | str | os.PathLike[str] | bytes",
    **options: Any,  # Any: fields of CompileOptions
) -> Executable:
    """Compile a model to machine code for a CPU; see :func:`compile_model`.

    Args:
        model: a module, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        options: fields of :class:`CompileOptions`.

    Raises:
        UnsupportedError: the target is not a CPU.
    """
    chosen = CompileOptions(**options)
    if target_of(chosen.target).device != "cpu":
        raise UnsupportedError(
            f"target `{chosen.target}`: expected a CPU target. Hint: `relax_mlir.compile`"
        )
    executable = compile_model(module_of(model), chosen)
    assert isinstance(executable, Executable)
    return executable


@awaited_at_exit
def compile_model(
    model: IRModule, options: CompileOptions
) -> Executable | CudaExecutable:
    """Compile the function ``main`` of a module, ahead of time as a whole.

    Args:
        model: a module of any level.
        options: user-defined pipelines are not applied.

    Raises:
        CompileError: code generation failed, or the code cannot be loaded.
        PassError, TuningError, VerificationError: see :func:`compile_contents`.
    """
    contents = compile_contents(model, options)
    if isinstance(contents, cuda_archive.Contents):
        return CudaExecutable(contents)
    return Executable.for_any_machine(contents)


def compile_contents(
    model: IRModule, options: CompileOptions
) -> cpu_archive.Contents | cuda_archive.Contents:
    """Compile a module to the contents of a model file; see :func:`compile_model`.

    Those for CPUs hold more constants than ``main`` has: those that others are derived from.

    Raises:
        VerificationError: a pass changes the outputs of the module.
        PassError: a pass failed.
        TuningError: the database is damaged.
        CompileError: code generation failed.
    """
    module = model.clone()
    database = TuningDatabase.of(module, options.tuning)
    machine = target_of(options.target)
    dump, progress = options.dump, options.progress
    todo = remaining_stages(module, stages(machine, options))
    _reject_late_checks(module, options.checks)
    if options.verify is not None:
        _verify_passes(module, machine, todo, options.inputs)
    whole = [s for s in todo if s.level in ("relax", "tir", "planned")]
    for number, stage in enumerate(whole):
        run_stage(module, stage, _counters(stage, progress))
        if dump is not None:
            _dump(module, Path(dump), f"{number}-{stage.level}")
    signature = _signature(module)
    if database is not None:
        database.apply(module, machine)
    units = split_kernels(module)
    if machine.device == "cuda":
        units = [u for u in units if u.programs]  # `main` becomes the launch plan
    rest = [s for s in todo if s not in whole]
    with _database_in_errors(database):
        built = compile_units(
            units, rest, machine, object_cache(options.cache), progress
        )
    if dump is not None:
        _dump_rest(module, rest, Path(dump), len(whole))
    rules = {n: b.rule for u, b in zip(units, built, strict=True) for n in u.programs}
    kernels = kernel_calls(module, rules)
    functions = called_functions(module)
    if machine.device == "cuda":
        return _cuda_contents(module, units, built, signature, machine, kernels)
    target = (machine.triple, machine.cpu, machine.features)
    return cpu_archive.Contents(
        object_code.machine_code([unit.code for unit in built], SYMBOLS, target),
        signature.to_fields(),
        machine_of(*target),
        module.constants,
        options.threads,
        tuple(kernels),
        module.derivations,
        functions,
    )


def _reject_late_checks(module: IRModule, checks: str) -> None:
    """Reject index checks of a module whose operators are lowered already.

    Raises:
        IRError: the module is below the level ``relax``.
    """
    level = level_of(module)
    if checks != "none" and level not in (None, "relax"):
        raise IRError(
            f"checks `{checks}`: expected a graph, got a module at the level `{level}`, "
            "where operators are PrimFuncs. Hint: compile the graph"
        )


def _cuda_contents(
    module: IRModule,
    units: Sequence[CompilationUnit],
    built: Sequence[CompiledUnit],
    signature: Signature,
    machine: Target,
    kernels: Sequence[KernelCall],
) -> cuda_archive.Contents:
    """The parts of a model file for GPUs: launch plan, PTX, signature, constants."""
    unpacked = [unpack_program(unit.code) for unit in built]
    programs = [program for program, _ in unpacked]
    constants = {k: np.asarray(module.constants[k]) for k in signature.constants}
    plan, calls = main_plan(module, units, programs, kernels)
    library_programs = len(plan.programs) - len(programs)  # without PTX
    return cuda_archive.Contents(
        (*(ptx for _, ptx in unpacked), *[b""] * library_programs),
        plan,
        signature.to_fields(),
        machine.cpu,
        constants,
        calls,
    )


@contextmanager
def _database_in_errors(database: TuningDatabase | None) -> Iterator[None]:
    """Names the tuning database in errors about configurations that it supplied."""
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
    inputs: Sequence[np.ndarray] | None,
) -> None:
    """Differential verification of all passes, on a copy of the module."""
    if machine.device != "cpu":
        raise UnsupportedError(
            f"`verify`: expected a target that this machine executes, got `{machine}`"
        )
    if inputs is None:
        inputs = inputs_of_valid_sizes(module)
    run = _MemoizedRunner(inputs)
    check = DifferentialCheck(run, run(module), _lowering_passes)
    copy = module.clone()
    for stage in todo:
        run_stage(copy, stage, [check], verify_each=True)


def object_cache(cache: bool | str | os.PathLike[str]) -> ObjectCache | None:
    """The cache of compiled kernels: True for the user's cache folder, False for none."""
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
    """The signature of ``main``, an attribute of modules from the level ``planned`` on."""
    attributes = module.mlir.operation.attributes
    if "relax.signature" not in attributes:
        raise IRError(
            "module has no signature: expected a function `main` of tensors, or the "
            "result of `relax-lower-main`"
        )
    try:
        return Signature.from_fields(json.loads(attributes["relax.signature"].value))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IRError(f"attribute `relax.signature` is damaged: {error}") from error


def compile_units(
    units: Sequence[CompilationUnit],
    rest: Sequence[Stage],
    target: Target,
    cache: ObjectCache | None = None,
    progress: Progress | None = None,
) -> list[CompiledUnit]:
    """Compile kernel modules, in parallel.

    Args:
        rest: the remaining stages of the pipeline.
        cache: of object files.
        progress: callback after every kernel.

    Raises:
        PassError: a pass failed.
        CompileError: code generation failed.
    """

    def build(unit: CompilationUnit) -> CompiledUnit:
        key = _cache_key(unit, rest, target)
        cached = cache.load(key) if cache else None
        if cached is not None:
            return CompiledUnit.unpacked(cached)
        compiled = _compile_unit(unit, rest, target)
        if cache:
            cache.store(key, compiled.packed())
        return compiled

    compiled: list[CompiledUnit] = []
    for unit in map_on_threads(build, units, cpu_runtime.get_max_threads()):
        compiled.append(unit)
        if progress is not None:
            progress("kernels", len(compiled), len(units))
    return compiled


def _cache_key(unit: CompilationUnit, rest: Sequence[Stage], target: Target) -> str:
    parts = [unit.text, repr(rest), repr(target), target.features, _sources()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _sources() -> str:
    return source_digest(("frontends", "tools"))


def _compile_unit(
    unit: CompilationUnit, rest: Sequence[Stage], target: Target
) -> CompiledUnit:
    with borrowed_context() as context:
        return _compile_text(unit.text, rest, target, context)


def _compile_text(
    text: str, rest: Sequence[Stage], target: Target, context: ir.Context
) -> CompiledUnit:
    module = IRModule.parse(text, context=context)
    rule = ""
    for stage in rest:
        rule = rule or schedule_rule_of(module)  # set at `loops`, never the last stage
        run_stage(module, stage)
    if target.device == "cuda":
        return CompiledUnit(serialize_program(module), rule)
    code = object_code.compile_object(
        module.mlir, triple=target.triple, cpu=target.cpu, features=target.features
    )
    return CompiledUnit(code, rule)
