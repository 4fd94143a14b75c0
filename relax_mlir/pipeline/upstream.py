# pyright: strict, reportMissingTypeStubs=false, reportUnknownMemberType=false
"""MLIR's own passes: validation before they run, and execution."""

import functools
import json
import os
import re
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mlir import ir
from mlir.passmanager import PassManager

from relax_mlir.errors import near_misses
from relax_mlir.ir.traversal import own_operations
from relax_mlir.pipeline.c_api import run_pass_manager

__all__ = [
    "REFUSED",
    "MLIRError",
    "UpstreamError",
    "check_anchor",
    "check_pass",
    "diagnostics",
    "known_passes",
    "run_pass",
]

# tests/pipeline/test_upstream.py runs all passes to check that both tables are complete.
REFUSED = {
    "composite-fixed-point-pass": (
        "it aborts the process if an inner pass cannot be scheduled"
    ),
    "duplicate-function-elimination": (
        "it erases public functions that equal another one, which external callers use"
    ),
    "gpu-register-host-buffers": "it aborts the process on a function without a body",
    "remove-dead-values": "it aborts the process on a module with `relax.call_tir`",
    "xegpu-subgroup-distribute": "it aborts the process on kernels not for Intel GPUs",
}
# Passes that abort the process on other anchors: they replace the operation that they
# run on, or access its parents.
_MODULE = ("builtin.module",)
_MODULES = ("builtin.module", "gpu.module")
ALLOWED_ANCHORS = {
    "convert-func-to-spirv": _MODULES,
    "convert-scf-to-spirv": _MODULES,
    "convert-tensor-to-spirv": _MODULES,
    "convert-to-emitc": _MODULES,
    "convert-to-llvm": _MODULES,
    "gpu-lower-to-nvvm-pipeline": _MODULE,
    "gpu-lower-to-xevm-pipeline": _MODULE,
    "sparsifier": _MODULE,
    "strip-func-quant-types": _MODULE,
    "tosa-to-linalg-pipeline": _MODULE,
}
_PTX_PASSES = ("gpu-module-to-binary", "gpu-lower-to-nvvm-pipeline")
_PTX_NAME = re.compile(r"[0-9A-Za-z_.$]+")  # LLVM cannot quote others
_LOCAL = re.compile("internal|private")
# The bindings create this class at load time; their stubs lack it.
MLIRError: type[Exception] = vars(ir)["MLIRError"]
_WORD = re.compile(r"[a-z0-9-]+")
_ANCHORS = ("any", "builtin.module", "func.func", "gpu.module", "llvm.func")
_DESCRIPTOR = threading.Lock()  # kernel modules parse pipelines on many threads
_SHOWN_DIAGNOSTICS = 5


class UpstreamError(Exception):
    """A pass of MLIR failed, with the errors that it reported."""

    def __init__(self, problems: list[str]) -> None:
        """Keep the errors, ``location: message`` each."""
        super().__init__("\n".join(problems))
        self.problems = problems


def check_anchor(name: str) -> None:
    """Check that passes can be nested under an operation.

    Raises:
        ValueError: MLIR has no operation of this name.
    """
    if name != "any" and not _context().is_registered_operation(name):
        raise ValueError(f"unknown operation `{name}`.{near_misses(name, _ANCHORS)}")


def check_pass(anchors: Sequence[str], name: str, options: str) -> None:
    """Check that MLIR has a pass, accepts its options, and can nest it under the anchors.

    Raises:
        ValueError: the pass or an option is unknown, its nesting is wrong, or the pass
            is one of :data:`REFUSED`.
    """
    for word in (name, *_WORD.findall(options)):
        if word in REFUSED:
            raise ValueError(f"`{word}` is refused: {REFUSED[word]}")
        where = ALLOWED_ANCHORS.get(word)
        if where and (anchors or ["builtin.module"])[-1] not in where:
            known = " or ".join(f"`{anchor}`" for anchor in where)
            raise ValueError(f"`{word}` runs on {known}, not on `{anchors[-1]}`")
        if where and word != name:
            raise ValueError(f"`{word}` is refused inside the options of `{name}`")
    refusal = _read(nested(anchors, name, options))
    if refusal is not None:
        raise ValueError(_explain(name, *refusal))


@functools.cache
def _read(text: str) -> tuple[str, str] | None:
    """MLIR's error and printed output if it cannot parse ``text``, else None.

    Cached, because all kernel modules use the same few pipelines.
    """
    with _printed_errors() if "{" in text else nullcontext([""]) as printed:
        try:
            PassManager.parse(text, _context())
            return None
        except ValueError as error:
            problem = str(error)
    return problem, printed[0]


@functools.cache
def has_pass(name: str) -> bool:
    """Whether MLIR has a pass or a named pipeline called ``name``."""
    try:
        PassManager.parse(f"builtin.module({name})", _context())
    except ValueError as error:
        return "does not refer to" not in str(error)
    return True


