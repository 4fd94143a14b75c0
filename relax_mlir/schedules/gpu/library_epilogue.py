"""Epilogues that cuBLASLt and cuDNN fuse (bias, residual, ReLU), read from the statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.schedules.constant_scalars import constant_value
from relax_mlir.schedules.epilogue import ElementwiseStatement
from relax_mlir.schedules.kernel_view import Access
from relax_mlir.schedules.rule import NotApplicable

__all__ = ["LibraryEpilogue", "read_epilogue"]

_OLT, _OLE, _OGT, _OGE = 4, 5, 2, 3  # predicates of arith.cmpf


@dataclass(frozen=True)
class LibraryEpilogue:
    """The epilogue of a library call, applied in this order.

    Attributes:
        bias: one number per column, or channel.
        residual: of the shape of the result.
        activation: ``none`` or ``relu``.
    """

    bias: Access | None = None
    residual: Access | None = None
    activation: str = "none"


def read_epilogue(
    maps: Sequence[ElementwiseStatement],
    result: Access,
    function: func.FuncOp,
    is_bias: Callable[[Access], bool],
    is_residual: Callable[[Access], bool] = lambda _: False,
) -> LibraryEpilogue:
    """Matches the elementwise statements after a contraction with a library's epilogue.

    Intermediate rounding to the stored type is dropped: libraries round once, at the end.

    Args:
        maps: the elementwise statements.
        result: the accumulator of the contraction.
        is_bias, is_residual: whether an operand of the stored type has that access map.

    Raises:
        NotApplicable: they are not such an epilogue.
    """
    reader = _Reader(maps, result, is_bias, is_residual)
    for statement_map in maps:
        reader.read(statement_map)
    epilogue = reader.epilogue
    if epilogue.bias is not None and _is_overwritten(epilogue.bias.buffer, function):
        raise NotApplicable("its bias may alias its result")
    return epilogue


def _is_overwritten(buffer: ir.Value, function: func.FuncOp) -> bool:
    """Whether a buffer is an argument whose memory the result may reuse."""
    if attribute_names.IN_PLACE not in function.attributes:
        return False
    numbers = ir.DenseI64ArrayAttr(function.attributes[attribute_names.IN_PLACE])
    return buffer in [function.arguments[number] for number in numbers]


class _Reader:
    """Pattern matcher that follows the accumulator through elementwise statements."""

    def __init__(
        self,
        maps: Sequence[ElementwiseStatement],
        result: Access,
        is_bias: Callable[[Access], bool],
        is_residual: Callable[[Access], bool],
    ) -> None:
        self._kinds = {"bias": is_bias, "residual": is_residual}
        self.epilogue = LibraryEpilogue()
        self._buffer = result.buffer  # holds the current results
        self._results: set[ir.Value] = set()  # values of the current results in a body
        # Values of a body that may be added to them: the kind, and the operand.
        self._addends: dict[ir.Value, tuple[str, Access]] = {}
        last = maps[-1].output if maps else result
        self._stored = last.buffer.type.element_type

    def read(self, statement_map: ElementwiseStatement) -> None:
        """Matches one elementwise statement.

        Raises:
            NotApplicable: no library fuses it.
        """
        body = statement_map.statement.body
        self._results, self._addends = set(), {}
        for value, access in zip(body.arguments, statement_map.inputs, strict=False):
            if access.buffer == self._buffer:
                self._results.add(value)
            elif access.buffer.type.element_type == self._stored:
                matching = [kind for kind, fit in self._kinds.items() if fit(access)]
                self._addends.update((value, (kind, access)) for kind in matching[:1])
        for operation in list(own_operations(body))[:-1]:
            self._match_operation(operation)
        if statement_map.statement.yielded[0] not in self._results:
            raise NotApplicable(_UNSUPPORTED)
        self._buffer = statement_map.output.buffer

    def _match_operation(self, operation: ir.OpView) -> None:
        name, operands = operation.operation.name, list(operation.operation.operands)
        if name in ("arith.constant", "arith.cmpf"):
            return  # matched with their users
        (result,) = operation.operation.results
        if name in ("arith.truncf", "arith.extf"):
            is_stored_type = self._stored in (result.type, operands[0].type)
            if operands[0] in self._addends:
                self._addends[result] = self._addends[operands[0]]
                return
            if operands[0] in self._results and is_stored_type:
                self._results.add(result)
                return
        if name == "arith.addf" and self._match_addition(operands):
            self._results = {result}
            return
        if _relu_operand(operation) in self._results:
            self._results = {result}
            self.epilogue = replace(self.epilogue, activation="relu")
            return
        raise NotApplicable(_UNSUPPORTED)

    def _match_addition(self, operands: list[ir.Value]) -> bool:
        """Matches the addition of a bias or a residual to the current results."""
        for value, addend in (operands, operands[::-1]):
            if value not in self._results or addend not in self._addends:
                continue
            kind, access = self._addends[addend]
            if (
                getattr(self.epilogue, kind) is None
                and self.epilogue.activation == "none"
            ):
                self.epilogue = replace(self.epilogue, **{kind: access})
                return True
        return False


_UNSUPPORTED = "its epilogue is not one that the library fuses"


def _relu_operand(operation: ir.OpView) -> ir.Value | None:
    """The operand of a ReLU, as a maximum or as a select; None for other operations."""
    operands = list(operation.operation.operands)
    if operation.operation.name in ("arith.maximumf", "arith.maxnumf"):
        values = [v for v in operands if constant_value(v) != 0]
        return values[0] if len(values) == 1 else None
    if operation.operation.name != "arith.select":
        return None
    condition, on_true, on_false = operands
    compared = condition.owner
    if isinstance(compared, ir.Block) or compared.name != "arith.cmpf":
        return None
    value, zero = compared.operands
    predicate = ir.IntegerAttr(compared.attributes["predicate"]).value
    if predicate in (_OLT, _OLE):
        on_true, on_false = on_false, on_true
    elif predicate not in (_OGT, _OGE):
        return None
    is_relu = (
        on_true == value and constant_value(zero) == 0 and constant_value(on_false) == 0
    )
    return value if is_relu else None
