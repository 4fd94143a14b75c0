"""Configurations: tunable parameters of a schedule rule, as values and as text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from relax_mlir.errors import near_misses

__all__ = ["Configuration", "find_configuration", "parse_configuration"]

_TEXT = re.compile(r"\s*(\w+)\s*(?:\{([^{}]*)\})?\s*")
_CHOICE = re.compile(r"\s*(\w+)\s*=\s*(\d{1,9})\s*")


@dataclass(frozen=True)
class Configuration:
    """One point in the search space of a rule; the fields of a subclass are integers.

    Its text names the rule and all fields: ``Pooling{width=7}``.
    """

    rule: ClassVar[str]

    def __str__(self) -> str:
        choices = ", ".join(f"{k}={v}" for k, v in asdict(self).items())
        return f"{self.rule}{{{choices}}}"


def parse_configuration(text: str) -> tuple[str, dict[str, int]]:
    """Parse a configuration: the name of a rule, and values of some of its fields.

    Raises:
        ValueError: the syntax is invalid.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"expected a configuration such as `Pooling{{width=7}}`, got `{text}`"
        )
    rule, inner = match.groups()
    choices: dict[str, int] = {}
    for part in (inner or "").split(",") if (inner or "").strip() else ():
        choice = _CHOICE.fullmatch(part)
        if choice is None:
            raise ValueError(f"expected a choice such as `width=7`, got `{part}`")
        name, value = choice.groups()
        if name in choices:
            raise ValueError(f"`{name}` is chosen twice")
        choices[name] = int(value)
    return rule, choices


C = TypeVar("C", bound=Configuration)


def find_configuration(choices: Mapping[str, int], known: Sequence[C]) -> C:
    """Find the first configuration with given values of some fields.

    Args:
        choices: the values, by field.
        known: one or more configurations of one class.

    Raises:
        ValueError: no configuration matches.
    """
    fields = [asdict(configuration) for configuration in known]
    for configuration, values_of in zip(known, fields, strict=True):
        if choices.items() <= values_of.items():
            return configuration
    for name, value in choices.items():
        if name not in fields[0]:
            names = ", ".join(f"`{n}`" for n in fields[0])
            raise ValueError(
                f"unknown choice `{name}`: expected {names}."
                f"{near_misses(name, fields[0])}"
            )
        values = sorted({values_of[name] for values_of in fields})
        if value not in values:
            expected = ", ".join(map(str, values))
            raise ValueError(f"`{name}`: expected one of {expected}, got {value}")
    together = ", ".join(f"{k}={v}" for k, v in choices.items())
    raise ValueError(f"no configuration combines {together}")
