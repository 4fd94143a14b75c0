"""Rejects retired words in names and in first lines of docstrings.

The words stand in the second table of ``docs/glossary.md``, each with the term of the field
that replaces it. Those with a qualifier in parentheses have other meanings, in which they may
be used, and are not looked for. Run by ``make lint``.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["retired_words", "violations"]

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
FOLDERS = ("relax_mlir", "dialects", "benchmarks", "models")

_HEADING = "## Retired words"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def retired_words() -> dict[str, str]:
    """The unqualified words of the table, in lower case, and what to say instead."""
    _, _, section = GLOSSARY.read_text(encoding="utf-8").partition(_HEADING)
    return {
        word.lower(): instead.strip()
        for words, instead in _ROW.findall(section)
        for word in re.split(r", |; ", words.replace("`", ""))
        if word not in ("word", "---") and "(" not in word
    }


def violations() -> list[str]:
    """A message for each retired word in a name or a first line of the package."""
    words = retired_words()
    found: list[str] = []
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            place = file.relative_to(ROOT).as_posix()
            found += [
                f"{place}:{line}: `{word}` in {where}: say {words[word]}"
                for line, where, word in _retired_in(file, words)
            ]
    return found


def _retired_in(file: Path, words: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    yield from ((1, "the file's name", w) for w in _in_name(file.stem, words))
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        line = getattr(node, "lineno", 1)
        if not isinstance(node, ast.Module):
            for word in _in_name(node.name, words):
                yield line, f"the name `{node.name}`", word
        first = (ast.get_docstring(node) or "").partition("\n")[0].lower()
        for word in words:
            if re.search(rf"\b{re.escape(word)}\b", first):
                yield line, "a first line", word


def _in_name(name: str, words: Mapping[str, str]) -> Iterator[str]:
    """Retired words among the parts of an identifier."""
    parts = [p.lower() for p in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    joined = " ".join(parts)
    yield from (w for w in words if re.search(rf"\b{re.escape(w)}\b", joined))


if __name__ == "__main__":
    messages = violations()
    print("\n".join(messages) or "words: none that is retired")
    sys.exit(bool(messages))
