"""The rule for sums of products over named axes."""

from collections.abc import Iterable

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.einsum import EinsumOp

_DOTS = "..."


@onnx_rule("Einsum", since=12)
def einsum(node: OnnxNode) -> ir.Value:
    """Products of elements, summed over the axes that the result does not name.

    More than two operands are taken in pairs, from the left, so that axes are summed over
    as soon as nothing else needs them.

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
        output = _implied(left)
    while len(operands) > 2:
        (first, second), rest = operands[:2], operands[2:]
        kept = _kept(terms[:2], (*terms[2:], output))
        subscripts = f"{terms[0]},{terms[1]}->{kept}"
        product = EinsumOp([first, second], subscripts=subscripts).y
        operands, terms = [product, *rest], [kept, *terms[2:]]
    return EinsumOp(operands, subscripts=f"{','.join(terms)}->{output}").y


def _implied(left: str) -> str:
    """The axes of the result where they are not said: those that stand once, in order."""
    letters = [c for c in left if c.isalpha()]
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return (_DOTS if _DOTS in left else "") + "".join(once)


def _kept(pair: Iterable[str], later: Iterable[str]) -> str:
    """The axes of a product of two terms that are read later."""
    own, needed = "".join(pair), set("".join(later))
    letters = [c for c in dict.fromkeys(own) if c.isalpha() and c in needed]
    return (_DOTS if _DOTS in own else "") + "".join(letters)
