"""Rule for Einsum."""

from collections.abc import Iterable

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.einsum import EinsumOp

_DOTS = "..."


@onnx_rule("Einsum", since=12)
def einsum(node: OnnxNode) -> ir.Value:
    """Einstein summation.

    More than two operands are contracted pairwise from the left; an axis is reduced as
    soon as no other operand and not the result has it.

    Source: ONNX Einsum-12.
    """
    operands = [node.input(i) for i in range(len(node.inputs))]
    left, arrow, output = node.attr("equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(
            f"equation: expected {len(operands)} terms, one for every operand, got "
            f"{len(terms)}"
        )
    if not arrow:
        output = _implicit_output(left)
    while len(operands) > 2:
        (first, second), rest = operands[:2], operands[2:]
        kept = _pair_output(terms[:2], (*terms[2:], output))
        subscripts = f"{terms[0]},{terms[1]}->{kept}"
        contracted = EinsumOp([first, second], subscripts=subscripts).y
        operands, terms = [contracted, *rest], [kept, *terms[2:]]
    return EinsumOp(operands, subscripts=f"{','.join(terms)}->{output}").y


def _implicit_output(left: str) -> str:
    """The implicit output subscripts: the letters that occur once, in alphabetical order."""
    letters = [c for c in left if c.isalpha()]
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return (_DOTS if _DOTS in left else "") + "".join(once)


def _pair_output(pair: Iterable[str], later: Iterable[str]) -> str:
    """Output subscripts of a pairwise contraction: the axes that later terms still need."""
    own, needed = "".join(pair), set("".join(later))
    letters = [c for c in dict.fromkeys(own) if c.isalpha() and c in needed]
    return (_DOTS if _DOTS in own else "") + "".join(letters)
