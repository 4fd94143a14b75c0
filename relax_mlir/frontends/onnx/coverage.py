"""Operator coverage: which nodes of a graph have a rule."""

from dataclasses import replace

from relax_mlir.dialects.op_interface import find_onnx_rule
from relax_mlir.frontends.onnx.functions import Functions
from relax_mlir.frontends.onnx.graph import Node
from relax_mlir.frontends.onnx.report import (
    OnnxReport,
    Problem,
    Uncovered,
    error_sentence,
)
from relax_mlir.frontends.onnx.schemas import check_node
from relax_mlir.frontends.onnx.scope import Scope
from relax_mlir.frontends.onnx.stages import HOST_OPERATORS, TEXT_OPERATORS

__all__ = ["Coverage"]


class Coverage:
    """Reports operators without a rule and invalid nodes.

    Args:
        functions: the bodies that define operators.
        report: receives the gaps and problems.
    """

    def __init__(self, functions: Functions, report: OnnxReport) -> None:
        """Keep the functions and the report."""
        self._functions = functions
        self._report = report

    def has_rule(self, node: Node, scope: Scope) -> bool:
        """Whether a rule or a function body handles a node, judging only by its operator."""
        opset = node.opset or scope.opsets.get(node.domain, 0)
        return (
            node.op_type == "If"
            or node.op_type in HOST_OPERATORS
            or node.op_type in TEXT_OPERATORS
            or find_onnx_rule(node.op_type, opset) is not None
            or self._functions.is_function(node, opset)
        )

    def add_gap(self, node: Node, scope: Scope) -> None:
        """Report a node whose operator has no rule."""
        opset = node.opset or scope.opsets.get(node.domain, 0)
        found = Uncovered(node.op_type, opset)
        found = self._report.uncovered.setdefault(node.op_type, found)
        name = scope.path + node.name
        if (
            name not in found.nodes[-1:]
        ):  # a function is visited twice when it is inlined
            found.nodes.append(name)

    def add_problem(self, node: Node, scope: Scope, error: Exception) -> None:
        """Report an error of a node."""
        text = error_sentence(error)
        if not isinstance(error, (ValueError, NotImplementedError)):
            text = f"{type(error).__name__}: {text}"
        name = scope.path + node.name
        message = f"node `{name}` ({node.op_type}): {text}"
        self._report.problems.append(Problem(message, error))

    def check_deferred(self, node: Node, scope: Scope) -> None:
        """Check the coverage of a deferred node and of the graphs in it."""
        if not self.has_rule(node, scope):
            self.add_gap(node, scope)
        elif node.opset is not None or node.domain in scope.opsets:
            try:
                check_node(node, scope.opset(node))
            except ValueError as error:
                self.add_problem(node, scope, error)
        self.check_bodies(node, scope)

    def check_bodies(self, node: Node, scope: Scope) -> None:
        """Check the coverage of the graphs in a node."""
        inside = replace(scope, path=f"{scope.path}{node.name}/")
        for body in node.bodies.values():
            for inner in body.nodes:
                names = self._report.operators.setdefault(inner.op_type, [])
                names.append(inside.path + inner.name)
                self.check_deferred(inner, inside)
