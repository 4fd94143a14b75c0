"""``RealizeVDevice``: every tensor lives where its hints and its neighbours say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Expr,
    Id,
    Op,
    Tuple,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.relax import op as operators
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["RealizeVdevice"]

_HINT, _MOVE = Op.of("relax.hint_on_device"), Op.of("relax.to_vdevice")
_KINDS = {"llvm": "cpu", "c": "cpu"}  # the other targets are called like their devices


@dataclass(frozen=True)
class RealizeVdevice(Pass):
    """Say of every tensor on which virtual device it lives, and move it where that changes.

    Known are annotations, what ``R.to_vdevice`` and ``R.hint_on_device`` give, and what a
    function is said to return; what is computed together lives together. What a hint is
    given lives where the hint says, if nothing else says where.
    """

    known_as: ClassVar[str] = "RealizeVDevice"

    def run(self, module: IRModule) -> None:
        devices = module.global_infos.get("vdevice", [])
        places = _Places(devices)
        for function in module.functions.values():
            if isinstance(function, Function):
                places.visit_expr(function)
        known = places.spread()
        rewrite_functions(module, lambda f: _Mover(devices, known).visit_expr(f))


def _hinted(devices: Sequence[Any], call: Call) -> VDevice:
    """The virtual device that a hint means."""
    wanted = str(call.attrs["dst_vdevice"])
    for device in devices:
        if f"{_kind(device)}:{device.vdevice_id}" == _plain(wanted):
            return device
    raise PassError(
        f"`R.hint_on_device`: no such virtual device: expected one of {devices}, got "
        f"{wanted}. List it in `I.module_global_infos`."
    )


def _plain(device: str) -> str:
    """A device's name and number: ``cuda:0`` of ``cuda(0)`` or ``cuda:0:global``."""
    found = re.match(r"(\w+)\W(\d+)", device)
    name, number = found.groups() if found else (device, "0")
    return f"{_KINDS.get(name, name)}:{number}"


def _kind(device: VDevice) -> str:
    """What kind of device a target is for, such as ``cpu`` of ``llvm -mcpu=native``."""
    target = str(device.target)
    found = re.search(r"""['"]kind['"]:\s*['"](\w+)""", target)
    name = found.group(1) if found else target.split()[0]
    return _KINDS.get(name, name)


@dataclass
class _Places(PyExprVisitor):
    """Where the variables of a module live.

    Attributes:
        devices: those of the module.
        known: by what the program says.
        hinted: by a hint that the variable is given to.
        together: for each variable those that live where it does.
    """

    devices: Sequence[Any]
    known: dict[Id, VDevice] = field(default_factory=dict)
    hinted: dict[Id, VDevice] = field(default_factory=dict)
    together: dict[Id, list[Id]] = field(default_factory=dict)
    bound: dict[Id, Expr] = field(default_factory=dict)
    current: Id | None = None

    def visit_function_(self, op: Function) -> None:
        """A function; what it is said to give tells where its value lives."""
        super().visit_function_(op)
        for var, device in self._returned(op.body.body, op.ret_struct_info):
            self.known.setdefault(var.vid, device)

    def _returned(self, expr: Expr, info: StructInfo) -> Iterator[tuple[Var, VDevice]]:
        if isinstance(info, TensorStructInfo):
            if info.vdevice is not None and isinstance(expr, Var):
                yield expr, info.vdevice
        elif isinstance(info, TupleStructInfo):
            while isinstance(expr, Var) and expr.vid in self.bound:
                expr = self.bound[expr.vid]
            fields = expr.fields if isinstance(expr, Tuple) else ()
            for part, known in zip(fields, info.fields, strict=False):
                yield from self._returned(part, known)

    def visit_var_def_(self, var: Var) -> None:
        """A variable where it is bound: its annotation counts."""
        info = var.struct_info_or_none()
        if isinstance(info, TensorStructInfo) and info.vdevice is not None:
            self.known[var.vid] = info.vdevice

    visit_dataflow_var_def_ = visit_var_def_

    def visit_binding(self, binding: Binding) -> None:
        """A binding: its variable lives with what its value is computed of."""
        outer, self.current = self.current, binding.var.vid
        super().visit_binding(binding)
        self.current = outer
        self.bound[binding.var.vid] = binding.value
        if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
            self._hint(binding.var, binding.value)

    def _hint(self, var: Var, call: Call) -> None:
        if call.op != _HINT:
            return
        self.known[var.vid] = device = _hinted(self.devices, call)
        if isinstance(call.args[0], Var):
            self.hinted[call.args[0].vid] = device

    def visit_call_(self, op: Call) -> None:
        """A call; what may move a tensor does not tie its argument to its result."""
        if op.op not in (_HINT, _MOVE):
            super().visit_call_(op)

    def visit_var_(self, op: Var) -> None:
        """A variable where it is used."""
        if self.current is not None:
            self.together.setdefault(self.current, []).append(op.vid)
            self.together.setdefault(op.vid, []).append(self.current)

    visit_dataflow_var_ = visit_var_

    def spread(self) -> dict[Id, VDevice]:
        """Where each variable lives; what is known counts before what is hinted."""
        found: dict[Id, VDevice] = {}
        for start in (self.known, self.hinted):
            new = {vid: device for vid, device in start.items() if vid not in found}
            found.update(new)
            waiting = list(new)
            while waiting:
                vid = waiting.pop()
                for other in self.together.get(vid, ()):
                    if other not in found:
                        found[other] = found[vid]
                        waiting.append(other)
        return found


class _Mover(PyExprMutator):
    """Says where variables live, and moves tensors where a hint wants them elsewhere."""

    def __init__(self, devices: Sequence[Any], known: dict[Id, VDevice]) -> None:
        super().__init__()
        self.devices = devices
        self.known = known

    def visit_var_def_(self, var: Var) -> Var:
        """A variable where it is bound, with the device on which it lives."""
        made = super().visit_var_def_(var)
        info, device = made.struct_info_or_none(), self.known.get(var.vid)
        if not isinstance(info, TensorStructInfo) or device in (None, info.vdevice):
            return made
        new = info.replace(vdevice=device)
        return type(made)(made.vid, new, span=made.span)

    def visit_call_(self, op: Call) -> Expr:
        """A hint is its argument where that lives there, else a move."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or call.op != _HINT:
            return call
        (tensor,) = call.args
        device = _hinted(self.devices, call)
        if getattr(tensor.struct_info_or_none(), "vdevice", None) == device:
            return tensor
        return operators.to_vdevice(tensor, device)
