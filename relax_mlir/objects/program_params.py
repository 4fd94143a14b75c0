"""The parameters of a tensor program, between scripts and MLIR.

A script lists pointers and numbers in any order; the function takes buffers, then sizes
(parameters, and those that only shapes of buffers mention), then other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import marks
from relax_mlir.objects import names, prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.memrefs import buffer_marks, memref_type, parts_of
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.objects.value_types import pointee, scalar_type

__all__ = ["Params"]


class Params:
    """What a tensor program takes.

    Attributes:
        order: pointers and numbers as a script lists them.
        buffers: the buffer of each pointer.
        symbols: the sizes.
    """

    def __init__(self) -> None:
        self.order: list[Var] = []
        self.buffers: dict[int, Buffer] = {}
        self.symbols = Symbols()
        self._sizes: list[Var] = []

    def add(self, var: Var) -> None:
        """One more parameter."""
        self.order.append(var)

    def match(self, handle: Var, buffer: Buffer) -> None:
        """Say which buffer a pointer is.

        Raises:
            ValueError: it is no parameter, or has a buffer.
        """
        if not any(handle is var for var in self.order):
            raise ValueError(f"`{handle.name}` is no parameter: expected a pointer")
        if id(handle) in self.buffers:
            raise ValueError(f"`{handle.name}` has a buffer already")
        self.buffers[id(handle)] = buffer

    def _matched(self) -> list[tuple[Var, Buffer]]:
        return [
            (var, self.buffers[id(var)])
            for var in self.order
            if id(var) in self.buffers
        ]

    def _scalars(self) -> list[Var]:
        return [v for v in self.order if id(v) not in self.buffers]

    def _is_size(self, var: Var) -> bool:
        return var.dtype in ("int32", "int64")

    def create(self, function: func.FuncOp, terms: TermWriter) -> None:
        """Make the arguments of the function, and say what they are."""
        block, loc = function.entry_block, ir.Location.unknown()
        for handle, buffer in self._matched():
            terms.place(handle)
            terms.define_buffer(buffer, block.add_argument(memref_type(buffer), loc))
        explicit = [v for v in self._scalars() if self._is_size(v)]
        shapes = [s for _, b in self._matched() for s in (*b.shape, *b.strides)]
        mentioned = _variables(shapes)
        self._sizes = list({id(v): v for v in (*mentioned, *explicit)}.values())
        for var in self._sizes:
            self.symbols.name(var)
            value = block.add_argument(ir.IndexType.get(), loc)
            terms.define(var, value)
            if isinstance(var, prim.SizeVar) or any(var is v for v in mentioned):
                terms.sizes.add(value)
        for var in self._others():
            terms.define(var, block.add_argument(_scalar_type(var), loc))

    def _others(self) -> list[Var]:
        return [v for v in self._scalars() if not self._is_size(v)]

    def mark(self, function: func.FuncOp, outputs: int | None) -> None:
        """Write type and attributes of the function; its body is there."""
        matched = self._matched()
        arguments = list(function.entry_block.arguments)
        types = [a.type for a in arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get(types, [])
        )
        attributes = function.attributes
        attributes["tir.prim_func"] = ir.UnitAttr.get()
        count = _written(arguments[: len(matched)]) if outputs is None else outputs
        attributes["tir.num_outputs"] = to_attribute(count)
        order = self._order()
        natural = sorted(order)
        if order != natural:
            attributes[marks.ORDER] = ir.DenseI64ArrayAttr.get(order)
        described = [
            *(self._describe(handle, buffer) for handle, buffer in matched),
            *map(self._describe_size, self._sizes),
            *map(_describe_scalar, self._others()),
        ]
        if described:
            attributes["arg_attrs"] = ir.ArrayAttr.get(
                [ir.DictAttr.get(d) for d in described]
            )

    def _order(self) -> list[int]:
        """The number of the argument that each parameter is."""
        listed = [*(h for h, _ in self._matched()), *self._sizes, *self._others()]
        number = {id(var): i for i, var in enumerate(listed)}
        return [number[id(var)] for var in self.order]

    def _describe(self, handle: Var, buffer: Buffer) -> dict[str, ir.Attribute]:
        found = dict(buffer_marks(buffer))
        found[names.NAME] = ir.StringAttr.get(buffer.name)
        if handle.name != f"var_{buffer.name}":
            found[marks.HANDLE] = ir.StringAttr.get(handle.name)
        if any(not isinstance(s, prim.IntImm) for s in buffer.shape):
            found["tir.shape"] = tensors.shape_attr(self.symbols.dims(buffer.shape))
        return found

    def _describe_size(self, var: Var) -> dict[str, ir.Attribute]:
        found: dict[str, ir.Attribute] = {
            marks.SYMBOL: ir.StringAttr.get(self.symbols.name(var)),
            names.NAME: ir.StringAttr.get(var.name),
        }
        if any(var is v for v in self.order):
            found[marks.PARAM] = ir.UnitAttr.get()
        if var.dtype != "int64":
            found[marks.DTYPE] = ir.StringAttr.get(var.dtype)
        return found

    def scope(self) -> FunctionScope:
        """The objects that the function's arguments are."""
        scope = FunctionScope()
        scope.symbols = self.symbols
        matched = self._matched()
        listed = [*matched, *((v, None) for v in (*self._sizes, *self._others()))]
        scope.arguments = dict(enumerate(listed))
        return scope


def _variables(terms: Sequence[PrimExpr]) -> list[Var]:
    """The variables in terms, in the order of their first mention."""
    found = {
        id(t): t for term in terms for t in prim.post_order(term) if isinstance(t, Var)
    }
    return list(found.values())


def _scalar_type(var: Var) -> ir.Type:
    return scalar_type(var.dtype)


def _describe_scalar(var: Var) -> dict[str, ir.Attribute]:
    found: dict[str, ir.Attribute] = {
        names.NAME: ir.StringAttr.get(var.name),
        marks.PARAM: ir.UnitAttr.get(),
    }
    found |= pointee(var)
    if var.dtype.startswith("uint"):
        found[marks.DTYPE] = ir.StringAttr.get(var.dtype)
    return found


def _written(buffers: Sequence[ir.Value]) -> int:
    """How many buffers there are from the first on that the program writes."""
    for number, buffer in enumerate(buffers):
        uses = [use.owner.operation for part in parts_of(buffer) for use in part.uses]
        if any(map(_may_write, uses)):
            return len(buffers) - number
    return 0


def _may_write(op: ir.Operation) -> bool:
    if op.name == "tir.address":
        return any(u.owner.name != "tir.decl_buffer" for u in op.results[0].uses)
    return op.name in ("memref.store", "tir.vector_store")
