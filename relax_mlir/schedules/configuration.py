"""Configurations: what a rule leaves open about a kernel, as values and as text."""

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
    """One way to write a kernel; the fields of a subclass are whole numbers.

    Its text names the rule and all fields: ``Windows{width=7}``.
    """

    rule: ClassVar[str]

    def __str__(self) -> str:
        choices = ", ".join(f"{k}={v}" for k, v in asdict(self).items())
        return f"{self.rule}{{{choices}}}"


def parse_configuration(text: str) -> tuple[str, dict[str, int]]:
    """The rule that a text names, and the choices it makes.

    Raises:
        ValueError: the text is no configuration.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(
            f"expected a configuration such as `Windows{{width=7}}`, got `{text}`"
        )
    rule, inner = found.groups()
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
    """The first configuration in which all choices are made.

    Args:
        choices: values of some fields.
        known: one or more configurations of one class.

    Raises:
        ValueError: there is none.
    """
    ways = [asdict(configuration) for configuration in known]
    for configuration, way in zip(known, ways, strict=True):
        if choices.items() <= way.items():
            return configuration
    for name, value in choices.items():
        if name not in ways[0]:
            names = ", ".join(f"`{n}`" for n in ways[0])
            raise ValueError(
                f"unknown choice `{name}`: expected {names}.{near_misses(name, ways[0])}"
            )
        values = sorted({way[name] for way in ways})
        if value not in values:
            expected = ", ".join(map(str, values))
            raise ValueError(f"`{name}`: expected one of {expected}, got {value}")
    together = ", ".join(f"{k}={v}" for k, v in choices.items())
    raise ValueError(f"no configuration has {together} together")
