"""Importer of exported torch programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from relax_mlir.compiler.module_kind import TORCH_IMPORTER
from relax_mlir.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ModelError,
    UnsupportedError,
)
from relax_mlir.frontends.torch.graph import Custom, GraphImporter
from relax_mlir.frontends.torch.rules import rules
from relax_mlir.frontends.torch.tensors import array_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import set_constraints
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Expr, Tuple, Var
from relax_mlir.objects.mlir_attributes import ArrayName

__all__ = ["decompositions", "from_exported", "from_graph", "from_model"]


def from_exported(
    program: Any,  # Any: torch.export.ExportedProgram
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = True,
    custom_convert_map: Mapping[str, Custom] | None = None,
    run_decompositions: bool = True,
) -> IRModule:
    """Import a ``torch.export.ExportedProgram`` as a Relax module.

    Its function ``main`` takes and returns the tensors of the program, in torch's
    flattened order. Mutated buffers and arguments are returned before the results.
    Dynamic sizes stay symbolic; a dynamic number n is passed as an array of shape [0, n].

    Args:
        program: the program.
        keep_params_as_input: parameters and buffers become parameters of ``main``, after
            the inputs; ``relax.frontend.detach_params`` returns their arrays. Otherwise
            they are constants: views of torch's memory.
        unwrap_unit_return_tuple: return the tensor itself, not a tuple, if there is one.
        custom_convert_map: user-defined rules by operator (``my_op.default``, or with its
            namespace): functions of a torch.fx node and the importer.
        run_decompositions: decompose operators without a rule into core ATen.

    Raises:
        UnsupportedError: operators have no rule; the message lists all of them.
        ModelError: a call is invalid.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise ModelError(
            f"`from_exported`: expected a `torch.export.ExportedProgram`, got "
            f"{type(program).__name__}. Hint: `torch.export.export(model, args)`."
        )
    if run_decompositions:
        table = decompositions(custom_convert_map)
        program = program.run_decompositions(table)
    imported = _Program(program, keep_params_as_input, custom_convert_map)
    return imported.module(unwrap_unit_return_tuple)


def from_model(
    model: Any,  # Any: torch.export.ExportedProgram, torch.nn.Module
    example_inputs: Sequence[Any] | None,
) -> IRModule:
    """Import an exported program, or a module that is exported with example inputs.

    Raises:
        ArgumentTypeError: a module has no example inputs, or a program has some.
        ArgumentValueError: a module is in training mode.
        UnsupportedError: operators have no rule, or torch cannot export the module.
    """
    if isinstance(model, torch.export.ExportedProgram):
        if example_inputs:
            raise ArgumentTypeError(
                "compile: `example_inputs`: expected a `torch.nn.Module`, got an ExportedProgram, "
                "which has them already"
            )
        return from_exported(model)
    name = type(model).__name__
    if example_inputs is None:
        raise ArgumentTypeError(
            f"compile: `{name}`: expected `example_inputs`, with which the module is traced. Hint: "
            "`compile(model, example_inputs=(x,))`"
        )
    if model.training:
        raise ArgumentValueError(
            f"compile: `{name}`: expected a module in evaluation mode. Hint: `model.eval()`"
        )
    try:
        with torch.no_grad():
            program = torch.export.export(model, tuple(example_inputs))
    except Exception as error:  # of torch, of many kinds
        raise UnsupportedError(
            f"compile: `{name}`: torch cannot export it: {type(error).__name__}: {error}"
        ) from error
    return from_exported(program)


TORCH_IMPORTER.set(from_model)


def decompositions(custom: Mapping[str, Custom] | None = None) -> Any:
    """Torch's default decompositions, without operators that have a rule."""
    table = torch.export.default_decompositions()
    for name in [*rules(), *(custom or ())]:
        overload = _overload(name)
        if overload is not None:
            table.pop(overload, None)
    return table


def _overload(name: str) -> Any:
    """The operator overload of a name, or None if the installed torch has none."""
    parts = name.split(".")
    found: Any = torch.ops
    for part in parts if len(parts) == 3 else ["aten", *parts]:
        found = getattr(found, part, None)
    return found if isinstance(found, torch._ops.OpOverload) else None


