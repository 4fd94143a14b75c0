"""What an import found wrong: operators without a rule, and nodes that do not fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relax_mlir.dialects.hooks import onnx_operators
from relax_mlir.errors import ModelError, UnsupportedError, near_misses
from relax_mlir.frontends.onnx.schemas import find_schema

__all__ = ["OnnxReport", "Problem", "Uncovered", "sentence"]

_SHOWN = 3  # node names an operator, and problems


def sentence(error: Exception) -> str:
    """The text of an exception, ended as one sentence."""
    text = str(error).strip() or type(error).__name__
    return text if text.endswith("?") else text.rstrip(".") + "."


@dataclass
class Uncovered:
    """An operator that has no rule.

    Attributes:
        op_type: ``Name``, or ``domain::Name`` outside ai.onnx.
        opset: of its domain.
        nodes: names of the nodes that use it.
    """

    op_type: str
    opset: int
    nodes: list[str] = field(default_factory=list)

    @property
    def hint(self) -> str:
        """Why there may be none."""
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
        """One line."""
        count = len(self.nodes)
        names = ", ".join(f"`{name}`" for name in self.nodes[:_SHOWN])
        more = ", ..." if count > _SHOWN else ""
        hint = f": {self.hint}" if self.hint else ""
        return f"`{self.op_type}`: {_counted(count, 'node')}, {names}{more}{hint}"


@dataclass(frozen=True)
class Problem:
    """Something that cannot be imported as it is.

    Attributes:
        message: what is wrong and where, the model apart.
        cause: the exception that said so.
    """

    message: str
    cause: Exception


@dataclass
class OnnxReport:
    """What stands between a model and its import.

    Attributes:
        where: what errors call the model.
        opsets: versions of the operator domains, as the model says; ai.onnx is "".
        operators: names of nodes by operator, functions and unused nodes apart.
        uncovered: operators without a rule, by name.
        problems: nodes and values that do not fit, in order.
        later: names of nodes that are compiled when the model runs: what they compute
            depends on values that only then are known.
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
        """Everything found, a line each."""
        count = sum(map(len, self.operators.values()))
        opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in self.opsets.items())
        lines = [f"{self.where}: {count} nodes, opset {opsets}"]
        lines += [f"no rule for {found}" for found in self.uncovered.values()]
        lines += [problem.message for problem in self.problems]
        return "\n".join(lines if not self.is_ok else [*lines, "can be imported"])

    def raise_if_bad(self) -> None:
        """Raise what was found.

        Raises:
            UnsupportedError: operators have no rule (all are named), or the first
                problem is that something is not supported.
            ModelError: the first problem is another one.
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
