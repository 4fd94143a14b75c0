"""Damages the texts of ``tests/ir`` and parses them: ``python -m tests.ir.mutated_texts 0 1000``.

Prints each seed before its text is parsed, so that the last one is at fault if the process dies.
"""

import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from mlir import ir

from relax_mlir.errors import IRError
from relax_mlir.ir.context import new_context
from relax_mlir.ir.module import MLIRError
from relax_mlir.ir.parser_guards import check_text

_FOLDER = Path(__file__).parent
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|[%@^#!]?[A-Za-z_][\w$.-]*|-?\d+(?:\.\d+(?:[eE][+-]?\d+)?)?'
    r"|->|::|\s+|.",
    re.DOTALL,
)
_TOKENS = [
    *("0", "-1", "99999999999999999999999", "1.5", '"x"', "[]", "[0]", "{}", "?", "*"),
    *("<", ">", "(", ")", "#", "!", "unit", "%0", "@f", "none", "index", "i0", "f32"),
    *("i99999999", "vector<4xf32>", "tensor<4xf32>", "tensor<*xf32>", "memref<?xf32>"),
    *("tuple<>", "complex<f32>", "!llvm.ptr", "dense<1>", "dense<>", "strided<[1]>"),
    *("array<i64: 1>", "array<index: 1>", "array<i1: 1>", "#relax.shape<[]>"),
    *("affine_map<(d0) -> (d0)>", "loc(unknown)"),
]


def texts() -> list[list[str]]:
    """The tokens of every module in ``tests/ir``."""
    found = []
    for file in sorted(_FOLDER.rglob("*.mlir")):
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [n for n in lines if not n.startswith("//") or n.startswith("// -----")]
        parts = "\n".join(kept).split("// -----")
        found += [_TOKEN.findall(part.strip()) for part in parts if part.strip()]
    return found


def mutated(rng: random.Random, all_texts: Sequence[Sequence[str]]) -> str:
    """One of the texts with one to three tokens changed."""
    tokens = list(rng.choice(all_texts))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = [n for n, token in enumerate(tokens) if not token.isspace()]
        at, other = rng.choice(places), rng.choice(places)
        donor = [t for t in rng.choice(all_texts) if not t.isspace()]
        change = rng.randrange(6)
        if change == 0:
            tokens[at] = rng.choice(_TOKENS)
        elif change == 1:
            tokens[at] = rng.choice(donor)
        elif change == 2 and len(places) > 1:
            del tokens[at]
        elif change == 3:
            tokens.insert(at, rng.choice(_TOKENS))
        elif change == 4:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens.insert(at, tokens[at])
    return "".join(tokens)


def main(begin: int, end: int) -> None:
    """Parse the mutants of some seeds, as ``IRModule.parse`` does, in one context."""
    known = texts()
    context = new_context()
    for seed in range(begin, end):
        text = mutated(random.Random(seed), known)
        print(seed, flush=True)
        try:
            check_text(text)
            with context:
                ir.Module.parse(text)
        except (IRError, MLIRError):
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
