"""What is compiled by itself: every kernel, and main with declarations of them."""

import hashlib
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import IRError
from relax_mlir.module import IRModule
from relax_mlir.rewriting import walk

__all__ = ["Unit", "split"]


@dataclass(frozen=True)
class Unit:
    """A module of its own: one kernel, or main with the declarations it needs."""

    text: str
    symbol: str


def split(module: IRModule) -> list[Unit]:
    """Every kernel by itself, under a name made from its text; main calls them so.

    Raises:
        IRError: ``main`` calls what is no kernel.
    """
    units: dict[str, Unit] = {}
    renamed: dict[str, str] = {}
    copy = module.clone()
    for function in copy.func_ops():
        if "tir.prim_func" in function.attributes:
            name = function.name.value
            text = _text_as(function, "k")
            symbol = f"k_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
            renamed[name] = symbol
            units[symbol] = Unit(_text_as(function, symbol), symbol)
    main = _main_text(copy, renamed)
    return [*units.values(), Unit(main, "main")]


def _text_as(function: func.FuncOp, name: str) -> str:
    function.attributes["sym_name"] = ir.StringAttr.get(name, function.context)
    return _text(function)


def _text(function: func.FuncOp) -> str:
    return function.operation.get_asm(use_local_scope=True, assume_verified=True)


def _callee(call: ir.OpView) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _main_text(module: IRModule, renamed: dict[str, str]) -> str:
    declared: dict[str, str] = {}
    for op in walk(module.func_op("main")):
        if op.operation.name == "func.call":
            if _callee(op) not in renamed:
                raise IRError(
                    f"{op.location}: `main` calls `{_callee(op)}`: expected a tensor "
                    "program (`tir.prim_func`)"
                )
            name = renamed[_callee(op)]
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(name, module.context)
            declared[name] = _declaration(name, op)
    bodies = [_text(module.func_op(n)) for n in ("main", "main_shapes")]
    return "\n".join([*declared.values(), *bodies])


def _declaration(name: str, call: ir.OpView) -> str:
    types = ", ".join(str(v.type) for v in call.operands)
    return f"func.func private @{name}({types}) attributes {{tir.prim_func}}"
