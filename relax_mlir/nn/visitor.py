"""Mutator of networks: replaces modules, parameters and effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.nn.effect import Effect
from relax_mlir.nn.module import (
    Module,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
)
from relax_mlir.nn.tensor import Parameter
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.support.argument_types import check_exports

__all__ = ["Mutator"]


class Mutator:
    """Visits all members of a network, and replaces each by the result of the visit.

    Override a method to replace members of its class. Names are qualified, such as
    ``layers.0.weight``.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """Visit a module."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """Visit an effect."""
        return self.visit(name, node)

    def visit_param(self, name: str, node: Parameter) -> Any:
        """Visit a parameter."""
        return self.visit(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Visit a dictionary of modules."""
        return self.visit(name, node)

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Visit a list of modules."""
        return self.visit(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """Visit a dictionary of parameters."""
        return self.visit(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """Visit a list of parameters."""
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Visit and replace the members of ``node``, and return it.

        Args:
            name: the qualified name; empty for the root.
            node: a module, or a member without members.
        """
        instance_of(name, str, "Mutator.visit: `name`", "a string")
        if isinstance(node, Module):
            for key, member in list(node._members()):
                visit = self._visit_of(member)
                if visit is not None:
                    own = f"{name}.{key}" if name else key
                    node._replace_member(key, visit(own, member))
        return node

    def _visit_of(self, member: Any) -> Callable[[str, Any], Any] | None:
        """The visit method of a member; None for other attributes."""
        kinds = {
            ParameterDict: self.visit_parameterdict,
            ParameterList: self.visit_parameterlist,
            ModuleDict: self.visit_moduledict,
            ModuleList: self.visit_modulelist,
            Module: self.visit_module,
            Effect: self.visit_effect,
            Parameter: self.visit_param,
        }
        return next((v for k, v in kinds.items() if isinstance(member, k)), None)


check_exports(globals())
