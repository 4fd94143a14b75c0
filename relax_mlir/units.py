"""What is compiled by itself: every kernel, and main with declarations of them."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import IRError
from relax_mlir.kinds import contraction_operations, product_of
from relax_mlir.module import IRModule
from relax_mlir.objects.names import nodes_in
from relax_mlir.rewriting import walk
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.schedules.convolution_blocks import convolution_of

__all__ = ["CompiledUnit", "Unit", "kernel_calls", "kernel_hash", "rule_of", "split"]


@dataclass(frozen=True)
class Unit:
    """A module of its own: one kernel, or main with the declarations it needs.

    Attributes:
        text: of the module.
        symbol: what it defines.
        programs: names of the tensor programs that it is made of, equal but for them.
    """

    text: str
    symbol: str
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompiledUnit:
    """Machine code of a unit.

    Attributes:
        code: an object file.
        rule: the schedule rule that wrote its loops; empty for main.
    """

    code: bytes
    rule: str

    def packed(self) -> bytes:
        """As a cache keeps it."""
        return self.rule.encode() + b"\n" + self.code

    @staticmethod
    def unpacked(data: bytes) -> "CompiledUnit":
        """What :meth:`packed` made."""
        rule, _, code = data.partition(b"\n")
        return CompiledUnit(code, rule.decode())


def split(module: IRModule) -> list[Unit]:
    """Every kernel by itself, under a name made from its text; main calls them so.

    Raises:
        IRError: ``main`` calls what is no kernel.
    """
    texts: dict[str, str] = {}
    renamed: dict[str, str] = {}
    copy = module.clone()
    for function in copy.func_ops():
        if "tir.prim_func" in function.attributes:
            name = function.name.value
            symbol = f"k_{kernel_hash(function)}"
            renamed[name] = symbol
            texts[symbol] = _text_as(function, symbol)
    programs: dict[str, list[str]] = {symbol: [] for symbol in texts}
    for name, symbol in renamed.items():
        programs[symbol].append(name)
    units = [Unit(text, s, tuple(programs[s])) for s, text in texts.items()]
    return [*units, Unit(_main_text(copy, renamed), "main")]


def kernel_hash(function: func.FuncOp) -> str:
    """What a kernel does, as a number: that of others is equal if they do the same."""
    name = function.name.value
    text = _text_as(function, "k")
    function.attributes["sym_name"] = ir.StringAttr.get(name, function.context)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def kernel_calls(module: IRModule, rules: Mapping[str, str]) -> list[KernelCall]:
    """The kernels that ``main`` calls, in order.

    The nodes of a call are those that the program was fused from, the last one last. Of
    a program that several places call, which was made of the first, it is the last alone.

    Args:
        rules: the schedule rule of every program, by its name.
    """
    calls = [c for c in walk(module.func_op("main")) if c.operation.name == "func.call"]
    counts = Counter(map(_callee, calls))
    programs = {f.name.value: f for f in module.func_ops() if f.name.value in counts}
    operations = {n: contraction_operations(f) for n, f in programs.items()}
    products = {n: product_of(f) for n, f in programs.items()}
    convolutions = {n: convolution_of(f) for n, f in programs.items()}
    made: list[KernelCall] = []
    for call in calls:
        name = _callee(call)
        fused = walk(programs[name]) if counts[name] == 1 else []
        last = _node_names([call])
        nodes = [n for n in _node_names(fused) if n not in last]
        made.append(
            KernelCall(
                name,
                rules[name],
                (*nodes, *last),
                operations[name],
                _moved_bytes(programs[name]),
                products[name],
                convolutions[name],
            )
        )
    return made


def _moved_bytes(program: func.FuncOp) -> int:
    """Of all buffers that a program is given; 0 if a size is open."""
    types = [t for t in program.type.inputs if isinstance(t, ir.MemRefType)]
    counts = [math.prod(t.shape) if min(t.shape, default=1) >= 0 else -1 for t in types]
    if min(counts, default=-1) < 0:
        return 0
    elements: list[Any] = [t.element_type for t in types]  # Any: they have a width
    pairs = zip(counts, elements, strict=True)
    return sum(count * -(-element.width // 8) for count, element in pairs)


def _node_names(operations: Iterable[ir.OpView]) -> list[str]:
    """The nodes that operations were made of, each once."""
    return list(dict.fromkeys(n for op in operations for n, _ in nodes_in(op.location)))


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
                    f"{op.location}: `main` calls `{_callee(op)}`: expected a tensor "
                    "program (`tir.prim_func`)"
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


def rule_of(module: IRModule) -> str:
    """The rule that wrote the loops of a module's kernel; empty if there are none."""
    rules = (f.attributes for f in module.func_ops() if "tir.rule" in f.attributes)
    return next((ir.StringAttr(found["tir.rule"]).value for found in rules), "")