class _Program:
    """The import of one exported program."""

    def __init__(
        self, program: Any, keep_params: bool, custom: Mapping[str, Custom] | None
    ) -> None:
        self.program = program
        self.keep_params = keep_params
        self.graph = GraphImporter(BlockBuilder(), custom)
        self.inputs: list[Var] = []
        self.params: list[Var] = []
        self.weights: dict[str, Any] = {}

    def module(self, unwrap: bool) -> IRModule:
        """Build the module."""
        graph, builder = self.graph, self.graph.block_builder
        nodes = self.program.graph
        graph.check_covered(nodes)
        taken = self._bind_inputs(nodes)
        with builder.function("main", taken, attrs=self._attrs()):
            with builder.dataflow():
                graph.run(nodes, self.program.graph_module)
                result = builder.emit_output(self._result(unwrap))
            builder.emit_func_output(result)
        module = builder.finalize()
        ranges = graph.sizes.range_constraints(self.program.range_constraints)
        set_constraints(module, ranges)
        module.constants.update(self.weights)
        return module

    def _attrs(self) -> dict[str, Any]:
        if not self.keep_params:
            return {}
        params = [ArrayName(name, array) for name, array in self.weights.items()]
        return {"num_input": len(self.inputs), "params": params}

    def _bind_inputs(self, nodes: Any) -> list[Var]:
        """Bind the inputs of the graph; returns the function's parameters."""
        placeholders = {n.name: n for n in nodes.nodes if n.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            node = placeholders.get(getattr(spec.arg, "name", ""))
            if node is None:
                continue
            if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
                self._bind_user_input(node)
            else:
                self._bind_weight(node, spec)
        return [*self.inputs, *self.params]

    def _bind_user_input(self, node: Any) -> None:
        found = node.meta.get("val")
        if isinstance(found, (torch.Tensor, torch.SymInt)):
            self.inputs.append(self.graph.parameter(node, node.name))

    def _bind_weight(self, node: Any, spec: Any) -> None:
        value = self._weight(spec)
        if not isinstance(value, torch.Tensor):
            return  # an opaque operand; its call has no rule
        if self.keep_params:
            self.params.append(self.graph.parameter(node, node.name))
            self.weights[f"main.{node.name}"] = array_of(value)
        else:
            self.graph.bind_constant(node, value)

    def _weight(self, spec: Any) -> Any:
        for source in (self.program.state_dict, self.program.constants):
            if spec.target in source:
                return source[spec.target]
        return None

    def _result(self, unwrap: bool) -> Expr:
        outputs = next(n for n in self.program.graph.nodes if n.op == "output").args[0]
        found = [self._output(value) for value in outputs if value is not None]
        if len(found) == 1 and unwrap:
            return found[0]
        return Tuple(found)

    def _output(self, node: Any) -> Expr:
        if node in self.graph.env:
            return self.graph.env[node]
        shown = node.meta["val"] if isinstance(node, torch.fx.Node) else node
        raise UnsupportedError(f"output `{node}`: expected a tensor, got `{shown}`")


def from_graph(
    module: Any,  # Any: torch.fx.GraphModule
    frozen: Mapping[int, Any] | None = None,
    custom: Mapping[str, Custom] | None = None,
) -> tuple[IRModule, Sequence[Any]]:
    """Import a stateless graph of ATen operators as a Relax module.

    Args:
        module: the graph.
        frozen: constant tensors in place of inputs, by index.
        custom: user-defined rules.

    Returns:
        The module, whose ``main`` returns a tuple of tensors, and the graph's results:
        nodes, numbers and None.
    """
    graph = GraphImporter(BlockBuilder(), custom)
    builder = graph.block_builder
    graph.check_covered(module.graph)
    taken: list[Var] = []
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for index, node in enumerate(placeholders):
        if frozen and index in frozen:
            graph.bind_constant(node, frozen[index])
        else:
            taken.append(graph.parameter(node, node.name))
    with builder.function("main", taken):
        with builder.dataflow():
            returned = graph.run(module.graph, module)
            found = [graph.env[n] for n in returned if n in graph.env]
            result = builder.emit_output(Tuple(found))
        builder.emit_func_output(result)
    return builder.finalize(), returned
