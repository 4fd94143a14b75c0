"""Side effects of operations; passes derive purity from these flags alone."""

from enum import Flag, auto

__all__ = ["Effects"]


class Effects(Flag):
    """Side effects of an operation.

    Passes test a property (:attr:`is_mergeable`, ...) rather than single flags.
    """

    NONE = 0
    ALLOCATES = auto()
    """The result is newly allocated memory, so two calls never return the same buffer."""
    READS = auto()
    """The result depends on memory that other operations may write."""
    WRITES = auto()
    """Existing memory is written or freed."""
    OVERWRITES = auto()
    """An operand is updated in place; Relax guarantees that it is not read afterwards."""
    CHECKS = auto()
    """Execution stops with an error unless a condition holds."""
    CALLS = auto()
    """Calls code that is declared pure but may fail or not terminate."""
    OBSERVED = auto()
    """Execution is observable outside of the program, such as I/O."""

    UNKNOWN = WRITES | OBSERVED
    """Conservative effects of code that cannot be analysed."""

    @property
    def is_pure(self) -> bool:
        """Whether Relax considers it pure, so that a dataflow block may contain it."""
        return not self & (Effects.WRITES | Effects.OBSERVED)

    @property
    def is_removable(self) -> bool:
        """Whether dead code elimination may erase it when its results are unused."""
        return self.is_pure and not self & (Effects.OVERWRITES | Effects.CHECKS)

    @property
    def is_mergeable(self) -> bool:
        """Whether common subexpression elimination may merge it with an equal operation."""
        kept = Effects.CHECKS | Effects.CALLS
        return not self & ~kept

    @property
    def is_speculatable(self) -> bool:
        """Whether it may be executed speculatively, for example hoisted out of a branch."""
        return not self & ~Effects.ALLOCATES

    @property
    def may_write(self) -> bool:
        """Whether it may modify the memory of an operand."""
        return bool(self & (Effects.WRITES | Effects.OVERWRITES))
