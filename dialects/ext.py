"""Dialects defined as annotated Python classes.

A small backport of upstream's ``mlir.dialects.ext`` (LLVM 23), to be removed with the
next wheels: the annotations of a class become the IRDL verifier, the accessors and the
builder of an operation.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from io import BytesIO
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin

from mlir import ir
from mlir.dialects import irdl
from mlir.dialects._ods_common import _cext

from relax_mlir.dialects.effects import Effects

__all__ = ["Attr", "Dialect", "Operand", "Operation", "Region", "Result"]

T = TypeVar("T")


if TYPE_CHECKING:
    # To a type checker an annotated field is the value itself.
    class Operand(ir.Value, Generic[T]):
        """Annotation of an operand whose type is of MLIR type class ``T``."""

    class Result(ir.OpResult, Generic[T]):
        """Annotation of a result whose type is of MLIR type class ``T``."""

    class Region(ir.Region):
        """Annotation of a region."""

else:

    class Operand(Generic[T]):
        """Annotation of an operand whose type is of MLIR type class ``T``."""

    class Result(Generic[T]):
        """Annotation of a result whose type is of MLIR type class ``T``."""

    class Region:
        """Annotation of a region."""


Attr = ir.Attribute  # annotation of an attribute of any kind


class Operation(ir.OpView):
    """Base class of operations defined in Python."""

    _ODS_REGIONS = (0, True)
    dialect: ClassVar[type["Dialect"]]
    SHORT_NAME: ClassVar[str]  # OPERATION_NAME without the dialect
    operand_fields: ClassVar[dict[str, Any]] = {}
    result_fields: ClassVar[dict[str, Any]] = {}
    attribute_fields: ClassVar[dict[str, Any]] = {}
    optional_attributes: ClassVar[frozenset[str]] = frozenset()  # None is `unit`
    region_fields: ClassVar[tuple[str, ...]] = ()
    field_order: ClassVar[tuple[str, ...]] = ()  # all fields, in declaration order
    effects: ClassVar[Effects] = Effects.UNKNOWN  # excluding those of its regions

    def __init_subclass__(
        cls, *, name: str | None = None, **kwargs: Any
    ) -> None:  # Any: upstream's own keywords
        super().__init_subclass__(**kwargs)
        if name is None:
            return
        cls.OPERATION_NAME = f"{cls.dialect.DIALECT_NAMESPACE}.{name}"
        cls.SHORT_NAME = name
        fields: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Operation) and base is not Operation:
                fields.update(inspect.get_annotations(base, eval_str=True))
        cls._collect_fields(fields)
        cls._ODS_REGIONS = (len(cls.region_fields), True)
        cls.dialect.operations.append(cls)
        _cext.register_operation(cls.dialect)(cls)

    @classmethod
    def _collect_fields(cls, fields: dict[str, Any]) -> None:
        cls.field_order = tuple(fields)
        cls.operand_fields = {n: t for n, t in fields.items() if _role(t) is Operand}
        cls.result_fields = {n: t for n, t in fields.items() if _role(t) is Result}
        cls.region_fields = tuple(n for n, t in fields.items() if t is Region)
        attributes = {n: _attribute_class(t) for n, t in fields.items()}
        cls.attribute_fields = {n: t for n, t in attributes.items() if t is not None}
        cls.optional_attributes = frozenset(
            n for n in cls.attribute_fields if attributes[n] is not fields[n]
        )
        variadic = sum(map(_is_variadic, cls.operand_fields.values()))
        if variadic > 1:
            cls.attribute_fields["operandSegmentSizes"] = ir.DenseI32ArrayAttr
        for index, field in enumerate(cls.operand_fields):
            setattr(cls, field, _operand_accessor(cls, index, variadic))
        for index, field in enumerate(cls.result_fields):
            is_group = _is_variadic(cls.result_fields[field])
            setattr(cls, field, _result_accessor(index, is_group))
        for field in cls.attribute_fields:
            setattr(cls, field, property(lambda self, n=field: self.attributes[n]))
        for index, field in enumerate(cls.region_fields):
            setattr(cls, field, property(lambda self, i=index: self.regions[i]))

    @classmethod
    @cache
    def irdl_text(cls) -> str:
        """This operation's definition in the IRDL dialect."""
        lines: list[str] = []
        groups: dict[str, list[str]] = {"operands": [], "results": []}
        for role, fields in (
            ("operands", cls.operand_fields),
            ("results", cls.result_fields),
        ):
            for field, annotation in fields.items():
                lines.append(f"    %{field} = {_type_constraint(annotation)}")
                many = "variadic " if _is_variadic(annotation) else ""
                groups[role].append(f"{field}: {many}%{field}")
        for field, annotation in cls.attribute_fields.items():
            optional = field in cls.optional_attributes
            constraint = "irdl.any" if optional else _attr_constraint(annotation)
            lines.append(f"    %attr_{field} = {constraint}")
        lines += [f"    %{field} = irdl.region" for field in cls.region_fields]
        lines += [f"    irdl.{role}({', '.join(g)})" for role, g in groups.items() if g]
        if cls.attribute_fields:
            named = ", ".join(f'"{f}" = %attr_{f}' for f in cls.attribute_fields)
            lines.append(f"    irdl.attributes {{{named}}}")
        if cls.region_fields:
            named = ", ".join(f"{f}: %{f}" for f in cls.region_fields)
            lines.append(f"    irdl.regions({named})")
        return "\n".join([f"  irdl.operation @{cls.SHORT_NAME} {{", *lines, "  }"])


