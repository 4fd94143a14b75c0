"""``RealizeVDevice``: propagates virtual devices from annotations and hints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
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
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax import op as operators
from relax_mlir.tvm.relax.transform.function_rewriting import rewrite_functions

__all__ = ["RealizeVdevice"]

_HINT, _MOVE = Op.of("relax.hint_on_device"), Op.of("relax.to_vdevice")
# Other targets have the name of their device type.
_DEVICE_TYPES = {"llvm": "cpu", "c": "cpu"}


@dataclass(frozen=True)
class RealizeVdevice(Pass):
    """Assigns every tensor a virtual device, and inserts copies between devices.

    Devices are seeded by annotations, by ``R.to_vdevice`` and ``R.hint_on_device``, and by
    return types, and propagate along use-def edges in both directions. The argument of a
    hint gets the hinted device unless something else determines its device.
    """

    known_as: ClassVar[str] = "RealizeVDevice"

    def run(self, module: IRModule) -> None:
        devices = module.global_infos.get("vdevice", [])
        inference = _DeviceInference(devices)
        for function in module.functions.values():
            if isinstance(function, Function):
                inference.visit_expr(function)
        vdevices = inference.propagate()
        rewrite_functions(
            module, lambda f: _DeviceRealizer(devices, vdevices).visit_expr(f)
        )


def _hinted_device(devices: Sequence[Any], call: Call) -> VDevice:
    """Returns the virtual device that a hint names."""
    hint = str(call.attrs["dst_vdevice"])
    for device in devices:
        if f"{_device_type(device)}:{device.vdevice_id}" == _normalize_device(hint):
            return device
    raise PassError(
        f"`R.hint_on_device`: no such virtual device: expected one of {devices}, got "
        f"{hint}. List it in `I.module_global_infos`."
    )


def _normalize_device(device: str) -> str:
    """Normalizes a device name: ``cuda:0`` for ``cuda(0)`` or ``cuda:0:global``."""
    match = re.match(r"(\w+)\W(\d+)", device)
    name, index = match.groups() if match else (device, "0")
    return f"{_DEVICE_TYPES.get(name, name)}:{index}"


def _device_type(device: VDevice) -> str:
    """Returns the device type of a target, such as ``cpu`` for ``llvm -mcpu=native``."""
    target = str(device.target)
    match = re.search(r"""['"]kind['"]:\s*['"](\w+)""", target)
    name = match.group(1) if match else target.split()[0]
    return _DEVICE_TYPES.get(name, name)


@dataclass
class _DeviceInference(PyExprVisitor):
    """Collects device constraints of the variables of a module, and propagates them.

    Attributes:
        devices: the virtual devices of the module.
        known: devices that the program states.
        hinted: devices of variables that are arguments of a hint.
        same_device: for each variable, those that must share its device.
    """

    devices: Sequence[Any]
    known: dict[Id, VDevice] = field(default_factory=dict)
    hinted: dict[Id, VDevice] = field(default_factory=dict)
    same_device: dict[Id, list[Id]] = field(default_factory=dict)
    bound: dict[Id, Expr] = field(default_factory=dict)
    current: Id | None = None

    def visit_function_(self, op: Function) -> None:
        """Visits a function; its return type seeds the devices of its results."""
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
            for field_value, field_info in zip(fields, info.fields, strict=False):
                yield from self._returned(field_value, field_info)

    def visit_var_def_(self, var: Var) -> None:
        """Visits a definition; an annotation seeds the device."""
        info = var.struct_info_or_none()
        if isinstance(info, TensorStructInfo) and info.vdevice is not None:
            self.known[var.vid] = info.vdevice

    visit_dataflow_var_def_ = visit_var_def_

    def visit_binding(self, binding: Binding) -> None:
        """Visits a binding; the variable shares the device of its operands."""
        outer, self.current = self.current, binding.var.vid
        super().visit_binding(binding)
        self.current = outer
        self.bound[binding.var.vid] = binding.value
        if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
            self._hint(binding.var, binding.value)

    def _hint(self, var: Var, call: Call) -> None:
        if call.op != _HINT:
            return
        self.known[var.vid] = device = _hinted_device(self.devices, call)
        if isinstance(call.args[0], Var):
            self.hinted[call.args[0].vid] = device

    def visit_call_(self, op: Call) -> None:
        """Visits a call; hints and copies do not tie their argument to their result."""
        if op.op not in (_HINT, _MOVE):
            super().visit_call_(op)

    def visit_var_(self, op: Var) -> None:
        """Visits a use, which ties the variable to the one being bound."""
        if self.current is not None:
            self.same_device.setdefault(self.current, []).append(op.vid)
            self.same_device.setdefault(op.vid, []).append(self.current)

    visit_dataflow_var_ = visit_var_

    def propagate(self) -> dict[Id, VDevice]:
        """Propagates devices along shared uses; stated ones take precedence over hints."""
        vdevices: dict[Id, VDevice] = {}
        for start in (self.known, self.hinted):
            new = {vid: device for vid, device in start.items() if vid not in vdevices}
            vdevices.update(new)
            worklist = list(new)
            while worklist:
                vid = worklist.pop()
                for other in self.same_device.get(vid, ()):
                    if other not in vdevices:
                        vdevices[other] = vdevices[vid]
                        worklist.append(other)
        return vdevices


class _DeviceRealizer(PyExprMutator):
    """Annotates variables with their devices, and turns hints into copies where needed."""

    def __init__(self, devices: Sequence[Any], vdevices: dict[Id, VDevice]) -> None:
        super().__init__()
        self.devices = devices
        self.vdevices = vdevices

    def visit_var_def_(self, var: Var) -> Var:
        """Annotates a definition with its device."""
        visited = super().visit_var_def_(var)
        info, device = visited.struct_info_or_none(), self.vdevices.get(var.vid)
        if not isinstance(info, TensorStructInfo) or device in (None, info.vdevice):
            return visited
        new = info.replace(vdevice=device)
        return type(visited)(visited.vid, new, span=visited.span)

    def visit_call_(self, op: Call) -> Expr:
        """Replaces a hint by its argument if that is on the device, else by a copy."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or call.op != _HINT:
            return call
        (tensor,) = call.args
        device = _hinted_device(self.devices, call)
        if getattr(tensor.struct_info_or_none(), "vdevice", None) == device:
            return tensor
        return operators.to_vdevice(tensor, device)
