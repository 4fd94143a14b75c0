"""The kinds of operators are those of the committed table."""

import pytest

from relax_mlir.dialects.relax.core import RelaxOperation
from tests.golden import kinds


def committed() -> dict[str, list[str]]:
    """The lines of the table by operator."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in kinds.TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name = name if line.startswith(" ") else line.split()[0]
            found.setdefault(name, []).append(line)
    return found


@pytest.mark.parametrize("op", kinds.operators(), ids=lambda op: op.OPERATION_NAME)
def test_kinds_are_those_of_the_table(op: type[RelaxOperation]) -> None:
    name = op.OPERATION_NAME.removeprefix("relax.")

    assert kinds.rows(op) == committed().get(name), kinds.HOW_TO_WRITE


def test_the_table_has_no_operator_that_is_gone() -> None:
    names = {op.OPERATION_NAME.removeprefix("relax.") for op in kinds.operators()}

    assert committed().keys() == names, kinds.HOW_TO_WRITE