def run_pass(module: ir.OpView, text: str) -> None:
    """Run a pass, in the text format of :func:`nested`, without verification.

    Raises:
        UpstreamError: the pass failed or reported an error, or it would emit PTX with
            names that abort the process.
    """
    problems = _bad_ptx_names(module) if any(p in text for p in _PTX_PASSES) else []
    if problems:
        raise UpstreamError(problems)
    manager = PassManager.parse(text, module.context)
    manager.enable_verifier(False)
    errors = run_pass_manager(manager, module)
    if errors is not None:
        raise UpstreamError(errors)


def _bad_ptx_names(module: ir.OpView) -> list[str]:
    """Errors for symbols in GPU modules that LLVM cannot emit; local ones it renames."""
    problems: list[str] = []
    for kernels in own_operations(module.regions[0].blocks[0]):
        if kernels.operation.name != "gpu.module":
            continue
        for op in own_operations(kernels.regions[0].blocks[0]):
            attributes = op.attributes
            linkage = str(attributes["linkage"]) if "linkage" in attributes else ""
            if "sym_name" not in attributes or _LOCAL.search(linkage):
                continue
            name = ir.StringAttr(attributes["sym_name"]).value
            if _PTX_NAME.fullmatch(name) is None:
                problems.append(
                    f"{op.location}: `{name}` cannot be a name in PTX: expected letters, "
                    "digits, `_`, `.` and `$`"
                )
    return problems


def nested(anchors: Sequence[str], name: str, options: str) -> str:
    """A nested pass as pipeline text for MLIR."""
    text = f"{name}{{{options}}}" if options else name
    for anchor in reversed(("builtin.module", *anchors)):
        text = f"{anchor}({text})"
    return text


def diagnostics(error: Exception) -> str:
    """MLIR's diagnostics, one line for each of the first few."""
    problems: list[str] = [
        f"{d.location}: {d.message}" for d in getattr(error, "error_diagnostics", ())
    ]
    if isinstance(error, UpstreamError):
        problems = error.problems
    lines = problems[:_SHOWN_DIAGNOSTICS]
    if len(problems) > len(lines):
        lines.append(f"and {len(problems) - len(lines)} more")
    if any("unable to schedule pass" in line for line in lines):
        lines.append("Nest the pass, for instance as `func.func(...)`.")
    return "\n".join(lines) or "MLIR gives no reason"


def known_passes() -> tuple[str, ...]:
    """Names of MLIR's passes and pipelines, for hints."""
    return tuple(_options())


@functools.cache
def _context() -> ir.Context:
    """A shared context for parsing; creating one takes 6 ms."""
    return ir.Context()


@functools.cache
def _options() -> dict[str, dict[str, list[str]]]:
    """Choices by option by pass, which the bindings do not expose.

    The file is generated from the help of ``mlir-opt`` of the same version (``make golden``).
    """
    return json.loads(Path(__file__).with_name("upstream_passes.json").read_text())


def _explain(name: str, problem: str, printed: str) -> str:
    """One sentence from the error and printed output of MLIR's parser."""
    if match := re.search(r"no such option (\S+)", problem):
        flags = _options().get(name, {})
        known = ", ".join(f"`{flag}`" for flag in flags) or "none"
        hint = near_misses(match[1], flags)
        return f"`{name}` has no option `{match[1]}`: its options are {known}.{hint}"
    if match := re.search(r"restricted to '(\S+)' on .* run on '(\S+)'", problem):
        hint = f" Write `{match[1]}({name})`." if match[2] == "builtin.module" else ""
        return f"`{name}` runs on `{match[1]}`, not on `{match[2]}`.{hint}"
    output = f"{problem}\n{printed}"
    if match := re.search(r"'(\S+)' does not refer to a registered pass", output):
        hint = near_misses(match[1], known_passes())
        return f"`{name}`: unknown pass `{match[1]}` in its options.{hint}"
    if match := re.search(r"for the -*(\S+) option: (.*)", printed):
        return f"`{name}`: option `{match[1]}`: {_explain_value(name, *match.groups())}"
    return f"`{name}`: {' '.join(output.split())}"


def _explain_value(name: str, option: str, problem: str) -> str:
    if match := re.search(r"'(.*)' value invalid for (\S+) argument", problem):
        return f"expected {match[2]}, got `{match[1]}`"
    if match := re.search(r"Cannot find option named '(.*)'", problem):
        choices = _options().get(name, {}).get(option, [])
        known = " or ".join(f"`{choice}`" for choice in choices) or "another value"
        return f"expected {known}, got `{match[1]}`"
    return problem


@contextmanager
def _printed_errors() -> Generator[list[str]]:
    """Capture what C++ prints to descriptor 2; MLIR explains bad values only there."""
    printed = [""]
    with _DESCRIPTOR, tempfile.TemporaryFile() as file:
        try:
            saved = os.dup(2)
        except OSError:  # it is closed
            yield printed
            return
        os.dup2(file.fileno(), 2)
        try:
            yield printed
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            printed[0] = file.read().decode(errors="replace")
