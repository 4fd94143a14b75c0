"""Printing of expressions as syntax trees."""

from __future__ import annotations

import textwrap

import pytest

from relax_mlir.tvm import relax, tir
from relax_mlir.tvm.relax.testing import ASTPrinter, dump_ast
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts do

FUNCTION = """
@R.function(private=True)
def main(x: R.Tensor((2, "n"), "int8")) -> R.Tensor((2, "n"), "int8"):
    with R.dataflow():
        y = R.nn.softmax(x, axis=0)
        R.output(y)
    return y
"""


def test_a_function_is_printed_as_its_nodes() -> None:
    text = FUNCTION.replace("int8", "float16")
    tree = dump_ast(from_source(text), include_struct_info_annotations=False)

    assert tree == textwrap.dedent(
        """\
        Function(
            params=[Var(name_hint="x")],
            body=SeqExpr(
                blocks=[
                    DataflowBlock(
                        bindings=[
                            VarBinding(
                                var=Var(name_hint="y"),
                                value=Call(
                                    op=Op(name="relax.nn.softmax"),
                                    args=[Var(name_hint="x")],
                                    attrs={"axis": 0}
                                )
                            )
                        ]
                    )
                ],
                body=Var(name_hint="y")
            ),
            ret_struct_info=TensorStructInfo(
                dtype=float16,
                shape=ShapeExpr(
                    values=[
                        PrimExpr(value=`T.int64(2)`),
                        PrimExpr(value=`n: int64`)
                    ]
                )
            ),
            is_pure=True
        )"""
    )


def test_annotations_are_printed_on_demand() -> None:
    x = relax.Var("x", R.Tensor(ndim=3, dtype="int8"))

    assert dump_ast(x, include_struct_info_annotations=False) == 'Var(name_hint="x")'
    assert "struct_info=TensorStructInfo(" in dump_ast(x)
    typed = dump_ast(x, "  ", include_type_annotations=True)
    assert "  checked_type_=DynTensorType(\n    ndim=3,\n    dtype=int8\n  )" in typed


@pytest.mark.parametrize(
    ("info", "tree"),
    [
        (R.Object(), "ObjectStructInfo()"),
        (R.Shape([tir.Var("k", "int64")]), "values=[PrimExpr(value=`k: int64`)]"),
        (R.Tuple(), "TupleStructInfo(fields=[])"),
        (R.Callable((R.Object,), R.Object), "params=[ObjectStructInfo()]"),
    ],
    ids=["object", "shape", "tuple", "function"],
)
def test_struct_info_has_nodes(info: object, tree: str) -> None:
    known = relax.Var("v", info).struct_info

    assert tree in ASTPrinter().visit_struct_info_(known)


def test_a_match_cast_takes_struct_info_in_script_notation() -> None:
    cast = relax.MatchCast(relax.Var("y"), relax.Var("x"), R.Tensor((3,), "int8"))

    assert isinstance(cast.struct_info, relax.TensorStructInfo)
    assert dump_ast(cast).startswith("MatchCast(")


def test_other_objects_are_rejected() -> None:
    with pytest.raises(TypeError, match="dump_ast: `exp`: expected an Expr"):
        dump_ast(3)  # pyright: ignore[reportArgumentType]