class Dialect(ir.Dialect):
    """Base class of dialects defined in Python.

    A subclass such as ``class Tir(Dialect, name="tir")`` sets ``Operation`` to the base
    class of its operations, which no other dialect uses. ``attributes`` names its
    attributes, each with one parameter of any kind; ``types`` maps the names of its types
    to their numbers of parameters.
    """

    attributes: ClassVar[tuple[str, ...]] = ()
    types: ClassVar[Mapping[str, int]] = {}
    operations: ClassVar[list[type[Operation]]]

    def __init_subclass__(cls, *, name: str) -> None:
        cls.DIALECT_NAMESPACE = name
        cls.operations = []
        cls.__dict__["Operation"].dialect = cls
        _cext.register_dialect(cls)

    @classmethod
    def irdl_text(cls) -> str:
        """The dialect as IRDL that stock ``mlir-opt --irdl-file`` loads."""
        attributes = [_parametric_text("attribute", name, 1) for name in cls.attributes]
        types = [_parametric_text("type", name, n) for name, n in cls.types.items()]
        operations = [
            op.irdl_text()
            for op in sorted(cls.operations, key=lambda op: op.OPERATION_NAME)
        ]
        body = "\n".join(attributes + types + operations)
        return f"irdl.dialect @{cls.DIALECT_NAMESPACE} {{\n{body}\n}}\n"


def _parametric_text(kind: str, name: str, parameters: int) -> str:
    """IRDL of a type or attribute with ``parameters`` unconstrained parameters."""
    fields = [f"value{i or ''}" for i in range(parameters)]
    lines = [f"    %{field} = irdl.any" for field in fields]
    if fields:
        listed = ", ".join(f"{field}: %{field}" for field in fields)
        lines.append(f"    irdl.parameters({listed})")
    return "\n".join([f"  irdl.{kind} @{name} {{", *lines, "  }"])


def load_dialects(dialects: Iterable[type[Dialect]], context: ir.Context) -> None:
    """Register ``dialects`` in ``context``; registering twice aborts the process."""
    definitions = _bytecode("".join(d.irdl_text() for d in dialects))
    with context, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(definitions))


@cache
def _bytecode(text: str) -> bytes:
    """MLIR bytecode of a module; later contexts load it twice as fast as the text."""
    code = BytesIO()
    with ir.Context(load_on_create_dialects=["irdl"]), ir.Location.unknown():
        ir.Module.parse(text).operation.write_bytecode(code)
    return code.getvalue()


def _role(annotation: Any) -> Any:  # Any: typing objects have no common class
    """Returns ``Operand``, ``Result`` or None; ``Sequence[Operand[T]]`` is an operand."""
    if _is_variadic(annotation):
        annotation = get_args(annotation)[0]
    origin = get_origin(annotation) or annotation
    return origin if origin in (Operand, Result) else None


def _attribute_class(annotation: Any) -> Any:  # Any: see _role
    """The attribute class of ``A`` or ``A | None``; None for other annotations."""
    members = [t for t in get_args(annotation) if t is not type(None)]
    if isinstance(annotation, UnionType) and len(members) == 1:
        annotation = members[0]
    is_attribute = inspect.isclass(annotation) and issubclass(annotation, ir.Attribute)
    return annotation if is_attribute else None


def _is_variadic(annotation: Any) -> bool:
    return get_origin(annotation) is Sequence


def _type_constraint(annotation: Any) -> str:
    if _is_variadic(annotation):
        annotation = get_args(annotation)[0]
    (kind,) = get_args(annotation) or (ir.Type,)
    name = getattr(kind, "type_name", None)
    if kind is ir.IndexType:
        return "irdl.is index"
    return f'irdl.base "!{name}"' if name else "irdl.any"


def _attr_constraint(annotation: type[ir.Attribute]) -> str:
    name = getattr(annotation, "attr_name", None)
    return f'irdl.base "#{name}"' if name else "irdl.any"


def _operand_accessor(cls: type[Operation], index: int, variadic: int) -> property:
    """Accessor of a single operand, or of a variadic group as a list."""
    flags = [_is_variadic(t) for t in cls.operand_fields.values()]
    if not variadic:
        return property(lambda self: self.operands[index])
    if variadic > 1:
        return property(_segment_reader(index, flags[index]))
    group = flags.index(True)
    if index < group:
        return property(lambda self: self.operands[index])
    tail = len(flags) - 1 - group
    if index > group:
        return property(
            lambda self: self.operands[len(self.operands) - (len(flags) - index)]
        )
    return property(lambda self: list(self.operands)[group : len(self.operands) - tail])


def _segment_reader(index: int, many: bool) -> Callable[[Operation], Any]:
    def read(self: Operation) -> Any:
        sizes = list(self.attributes["operandSegmentSizes"])
        start = sum(sizes[:index])
        group = list(self.operands)[start : start + sizes[index]]
        return group if many else group[0]

    return read


def _result_accessor(index: int, many: bool) -> property:
    if many:
        return property(lambda self: list(self.results)[index:])
    return property(lambda self: self.results[index])
