"""Compilation units: a kernel module per PrimFunc, and one module for ``main``.

Each unit is compiled, cached and, on GPUs, loaded separately.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.contraction import contraction_operations, contraction_sizes
from relax_mlir.dialects.tir import CallPackedOp
from relax_mlir.errors import IRError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.function_attributes import onnx_nodes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.schedules.convolution_blocks import convolution_of

__all__ = [
    "CompilationUnit",
    "CompiledUnit",
    "kernel_calls",
    "kernel_hash",
    "schedule_rule_of",
    "split_kernels",
]


@dataclass(frozen=True)
class CompilationUnit:
    """A module that is compiled separately: one kernel, or ``main``.

    ``main`` comes with declarations of the kernels that it calls.

    Attributes:
        text: of the module.
        symbol: the function that it defines.
        programs: names of the PrimFuncs, equal except for their names, that it implements.
    """

    text: str
    symbol: str
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledUnit:
    """Object code of a compilation unit.

    Attributes:
        code: an object file; for GPUs, the program and its PTX.
        rule: the schedule rule that wrote its loops; empty for main.
    """

    code: bytes
    rule: str

    def packed(self) -> bytes:
        """The serialised form in the object cache."""
        return self.rule.encode() + b"\n" + self.code

    @staticmethod
    def unpacked(data: bytes) -> "CompiledUnit":
        """Inverse of :meth:`packed`."""
        rule, _, code = data.partition(b"\n")
        return CompiledUnit(code, rule.decode())


def split_kernels(module: IRModule) -> list[CompilationUnit]:
    """Split a module into kernel modules and ``main``.

    A kernel is named after the hash of its text, so equal PrimFuncs share a module.

    Raises:
        IRError: ``main`` calls a function that is not a PrimFunc.
    """
    texts: dict[str, str] = {}
    renamed: dict[str, str] = {}
    copy = module.clone()
    for function in copy.func_ops():
        if function_attributes.is_prim_func(function):
            name = function.name.value
            symbol = f"k_{kernel_hash(function)}"
            renamed[name] = symbol
            texts[symbol] = _text_as(function, symbol)
    programs: dict[str, list[str]] = {symbol: [] for symbol in texts}
    for name, symbol in renamed.items():
        programs[symbol].append(name)
    units = [CompilationUnit(text, s, tuple(programs[s])) for s, text in texts.items()]
    return [*units, CompilationUnit(_main_text(copy, renamed), "main")]


def kernel_hash(function: func.FuncOp) -> str:
    """Structural hash of a kernel, independent of its name."""
    name = function.name.value
    text = _text_as(function, "k")
    function.attributes["sym_name"] = ir.StringAttr.get(name, function.context)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def kernel_calls(module: IRModule, rules: Mapping[str, str]) -> list[KernelCall]:
    """The kernel calls of ``main``, in order, with cost facts for profiles.

    The nodes of a call are those that were fused into the PrimFunc, in order. If several
    calls share a PrimFunc, only the last node is known, since its locations are those of
    the first call.

    Args:
        rules: schedule rule of every PrimFunc, by name.
    """
    calls = [c for c in walk(module.func_op("main")) if c.operation.name == "func.call"]
    counts = Counter(map(_callee, calls))
    programs = {f.name.value: f for f in module.func_ops() if f.name.value in counts}
    operations = {n: contraction_operations(f) for n, f in programs.items()}
    matmuls = {n: contraction_sizes(f) for n, f in programs.items()}
    convolutions = {n: convolution_of(f) for n, f in programs.items()}
    found: list[KernelCall] = []
    for call in calls:
        name = _callee(call)
        fused = walk(programs[name]) if counts[name] == 1 else []
        last = _node_names([call])
        nodes = [n for n in _node_names(fused) if n not in last]
        found.append(
            KernelCall(
                name,
                rules[name],
                (*nodes, *last),
                operations[name],
                _moved_bytes(programs[name]),
                matmuls[name],
                convolutions[name],
            )
        )
    return found


def called_functions(module: IRModule) -> tuple[str, ...]:
    """Names of the registered functions that ``main`` calls, each once."""
    calls = [c for c in walk(module.func_op("main")) if isinstance(c, CallPackedOp)]
    return tuple(dict.fromkeys(call.callee.value for call in calls))


def _moved_bytes(program: func.FuncOp) -> int:
    """Total size of a PrimFunc's buffer arguments; 0 if a size is dynamic."""
    types = [t for t in program.type.inputs if isinstance(t, ir.MemRefType)]
    counts = [math.prod(t.shape) if min(t.shape, default=1) >= 0 else -1 for t in types]
    if min(counts, default=-1) < 0:
        return 0
    elements: list[Any] = [t.element_type for t in types]  # Any: types with a width
    pairs = zip(counts, elements, strict=True)
    return sum(count * -(-element.width // 8) for count, element in pairs)


def _node_names(operations: Iterable[ir.OpView]) -> list[str]:
    """Names of the ONNX nodes that operations stem from, without duplicates."""
    return list(
        dict.fromkeys(n for op in operations for n, _ in onnx_nodes(op.location))
    )


def _text_as(function: func.FuncOp, name: str) -> str:
    function.attributes["sym_name"] = ir.StringAttr.get(name, function.context)
    return _text(function)


def _text(function: func.FuncOp) -> str:
    return function.operation.get_asm(use_local_scope=True, assume_verified=True)


def _callee(call: ir.OpView) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _main_text(module: IRModule, renamed: dict[str, str]) -> str:
    declared: dict[str, str] = {}
    outputs = {
        f.name.value: f.attributes["tir.num_outputs"]
        for f in module.func_ops()
        if "tir.num_outputs" in f.attributes
    }
    for op in walk(module.func_op("main")):
        if op.operation.name == "func.call":
            if _callee(op) not in renamed:
                raise IRError(
                    f"{op.location}: `main` calls `{_callee(op)}`: expected a PrimFunc "
                    "(`tir.prim_func`)"
                )
            name = renamed[_callee(op)]
            declared[name] = _declaration(name, op, outputs.get(name))
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(name, module.context)
    bodies = [_text(module.func_op(n)) for n in ("main", "main_shapes")]
    return "\n".join([*declared.values(), *bodies])


def _declaration(name: str, call: ir.OpView, outputs: ir.Attribute | None) -> str:
    types = ", ".join(str(v.type) for v in call.operands)
    known = "" if outputs is None else f", tir.num_outputs = {outputs}"
    return f"func.func private @{name}({types}) attributes {{tir.prim_func{known}}}"


def schedule_rule_of(module: IRModule) -> str:
    """Name of the schedule rule of a module's kernel; empty before scheduling."""
    rules = (f.attributes for f in module.func_ops() if "tir.rule" in f.attributes)
    return next((ir.StringAttr(attrs["tir.rule"]).value for attrs in rules), "")
