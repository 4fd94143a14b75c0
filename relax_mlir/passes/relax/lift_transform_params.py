"""``relax-lift-transform-params``: what depends on weights alone is computed ahead."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallDpsPackedOp, TupleGetItemOp
from relax_mlir.graphs import (
    drop_unread,
    erase_parameters,
    graph_attrs,
    graph_functions,
    is_inline,
    is_pure,
    set_graph_attrs,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.rewriting import Pass, clone, has_uses

__all__ = ["LiftTransformParams"]


@dataclass(frozen=True)
class LiftTransformParams(Pass):
    """Move what a function computes of its weights to ``<function>_transform_params``.

    Weights are the parameters after the first ``num_input``, an attribute of the function,
    which from then on takes what the other function gives.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            count = graph_attrs(function).get("num_input")
            if count is not None:
                _Lifting(module, function, int(count)).run()


class _Lifting:
    """The move for one function.

    Args:
        module: the module.
        function: the function.
        count: how many of its parameters are no weights.
    """

    def __init__(self, module: IRModule, function: func.FuncOp, count: int) -> None:
        self.module, self.function, self.count = module, function, count
        self.weights = list(function.entry_block.arguments)[count:]
        self.lifted = self._find_lifted()

    def _find_lifted(self) -> list[ir.OpView]:
        """The bindings that read nothing but weights, constants and each other."""
        known: set[ir.Value] = set(self.weights)
        found: list[ir.OpView] = []
        for op in self.function.entry_block.operations:
            operands = op.operation.operands
            may_move = is_pure(op) or isinstance(op, CallDpsPackedOp)
            is_leaf = not len(operands) and is_inline(op)
            if not may_move or not all(v in known for v in operands):
                continue
            if isinstance(op, graph.IfOp) or not len(op.operation.results):
                continue
            known.update(op.operation.results)
            if not is_leaf:
                found.append(op)
        return [op for op in found if names.NAME in op.attributes]

    def run(self) -> None:
        """Write the new function, and take its results as parameters."""
        values = self._outputs()
        self._write(values)
        block = self.function.entry_block
        called = [n or f"arg{i}" for i, n in enumerate(names.arg_names(self.function))]
        new: list[str] = []
        inside = set(self.lifted)
        for number, value in enumerate(values):
            argument = block.add_argument(value.type, self.function.location)
            for use in list(value.uses):
                if self._reader(use.owner) not in inside:
                    use.owner.operation.operands[use.operand_number] = argument
            new.append(self._name(value, number, called))
        for op in reversed(self.lifted):
            for result in op.operation.results:
                for use in list(result.uses):
                    if is_inline(use.owner):
                        use.owner.operation.erase()
            op.operation.erase()
        drop_unread(self.function)
        old = range(self.count, self.count + len(self.weights))
        if "arg_attrs" in self.function.attributes:
            del self.function.attributes["arg_attrs"]
        erase_parameters(self.function, old)
        names.set_arg_names(self.function, [*called[: self.count], *new])

    @staticmethod
    def _reader(user: ir.OpView) -> ir.OpView:
        while is_inline(user) and has_uses(user.operation.results[0]):
            user = next(iter(user.operation.results[0].uses)).owner
        return user

    def _outputs(self) -> list[ir.Value]:
        """What the rest of the function reads: weights first, then what is computed."""
        inside = set(self.lifted)
        made = [r for op in self.lifted for r in op.operation.results]
        return [
            value
            for value in (*self.weights, *made)
            if any(self._reader(use.owner) not in inside for use in value.uses)
        ]

    def _name(self, value: ir.Value, number: int, called: list[str]) -> str:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return called[ir.BlockArgument(value).arg_number]
        return ir.StringAttr(owner.attributes[names.NAME]).value or f"param{number}"

    def _write(self, values: list[ir.Value]) -> None:
        name = f"{self.function.name.value}_transform_params"
        type_ = ir.TupleType.get_tuple([w.type for w in self.weights])
        last = list(self.function.entry_block.operations)[-1]
        with ir.InsertionPoint(self.module.mlir.body), last.location:
            made = func.FuncOp(name, ir.FunctionType.get([type_], []))
            block = made.add_entry_block()
            with ir.InsertionPoint(block):
                result = self._fill(block.arguments[0], values)
                func.ReturnOp([result])
        update_type(made)
        names.set_arg_names(made, ["params"])
        set_graph_attrs(made, {"global_symbol": name, "num_input": 0})

    def _fill(self, params: ir.Value, values: list[ir.Value]) -> ir.Value:
        mapping: dict[ir.Value, ir.Value] = {}
        for op in self.lifted:
            for operand in op.operation.operands:
                self._take(operand, params, mapping)
            clone(op, mapping)
            _bind(mapping[op.operation.results[0]].owner.opview)
        for value in values:
            self._take(value, params, mapping)
        whole = tensors.pack([mapping[v] for v in values]).owner.opview
        _bind(whole, "gv")
        whole.operation.attributes[names.OUTPUT] = ir.UnitAttr.get()
        return whole.operation.results[0]

    def _take(
        self, value: ir.Value, params: ir.Value, mapping: dict[ir.Value, ir.Value]
    ) -> None:
        """Make what an operand is: an element of the tuple, or what is written down."""
        if value in mapping:
            return
        if value in self.weights:
            item = TupleGetItemOp(params, index=self.weights.index(value))
            _bind(item)
            mapping[value] = item.result
        elif not isinstance(value.owner, ir.Block) and is_inline(value.owner):
            for operand in value.owner.operands:
                self._take(operand, params, mapping)
            clone(value.owner.opview, mapping)


def _bind(op: ir.OpView, name: str = "lv") -> None:
    """Bind an operation in the one dataflow block of the new function."""
    attributes = op.operation.attributes
    if names.NAME not in attributes:
        attributes[names.NAME] = ir.StringAttr.get(name)
    attributes[names.BLOCK] = to_attribute(0)
    if names.OUTPUT in attributes:
        del attributes[names.OUTPUT]
