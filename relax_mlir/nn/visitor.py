"""Change the parts of a network: replace modules, parameters and effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.argument_types import check_exports
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

__all__ = ["Mutator"]


class Mutator:
    """Visits all parts of a network and puts in place of each what the visit gives.

    Override a method to replace parts of its kind. The names that they get are those of
    the parameters: ``layers.0.weight``.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """A module."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """An effect."""
        return self.visit(name, node)

    def visit_param(self, name: str, node: Parameter) -> Any:
        """A parameter."""
        return self.visit(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """A dictionary of modules."""
        return self.visit(name, node)

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """A list of modules."""
        return self.visit(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """A dictionary of parameters."""
        return self.visit(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """A list of parameters."""
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Visit the parts of ``node``; it is returned.

        Args:
            name: what it is called; empty for the whole network.
            node: a module, or a part of one that has no parts itself.
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
        """The method for a member; None for one that is no part of the network."""
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
