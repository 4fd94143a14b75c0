"""Attributes that record script information: names, dataflow blocks, function attributes.

They have no effect on the computation; passes may drop them.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterator, Mapping

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import attribute_names

__all__ = [
    "ATTRS",
    "BLOCK",
    "IMPURE",
    "IN_PLACE",
    "NAME",
    "NESTED",
    "OUTPUT",
    "PRIMITIVE",
    "TIR_VARS",
    "arg_names",
    "is_defined_prim_func",
    "is_prim_func",
    "is_primitive",
    "is_private",
    "location_of",
    "onnx_nodes",
    "param_names",
    "python_identifier",
    "rename_functions",
    "set_arg_names",
]

NAME = "relax.name"  # of a variable
BLOCK = "relax.dataflow"  # number of the dataflow block, or -1 outside of any
OUTPUT = "relax.output"  # a variable of a dataflow block that is visible outside
NESTED = "relax.nested"  # an expression that was nested in another one
ATTRS = "relax.attrs"  # attributes of a function in script form
IMPURE = "relax.impure"  # a function with side effects
IN_PLACE = "relax.in_place"  # per result of a call, the argument that it overwrites
TIR_VARS = "relax.tir_vars"  # scalars that a call of a tensor program passes
PRIMITIVE = "relax.primitive"  # a function that holds a fusion group


def is_prim_func(function: func.FuncOp) -> bool:
    """Whether a function is a tensor program, with a body or declared only."""
    return attribute_names.PRIM_FUNC in function.attributes


def is_defined_prim_func(function: func.FuncOp) -> bool:
    """Whether a function is a tensor program with a body."""
    return is_prim_func(function) and not function.is_external


def is_primitive(function: func.FuncOp) -> bool:
    """Whether a function is a fusion group: the calls of one kernel."""
    return PRIMITIVE in function.attributes


def is_private(function: func.FuncOp) -> bool:
    """Whether a function is visible in its module only."""
    attributes = function.attributes
    return (
        "sym_visibility" in attributes
        and ir.StringAttr(attributes["sym_visibility"]).value == "private"
    )


def location_of(op: ir.OpView) -> str:
    """The location of an operation: in its file, or else its function and variable."""
    if str(op.location) != "loc(unknown)":
        return str(op.location)
    found: list[str] = []
    outer = op.operation
    if NAME in outer.attributes:
        found.append(ir.StringAttr(outer.attributes[NAME]).value)
    while outer.parent is not None and not isinstance(outer.opview, func.FuncOp):
        outer = outer.parent.operation
    if isinstance(outer.opview, func.FuncOp):
        found.insert(0, outer.opview.name.value)
    return ": ".join(f"`{name}`" for name in found) or str(op.location)


def onnx_nodes(location: ir.Location) -> Iterator[tuple[str, str]]:
    """The ONNX nodes in a location, and their operators."""
    if location.is_a_fused():
        for part in location.locations:
            yield from onnx_nodes(part)
    elif location.is_a_name() and location.child_loc.is_a_name():
        yield location.name_str, location.child_loc.name_str


def arg_names(function: func.FuncOp) -> list[str | None]:
    """The parameter names of a function, None if unknown."""
    count = len(function.type.inputs)
    if "arg_attrs" not in function.attributes:
        return [None] * count
    attrs = [ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes["arg_attrs"])]
    return [ir.StringAttr(a[NAME]).value if NAME in a else None for a in attrs]


def param_names(function: func.FuncOp) -> list[str | None]:
    """The parameter names of a function, from its script or model."""
    if "arg_attrs" in function.attributes or "relax.input_names" not in (
        function.attributes
    ):
        return arg_names(function)
    listed = ir.ArrayAttr(function.attributes["relax.input_names"])
    return [ir.StringAttr(n).value for n in listed]


def python_identifier(text: str) -> str:
    """A Python identifier similar to a text."""
    name = re.sub(r"\W", "_", unicodedata.normalize("NFKC", text)) or "v"
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"v_{name}"
    return name if name.isidentifier() else re.sub(r"[^0-9A-Za-z_]", "_", name)


def set_arg_names(function: func.FuncOp, names: list[str]) -> None:
    """Sets the parameter names; other argument attributes are kept."""
    if not names:
        return
    old: list[ir.DictAttr] = [ir.DictAttr.get({})] * len(names)
    if "arg_attrs" in function.attributes:
        old = [ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes["arg_attrs"])]
    new = [
        ir.DictAttr.get(
            {**{n.name: n.attr for n in attrs}, NAME: ir.StringAttr.get(name)}
        )
        for attrs, name in zip(old, names, strict=True)
    ]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(new)


def rename_functions(module: ir.Operation, renamed: Mapping[str, str]) -> None:
    """Renames functions, definitions and references, simultaneously.

    Needs the context of the module.
    """

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        if "sym_name" in attributes:
            name = ir.StringAttr(attributes["sym_name"]).value
            attributes["sym_name"] = ir.StringAttr.get(renamed.get(name, name))
        for named in list(attributes):
            attr = attributes[named]
            if isinstance(attr, ir.FlatSymbolRefAttr) and attr.value in renamed:
                attributes[named] = ir.FlatSymbolRefAttr.get(renamed[attr.value])
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
