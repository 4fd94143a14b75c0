"""Side effects of operations: the one definition of purity that passes ask."""

from enum import Flag, auto

__all__ = ["Effects"]


class Effects(Flag):
    """What an operation does beside computing its results.

    Passes ask for a property (:attr:`is_mergeable`, ...), not for single effects.
    """

    NONE = 0
    ALLOCATES = auto()
    """The result is new memory: two results are never one."""
    READS = auto()
    """The result depends on memory, which other operations may write to."""
    WRITES = auto()
    """Memory that was there before is written to, or freed."""
    OVERWRITES = auto()
    """An operand is written to, which Relax promises that nothing reads later."""
    CHECKS = auto()
    """The program stops unless something holds."""
    CALLS = auto()
    """Code runs that is said to be pure, but may fail or not end."""
    OBSERVED = auto()
    """Somebody outside of the program sees that it ran."""

    UNKNOWN = WRITES | OBSERVED
    """The bound for code of which nothing is known."""

    @property
    def is_pure(self) -> bool:
        """Whether Relax calls it pure: a dataflow block may hold it."""
        return not self & (Effects.WRITES | Effects.OBSERVED)

    @property
    def is_removable(self) -> bool:
        """Whether an operation whose results nothing reads need not run."""
        return self.is_pure and not self & (Effects.OVERWRITES | Effects.CHECKS)

    @property
    def is_mergeable(self) -> bool:
        """Whether an equal operation in front of it makes the same results."""
        kept = Effects.CHECKS | Effects.CALLS
        return not self & ~kept

    @property
    def is_speculatable(self) -> bool:
        """Whether it may run where the program does not run it."""
        return not self & ~Effects.ALLOCATES

    @property
    def may_write(self) -> bool:
        """Whether memory that an operand is may hold something else afterwards."""
        return bool(self & (Effects.WRITES | Effects.OVERWRITES))
