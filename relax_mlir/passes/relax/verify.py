"""``relax-verify``: module invariants beyond the IRDL verifier."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.prim_func_verifier import verify_prim_func
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import IRError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.function_attributes import location_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.infer_shapes import derived_types
from relax_mlir.rewrite.patterns import Pass

__all__ = ["Checker", "Verify"]


@dataclass(frozen=True)
class Verify(Pass):
    """Verify types, constants and tensor programs; changes nothing.

    The result types of a relax operation equal those inferred from its operands. A constant
    has the shape and element type of its array. Tensor programs satisfy
    :func:`relax_mlir.analysis.prim_func_verifier.verify_prim_func`. A verified pipeline checks
    this after every pass by itself.
    """

    require_constants: bool = False  # whether the module must hold every array

    def run(self, module: IRModule) -> None:
        """Verifies ``module``.

        Raises:
            IRError: an invariant is violated.
        """
        Checker(require_constants=self.require_constants).check(module)


class Checker:
    """Incremental verifier of one module between passes.

    Verified facts are cached with the module, keyed by everything that the check read, so
    that after a pass only the changed parts are verified again.

    Args:
        require_constants: whether the module must hold every array. None: if it does at
            the first check, then passes must lose none. A textual module may come without
            its arrays, so that a missing array alone is not an error.
    """

    def __init__(self, *, require_constants: bool | None = None) -> None:
        self._require_constants = require_constants
        self._is_complete = True

    def check(self, module: IRModule) -> None:
        """Verifies ``module`` in its current state.

        Raises:
            IRError: an invariant is violated.
        """
        functions = {f.name.value: f for f in module.func_ops()}
        with module.context, ir.Location.unknown():
            for function in functions.values():
                if function_attributes.is_prim_func(function):
                    _check_program(function, module)
                elif _may_hold_relax(function):
                    for op in _relax_operations(function):
                        self._check_operation(op, module, functions)
        if self._require_constants is None:
            self._require_constants = self._is_complete

    def _check_operation(
        self, op: ir.OpView, module: IRModule, functions: Mapping[str, func.FuncOp]
    ) -> None:
        try:
            if isinstance(op, ConstantOp):
                self._check_constant(op, module)
                return
            facts = _facts(op, functions)
            if facts not in module.verified:
                _check_types(op, functions)
                module.verified[facts] = True
        except ValueError as error:
            name = op.operation.name
            raise IRError(
                f"invalid module: {location_of(op)}: `{name}`: {error}"
            ) from error

    def _check_constant(self, op: ConstantOp, module: IRModule) -> None:
        facts = (op.value, op.y.type)
        if facts not in module.verified:
            module.verified[facts] = _expected(op)
        key, shape, dtype = cast(_Expected, module.verified[facts])
        if key is None:
            return
        array = module.constants.get(key)
        if array is None:
            self._is_complete = False
            if self._require_constants:
                raise ValueError(f"array `{key}` is not among the module's constants")
        elif array.shape != shape or array.dtype != dtype:
            raise ValueError(
                f"array `{key}`: expected `{op.y.type}`, "
                f"got {array.dtype.name} of shape {array.shape}"
            )


# The key, shape and type of a constant's array; no key for an inline value.
_Expected = tuple[str | None, tuple[Dim, ...], np.dtype]


def _expected(op: ConstantOp) -> _Expected:
    """The array that a constant refers to; checks the type of an inline value."""
    type_ = op.y.type
    stated = getattr(op.value, "type", None)
    if op.key is None and stated != type_:
        raise ValueError(f"value: expected `{type_}`, got `{stated}`")
    return op.key, tensors.shape_of(type_), tensors.dtype_of(type_).numpy


def _check_program(function: func.FuncOp, module: IRModule) -> None:
    """Verifies a tensor program, unless a schedule rule has already written its loops."""
    if function.is_external or "tir.rule" in function.attributes:
        return
    text = function.operation.get_asm(use_local_scope=True, assume_verified=True)
    if text not in module.verified:
        verify_prim_func(function)
        module.verified[text] = True


def _may_hold_relax(function: func.FuncOp) -> bool:
    """Whether a function is still on tensors, rather than on buffers only."""
    types = [*function.type.inputs, *function.type.results]
    values = (ir.RankedTensorType, ir.TupleType)
    return not types or any(isinstance(t, values) for t in types)


def _relax_operations(function: func.FuncOp) -> Iterator[ir.OpView]:
    """Relax operations, calls and tuple packing in a function."""
    for op in walk(function):
        name = op.operation.name
        if name.startswith("relax.") or name == tensors.TUPLE_PACK:
            yield op


def _facts(op: ir.OpView, functions: Mapping[str, func.FuncOp]) -> object:
    """The cache key of an operation's check: everything that the check reads."""
    operands, attributes = list(op.operands), op.attributes
    tuples = [o.owner for o in operands if isinstance(o.type, ir.TupleType)]
    callee = None
    if "callee" in attributes:
        callee = functions.get(attributes["callee"].value)
    return (
        op.operation.name,
        *(v.type for v in (*operands, *op.results)),
        *(attributes[n] for n in getattr(op, "attribute_fields", ())),
        *(None if isinstance(o, ir.Block) else o.name for o in tuples),
        *(() if callee is None else _signature(callee)),
    )


def _signature(function: func.FuncOp) -> tuple[ir.Attribute, ...]:
    names = ("sym_name", "function_type", "arg_attrs", attribute_names.PRIM_FUNC)
    attributes = function.attributes
    return tuple(attributes[n] for n in names if n in attributes)


def _check_types(op: ir.OpView, functions: Mapping[str, func.FuncOp]) -> None:
    if isinstance(op, RelaxOperation):
        _check_attributes(op)
    derived = derived_types(op, functions)
    for number, type_ in enumerate(derived or ()):
        stated = op.results[number].type
        if stated != type_ and not _is_less_precise(op, stated, type_):
            raise ValueError(
                f"result {number}: expected `{type_}`, got `{stated}`. "
                "Hint: `relax-infer-shapes` derives types anew."
            )


def _is_less_precise(op: ir.OpView, stated: ir.Type, type_: ir.Type) -> bool:
    """Whether a call states a less precise type than its callee."""
    if not isinstance(op, graph.CallOp):
        return False
    symbols = Symbols()
    return from_mlir(stated, symbols).is_base_of(from_mlir(type_, symbols))


def _check_attributes(op: RelaxOperation) -> None:
    """Checks attribute classes: IRDL in LLVM 22 cannot constrain those of arrays and booleans."""
    for name, kind in op.attribute_fields.items():
        attr = op.attributes[name]
        is_left_out = name in op.optional_attributes and isinstance(attr, ir.UnitAttr)
        if kind is not ir.Attribute and not is_left_out and not isinstance(attr, kind):
            raise ValueError(f"`{name}`: expected {kind.__name__}, got `{attr}`")
