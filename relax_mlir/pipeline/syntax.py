# pyright: strict
"""Parser of pipeline text, in the grammar of ``mlir-opt --pass-pipeline``.

    pipeline = [element {"," element}]
    element  = name ["{" options "}"] | name "(" pipeline ")"

Whitespace is allowed between tokens. :mod:`relax_mlir.pipeline.pipeline` resolves names
and options.
"""

import re
from dataclasses import dataclass

from relax_mlir.errors import PipelineError

__all__ = ["Element", "closing_quote", "malformed", "parse_elements"]

# Upstream's parser recurses; deeper nesting would overflow its stack.
MAX_NESTING = 50
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")
_SPACE = re.compile(r"\s*")
_DEPTH = {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}
_SHOWN_BEFORE, _SHOWN_AFTER = 60, 20  # characters of the line around a caret


@dataclass(frozen=True)
class Element:
    """A pass with its options, or an operation name with nested passes.

    Attributes:
        name: the name of the pass or the operation.
        at: the offset of the name in the text.
        options: the text in braces; None without braces.
        options_at: the offset of that text.
        inner: the elements in parentheses; None without parentheses.
    """

    name: str
    at: int
    options: str | None = None
    options_at: int = 0
    inner: "tuple[Element, ...] | None" = None


def parse_elements(text: str) -> tuple[Element, ...]:
    """Parse pipeline text.

    Raises:
        PipelineError: the text is malformed; a caret marks the position.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise malformed(text, error.start, "invalid Unicode") from error
    return _Parser(text).read()


def malformed(text: str, at: int, problem: str) -> PipelineError:
    """The error for a problem at offset ``at``, with the line and a caret."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:].split("\n", 1)[0].replace("\t", " ")
    column = at - start
    cut = max(0, column - _SHOWN_BEFORE)
    shown = line[cut : column + _SHOWN_AFTER]
    shown = shown.encode(errors="replace").decode()
    caret = " " * (column - cut) + "^"
    return PipelineError(
        f"pipeline, character {at + 1}: {problem}\n  {shown}\n  {caret}"
    )


def closing_quote(text: str, at: int) -> int:
    """Offset of the quote that closes the string opened at ``at``, or -1.

    A backslash escapes the next character.
    """
    end = at + 1
    while end < len(text) and text[end] != text[at]:
        end += 2 if text[end] == "\\" else 1
    return end if end < len(text) else -1


class _Parser:
    """Recursive descent parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.skip_space()

    def read(self) -> tuple[Element, ...]:
        """Parse all elements up to the end of the text."""
        if not self.peek():
            return ()
        elements = self.elements(depth=0)
        if self.peek():
            raise self.error(f"expected `,` or the end, got `{self.peek()}`")
        return elements

    def elements(self, depth: int) -> tuple[Element, ...]:
        """Parse one or more comma-separated elements."""
        if depth > MAX_NESTING:
            raise self.error(f"nested deeper than {MAX_NESTING} levels")
        found = [self.element(depth)]
        while self.peek() == ",":
            self.step()
            found.append(self.element(depth))
        return tuple(found)

    def element(self, depth: int) -> Element:
        """Parse a pass, or an operation with nested passes."""
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.error(f"expected the name of a pass, got {self.found()}")
        name, at = match.group(), self.at
        self.at = match.end()
        self.skip_space()
        if self.peek() == "{":
            return self.with_options(name, at)
        if self.peek() == "(":
            return Element(name, at, inner=self.in_parentheses(depth))
        return Element(name, at)

    def in_parentheses(self, depth: int) -> tuple[Element, ...]:
        """Parse elements in parentheses; only an outer ``builtin.module()`` may be empty."""
        opened = self.at
        self.step()
        is_empty = depth == 0 and self.peek() == ")"
        inner = () if is_empty else self.elements(depth + 1)
        if not self.peek():
            raise malformed(self.text, opened, "`(` is never closed")
        if self.peek() != ")":
            raise self.error(f"expected `,` or `)`, got `{self.peek()}`")
        self.step()
        return inner

    def with_options(self, name: str, at: int) -> Element:
        """Parse the options of a pass: the text in balanced braces."""
        start = self.at + 1
        end = self.closing_brace()
        self.at = end
        self.step()
        raw = self.text[start:end]
        lead = len(raw) - len(raw.lstrip())
        return Element(name, at, raw.strip(), start + lead)

    def closing_brace(self) -> int:
        """Offset of the brace that closes the current one; braces in quotes are skipped."""
        opened: list[int] = []
        at = self.at
        while at < len(self.text):
            char = self.text[at]
            if char in "\"'":
                at = self.closing(at)
            elif char == "{":
                opened.append(at)
            elif char == "}":
                opened.pop()
            if not opened:
                return self.checked_depth(at)
            at += 1
        raise malformed(self.text, opened[-1], "`{` is never closed")

    def checked_depth(self, end: int) -> int:
        """``end``, after a check that upstream's parser can nest the options as deeply."""
        depth = 0
        for at in range(self.at, end):
            depth += _DEPTH.get(self.text[at], 0)
            if depth > MAX_NESTING:
                raise malformed(
                    self.text, at, f"nested deeper than {MAX_NESTING} levels"
                )
        return end

    def closing(self, at: int) -> int:
        """Offset of the quote that closes the one at ``at``."""
        end = closing_quote(self.text, at)
        if end < 0:
            raise malformed(self.text, at, f"`{self.text[at]}` is never closed")
        return end

    def peek(self) -> str:
        """The current character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def found(self) -> str:
        """The current character, for error messages."""
        return f"`{self.peek()}`" if self.peek() else "the end"

    def step(self) -> None:
        """Skip one character and the whitespace after it."""
        self.at += 1
        self.skip_space()

    def skip_space(self) -> None:
        """Skip whitespace."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def error(self, problem: str) -> PipelineError:
        """The error for a problem at the current position."""
        return malformed(self.text, self.at, problem)
