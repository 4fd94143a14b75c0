"""Supplies of unique names."""

from collections.abc import Iterable

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr import GlobalVar

__all__ = ["GlobalVarSupply", "UniqueNameSupply"]


class UniqueNameSupply:
    """Supplies unique names: ``x``, ``x_1``, ``x_2``, ...

    Args:
        prefix: prefix of all names, followed by an underscore.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def fresh_name(
        self, name: str, add_prefix: bool = True, add_underscore: bool = True
    ) -> str:
        """``name``, or ``name`` with the first number that makes it unique.

        Args:
            name: the preferred name.
            add_prefix: whether to prepend the supply's prefix.
            add_underscore: whether to put an underscore before the number.
        """
        base_name = fresh = self._full(name, add_prefix)
        count = 0
        while fresh in self._taken:
            count += 1
            fresh = f"{base_name}{'_' if add_underscore else ''}{count}"
        self._taken.add(fresh)
        return fresh

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Marks a name as used and returns it with its prefix."""
        full = self._full(name, add_prefix)
        self._taken.add(full)
        return full

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """Whether a name is in use."""
        return self._full(name, add_prefix) in self._taken

    def _full(self, name: str, add_prefix: bool) -> str:
        has_prefix = add_prefix and self._prefix
        return f"{self._prefix}_{name}" if has_prefix else name


class GlobalVarSupply:
    """Supplies unique global variables for the functions of a module.

    Args:
        value: a supply of names; or modules whose function names are in use.
    """

    def __init__(
        self, value: UniqueNameSupply | IRModule | Iterable[IRModule] | None = None
    ) -> None:
        is_supply = isinstance(value, UniqueNameSupply)
        self.name_supply = value if is_supply else UniqueNameSupply()
        self._known: dict[str, GlobalVar] = {}
        modules = () if value is None or is_supply else value
        listed = (
            (modules,)
            if isinstance(modules, IRModule)
            else sequence_of(modules, "GlobalVarSupply: `value`", "modules")
        )
        for module in listed:
            instance_of(module, IRModule, "GlobalVarSupply: `value`", "modules")
            for variable in module.get_global_vars():
                self.reserve_global(variable)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """A new global variable with a unique name."""
        fresh = GlobalVar(self.name_supply.fresh_name(name, add_prefix))
        self._known[fresh.name_hint] = fresh
        return fresh

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The global variable of this name, the same at each call."""
        full = self.name_supply.reserve_name(name, add_prefix)
        return self._known.setdefault(full, GlobalVar(full))

    def reserve_global(
        self, global_var: GlobalVar, allow_conflict: bool = False
    ) -> None:
        """Marks the name of a global variable as used.

        Args:
            global_var: the global variable.
            allow_conflict: whether to accept that another global variable has the name.

        Raises:
            ValueError: another global variable has the name.
        """
        name = global_var.name_hint
        known = self._known.setdefault(name, global_var)
        if known is not global_var and not allow_conflict:
            raise ValueError(f"reserve_global: the name `{name}` is taken")
        self.name_supply.reserve_name(name, add_prefix=False)
