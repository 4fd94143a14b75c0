"""What libraries do to sums: add a bias or a residual, a ReLU; read from maps that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import marks
from relax_mlir.schedules.constants import number_of
from relax_mlir.schedules.epilogue import Map
from relax_mlir.schedules.nest import Access
from relax_mlir.schedules.rule import Refusal
from relax_mlir.traversal import own_operations

__all__ = ["LibraryEpilogue", "read_epilogue"]

_OLT, _OLE, _OGT, _OGE = 4, 5, 2, 3  # of arith.cmpf's predicates


@dataclass(frozen=True)
class LibraryEpilogue:
    """What is done to the results of a sum, in this order.

    Attributes:
        bias: what is added, one number for each column, or channel.
        residual: what is added, one number for each result.
        activation: ``none`` or ``relu``.
    """

    bias: Access | None = None
    residual: Access | None = None
    activation: str = "none"


def read_epilogue(
    maps: Sequence[Map],
    result: Access,
    function: func.FuncOp,
    is_bias: Callable[[Access], bool],
    is_residual: Callable[[Access], bool] = lambda _: False,
) -> LibraryEpilogue:
    """What the maps of a sum are, if a library does that.

    Results that are rounded on the way to the type that is stored are rounded at the end
    alone.

    Args:
        result: where the sum would be written.
        is_bias, is_residual: whether operands of the stored type are read so.

    Raises:
        Refusal: they are something else.
    """
    reader = _Reader(maps, result, is_bias, is_residual)
    for following in maps:
        reader.read(following)
    found = reader.found
    if found.bias is not None and _is_overwritten(found.bias.buffer, function):
        raise Refusal("its bias may lie where its result does")
    return found


def _is_overwritten(buffer: ir.Value, function: func.FuncOp) -> bool:
    """Whether the result of a function may take the memory of an argument."""
    if marks.IN_PLACE not in function.attributes:
        return False
    numbers = ir.DenseI64ArrayAttr(function.attributes[marks.IN_PLACE])
    return buffer in [function.arguments[number] for number in numbers]


class _Reader:
    """Follows the results of a sum through maps."""

    def __init__(
        self,
        maps: Sequence[Map],
        result: Access,
        is_bias: Callable[[Access], bool],
        is_residual: Callable[[Access], bool],
    ) -> None:
        self._kinds = {"bias": is_bias, "residual": is_residual}
        self.found = LibraryEpilogue()
        self._buffer = result.buffer  # that has the results so far
        self._results: set[ir.Value] = set()  # that are them so far, in a map
        # What may be added to them, in a map: how, and where it is read.
        self._added: dict[ir.Value, tuple[str, Access]] = {}
        last = maps[-1].output if maps else result
        self._stored = last.buffer.type.element_type

    def read(self, following: Map) -> None:
        """Note what a map does.

        Raises:
            Refusal: a library does not do it.
        """
        body = following.statement.body
        self._results, self._added = set(), {}
        for value, access in zip(body.arguments, following.inputs, strict=False):
            if access.buffer == self._buffer:
                self._results.add(value)
            elif access.buffer.type.element_type == self._stored:
                fits = [kind for kind, fit in self._kinds.items() if fit(access)]
                self._added.update((value, (kind, access)) for kind in fits[:1])
        for operation in list(own_operations(body))[:-1]:
            self._take(operation)
        if following.statement.yielded[0] not in self._results:
            raise Refusal(_OTHER)
        self._buffer = following.output.buffer

    def _take(self, operation: ir.OpView) -> None:
        name, operands = operation.operation.name, list(operation.operation.operands)
        if name in ("arith.constant", "arith.cmpf"):
            return  # looked at where they are used
        (result,) = operation.operation.results
        if name in ("arith.truncf", "arith.extf"):
            is_stored = self._stored in (result.type, operands[0].type)
            if operands[0] in self._added:
                self._added[result] = self._added[operands[0]]
                return
            if operands[0] in self._results and is_stored:
                self._results.add(result)
                return
        if name == "arith.addf" and self._take_sum(operands):
            self._results = {result}
            return
        if _relu_of(operation) in self._results:
            self._results = {result}
            self.found = replace(self.found, activation="relu")
            return
        raise Refusal(_OTHER)

    def _take_sum(self, operands: list[ir.Value]) -> bool:
        """Whether these are the results so far, and what may be added to them now."""
        for value, other in (operands, operands[::-1]):
            if value not in self._results or other not in self._added:
                continue
            kind, access = self._added[other]
            if getattr(self.found, kind) is None and self.found.activation == "none":
                self.found = replace(self.found, **{kind: access})
                return True
        return False


_OTHER = "what follows its sum is more than a library does"


def _relu_of(operation: ir.OpView) -> ir.Value | None:
    """What an operation gives the larger of, that and 0; None if it does something else."""
    operands = list(operation.operation.operands)
    if operation.operation.name in ("arith.maximumf", "arith.maxnumf"):
        values = [v for v in operands if number_of(v) != 0]
        return values[0] if len(values) == 1 else None
    if operation.operation.name != "arith.select":
        return None
    condition, chosen, other = operands
    compared = condition.owner
    if isinstance(compared, ir.Block) or compared.name != "arith.cmpf":
        return None
    value, zero = compared.operands
    predicate = ir.IntegerAttr(compared.attributes["predicate"]).value
    if predicate in (_OLT, _OLE):
        chosen, other = other, chosen
    elif predicate not in (_OGT, _OGE):
        return None
    is_relu = chosen == value and number_of(zero) == 0 and number_of(other) == 0
    return value if is_relu else None
