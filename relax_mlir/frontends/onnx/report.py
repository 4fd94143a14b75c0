"""Import report: operators without a rule, and invalid nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relax_mlir.dialects.op_interface import onnx_operators
from relax_mlir.errors import ModelError, UnsupportedError, near_misses
from relax_mlir.frontends.onnx.schemas import find_schema

__all__ = ["OnnxReport", "Problem", "Uncovered", "error_sentence"]

_SHOWN = 3  # node names listed per operator


def error_sentence(error: Exception) -> str:
    """The text of an exception, with sentence punctuation."""
    text = str(error).strip() or type(error).__name__
    return text if text.endswith("?") else text.rstrip(".") + "."


@dataclass
class Uncovered:
    """An operator without a rule.

    Attributes:
        op_type: ``Name``, or ``domain::Name`` outside ai.onnx.
        opset: the version of its domain.
        nodes: names of the nodes that use it.
    """

    op_type: str
    opset: int
    nodes: list[str] = field(default_factory=list)

    @property
    def hint(self) -> str:
        """A likely reason why there is no rule."""
        domain, _, name = self.op_type.rpartition("::")
        later = onnx_operators().get(self.op_type)
        if later:
            return f"its rules start at opset {later[0]}, the model has {self.opset}"
        if find_schema(self.op_type, self.opset) is not None:
            return ""
        if domain:
            return f"the domain `{domain}` is not part of the standard"
        close = near_misses(name[:200], onnx_operators())
        return f"opset {self.opset} has no such operator.{close}".rstrip(".")

    def __str__(self) -> str:
        """One line with the nodes and the hint."""
        count = len(self.nodes)
        names = ", ".join(f"`{name}`" for name in self.nodes[:_SHOWN])
        more = ", ..." if count > _SHOWN else ""
        hint = f": {self.hint}" if self.hint else ""
        return f"`{self.op_type}`: {_counted(count, 'node')}, {names}{more}{hint}"


@dataclass(frozen=True)
class Problem:
    """A node or value that cannot be imported.

    Attributes:
        message: the problem and its location, without the model's name.
        cause: the exception.
    """

    message: str
    cause: Exception


@dataclass
class OnnxReport:
    """The result of an import: operators used, gaps and problems.

    Attributes:
        where: the model's name in errors.
        opsets: versions of the operator domains that the model imports; ai.onnx is "".
        operators: names of nodes by operator, without those of functions and unused ones.
        uncovered: operators without a rule, by name.
        problems: invalid nodes and values, in order.
        later: names of nodes that are compiled when the model runs, because they depend
            on values that are known only then.
    """

    where: str
    opsets: Mapping[str, int]
    operators: dict[str, list[str]] = field(default_factory=dict)
    uncovered: dict[str, Uncovered] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    later: list[str] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        """Whether the model can be imported."""
        return not self.uncovered and not self.problems

    def __str__(self) -> str:
        """A summary, and one line per gap and problem."""
        count = sum(map(len, self.operators.values()))
        opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in self.opsets.items())
        lines = [f"{self.where}: {count} nodes, opset {opsets}"]
        lines += [f"no rule for {found}" for found in self.uncovered.values()]
        lines += [problem.message for problem in self.problems]
        return "\n".join(lines if not self.is_ok else [*lines, "can be imported"])

    def raise_if_bad(self) -> None:
        """Raise the gaps, or the first problem.

        Raises:
            UnsupportedError: operators have no rule (the message lists all of them), or
                the first problem is an unsupported feature.
            ModelError: the first problem is of another kind.
        """
        if self.uncovered:
            raise UnsupportedError(self._uncovered_message())
        if not self.problems:
            return
        first = self.problems[0]
        kind = ModelError
        if isinstance(first.cause, NotImplementedError):
            kind = UnsupportedError
        more = len(self.problems) - 1
        also = f" ({_counted(more, 'more problem')})" if more else ""
        raise kind(f"{self.where}: {first.message}{also}") from first.cause

    def _uncovered_message(self) -> str:
        operators = len(self.uncovered)
        count = sum(len(found.nodes) for found in self.uncovered.values())
        lines = [
            (
                f"{self.where}: there is no rule for {_counted(operators, 'operator')}, "
                f"used by {_counted(count, 'node')}:"
            ),
            *(f"  {found}" for found in self.uncovered.values()),
        ]
        if self.problems:
            others = _counted(len(self.problems), "other problem")
            lines.append(f"  and {others}, first: {self.problems[0].message}")
        lines.append(
            "Hint: a rule is a function with `@onnx_rule` in relax_mlir/frontends/onnx, "
            "or in the class of an operator."
        )
        return "\n".join(lines)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
