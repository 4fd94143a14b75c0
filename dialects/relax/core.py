"""The relax dialect, the base class of its operations, constants and calls."""

import inspect
import re
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import FlatSymbolRefAttr, IntegerAttr, RankedTensorType, TupleType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Dialect, Operand, Operation, Result
from relax_mlir.dialects.index_ranges import IndexOperand
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "CallTirOp",
    "ConstantOp",
    "Relax",
    "ShapeToTensorOp",
    "TupleGetItemOp",
    "relax_ops",
]


# Namespaces of Relax's operator names, such as `nn.`; names in IRDL cannot contain dots.
_NAMESPACES = frozenset(
    {"ccl", "grad", "image", "inspect", "memory", "nn", "vision", "vm"}
)

_CASE_OPTIONS = frozenset({"low", "high"})  # arguments of `Case` besides attributes


class RelaxOperation(Operation):
    """Base of the relax operations, built from values and Python attributes.

    A subclass defines ``infer`` (operand types to result types), ``reference`` (the numpy
    semantics, which defines correctness), ``legalize`` (the tensor program) and ``cases``
    (test cases). Defaults of attributes are the defaults of ``infer``'s parameters.
    """

    cases: ClassVar[Sequence[Case]] = ()
    # Operands that hold indices, by name.
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {}
    tolerance: ClassVar[float] = 1e-5  # of f32 results, relative to their scale
    effects: ClassVar[Effects] = Effects.NONE
    # Cost model of `reference` for constant folding: points of the tensor program per
    # second (lower bound), and bytes allocated per point.
    reference_rate: ClassVar[float] = 2e7
    reference_scratch_bytes: ClassVar[int] = 16
    # Attributes that Relax's functions take as positional arguments, usually sizes.
    argument_attributes: ClassVar[tuple[str, ...]] = ()
    # Whether the result has the element type of the numbers among the arguments.
    keeps_number_types: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        onnx: tuple[str, int] | None = None,
        **kwargs: Any,
    ) -> None:  # Any: upstream's keywords
        super().__init_subclass__(name=name, **kwargs)
        if taken := sorted(_CASE_OPTIONS & cls.attribute_fields.keys()):
            raise TypeError(
                f"`{cls.__name__}`: attribute `{taken[0]}`: expected another name: `Case` "
                "takes it as the range of random inputs"
            )
        if onnx is not None:
            onnx_rule(onnx[0], since=onnx[1])(cls._from_onnx_inputs)

    @classmethod
    def script_name(cls) -> str:
        """The operator's name in TVMScript, after ``R.``: ``nn.relu`` for ``relax.nn_relu``."""
        space, _, rest = cls.SHORT_NAME.partition("_")
        return f"{space}.{rest}" if space in _NAMESPACES else cls.SHORT_NAME

    @classmethod
    def argument_order(cls) -> tuple[str, ...]:
        """Operands and argument attributes in the order of Relax's arguments."""
        named = (*cls.operand_fields, *cls.argument_attributes)
        return tuple(name for name in cls.field_order if name in named)

    @staticmethod
    def normalize_arguments(
        **attrs: Any,
    ) -> dict[str, Any]:  # Any: as many as attributes
        """Normalises the attributes that a caller passes to the stored form."""
        return attrs

    @classmethod
    def program_name(cls) -> str:
        """The name of the operator's tensor program."""
        return cls.script_name().rpartition(".")[2]

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        """The import rule of an ONNX operator with the same operands."""
        return cls(*(node.input(i) for i in range(len(cls.operand_fields)))).results[0]

    def __init__(
        self,
        *operands: "ir.Value | Sequence[ir.Value]",
        loc: ir.Location | None = None,
        ip: ir.InsertionPoint | None = None,
        results: Sequence[ir.Type] | None = None,
        **attrs: Any,  # Any: as many types as attributes
    ) -> None:
        expected = len(self.operand_fields)
        if len(operands) != expected:
            raise ValueError(
                f"`{self.OPERATION_NAME}` takes {expected} operands, got {len(operands)}"
            )
        attrs = {**self.attribute_defaults(), **attrs}
        if results is None:
            results = self.result_types(operands, attrs)
        packed = [
            tensors.pack_tuple(o) if not isinstance(o, ir.Value) else o
            for o in operands
        ]
        super().__init__(
            self.OPERATION_NAME,
            self._ODS_REGIONS,
            None,
            None,
            operands=packed,
            results=list(results),
            attributes=self._make_attributes(attrs),
            loc=loc,
            ip=ip,
        )

    @classmethod
    def _make_attributes(cls, attrs: dict[str, Any]) -> dict[str, ir.Attribute]:
        unknown = attrs.keys() ^ cls.attribute_fields.keys()
        if unknown:
            raise ValueError(
                f"`{cls.OPERATION_NAME}` has attributes {sorted(cls.attribute_fields)}, "
                f"got {sorted(attrs)}"
            )
        return {
            n: tensors.attr_of(v, cls.attribute_fields[n]) for n, v in attrs.items()
        }

    @classmethod
    @cache
    def attribute_defaults(cls) -> Mapping[str, Any]:
        """Defaults of the attributes, from the signature of ``infer``."""
        parameters = inspect.signature(cls.infer).parameters
        return {
            n: p.default
            for n, p in parameters.items()
            if n in cls.attribute_fields and p.default is not p.empty
        }

    @classmethod
    def result_types(
        cls, operands: "Sequence[ir.Value | Sequence[ir.Value]]", attrs: dict[str, Any]
    ) -> list[ir.Type]:
        """The result types that ``infer`` computes for these operands."""
        types = [
            o.type if isinstance(o, ir.Value) else tuple(e.type for e in o)
            for o in operands
        ]
        inferred = cls.infer(*types, **attrs)
        return list(inferred) if isinstance(inferred, tuple) else [inferred]

    @staticmethod
    def infer(*types: Any, **attrs: Any) -> Any:  # Any: each op has its own signature
        """Computes the result type or types; a tuple operand is passed as a tuple of types."""
        raise NotImplementedError

    def python_attrs(self) -> dict[str, Any]:
        """The attributes as Python values."""
        return {
            n: tensors.python_value(self.attributes[n]) for n in self.attribute_fields
        }

    def unpacked_operands(self) -> "list[ir.Value | list[ir.Value]]":
        """The operands, with packed tuples as lists of their elements."""
        return [
            tensors.tuple_elements(o) if isinstance(o.type, TupleType) else o
            for o in self.operands
        ]

    @classmethod
    def has_infer(cls) -> bool:
        """Whether result types can be inferred; those of constants and calls cannot."""
        return cls.infer is not RelaxOperation.infer

    def infer_again(self) -> list[ir.Type]:
        """Recomputes the result types from the current operands."""
        return self.result_types(self.unpacked_operands(), self.python_attrs())


class Relax(Dialect, name="relax"):
    """Graphs of tensor operations.

    Types besides builtin tensors and tuples: ``object``, any value; ``sizes``, a shape
    (``<["n", "4"]>``, a rank, or ``unit``); ``prim``, a scalar (``<[i64, "n"]>``);
    ``callable``, a function (``<[[arguments], result, pure]>``); ``unknown``, an unknown
    element type.
    """

    attributes = ("shape", "const")
    types: ClassVar[Mapping[str, int]] = {
        "object": 0,
        "sizes": 1,
        "prim": 1,
        "callable": 1,
        "unknown": 0,
    }
    Operation = RelaxOperation


class ConstantOp(Relax.Operation, name="constant"):
    """A constant tensor.

    Attributes:
        value: ``dense<...>`` for a few elements, else ``#relax.const<"key">``, the key of
            an array in the module's constant pool.
    """

    y: Result[RankedTensorType]
    value: Attr

    @property
    def key(self) -> str | None:
        """The key of the array in the module's constant pool; None if it is inline."""
        return ConstantOp.key_of(self.attributes["value"])

    @staticmethod
    def key_of(attr: ir.Attribute) -> str | None:
        """The key of a ``#relax.const`` attribute; None for other attributes."""
        text = str(attr)
        return _unquoted(text[len(_CONST) : -2]) if text.startswith(_CONST) else None

    def array(self, constants: Mapping[str, np.ndarray]) -> np.ndarray:
        """The value as an array.

        Raises:
            ValueError: the key is not in ``constants``.
        """
        key = self.key
        if key is None:
            return self._inline_array()
        if key not in constants:
            raise ValueError(f"constant `{key}` is not in the module's pool")
        return constants[key]

    def _inline_array(self) -> np.ndarray:
        attr = self.attributes["value"]
        numbers = list(attr) if not attr.is_splat else [_splat(attr)]
        shape, dtype = tensors.shape_of(self.y), tensors.dtype_of(self.y)
        array = np.array(numbers, dtype.numpy)
        return np.broadcast_to(
            array.reshape(() if attr.is_splat else shape), shape
        ).copy()

    @staticmethod
    def scalar(value: float, dtype: DType) -> ir.Value:
        """Builds an inline constant of rank 0."""
        type_ = tensors.tensor_type((), dtype)
        attr = _dense(np.array(value), dtype, type_)
        return ConstantOp(value=attr, results=[type_]).y

    @staticmethod
    def of(
        array: np.ndarray, constants: MutableMapping[str, np.ndarray], key: str
    ) -> ir.Value:
        """Builds a constant: inline for a few elements, otherwise in the constant pool.

        Args:
            array: the value.
            constants: the module's constant pool.
            key: the key in the pool; a number is appended if it is taken.
        """
        dtype = dtypes.from_numpy(array.dtype)
        type_ = tensors.tensor_type(array.shape, dtype)
        is_half = dtype.name in ("float16", "bfloat16")
        if 0 < array.size <= _INLINE and not (is_half or dtype.is_narrow):
            return ConstantOp(value=_dense(array, dtype, type_), results=[type_]).y
        name, count = key, 0
        while name in constants:
            count += 1
            name = f"{key}.{count}"
        constants[name] = array
        return ConstantOp(value=ConstantOp.named(name), results=[type_]).y

    @staticmethod
    def named(key: str) -> ir.Attribute:
        """The attribute of a constant that is in the pool under ``key``."""
        return ir.Attribute.parse(f'{_CONST}{_quoted(key)}">')


_CONST = '#relax.const<"'
_INLINE = 16  # elements of an inline constant, at most


def _quoted(key: str) -> str:
    """Escapes a key for an MLIR string literal."""
    return "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
        for b in key.encode()
    )


def _unquoted(text: str) -> str:
    """Unescapes an MLIR string literal."""
    if "\\" not in text:
        return text

    def byte(escape: re.Match[bytes]) -> bytes:
        return b"\\" if escape[1] == b"\\" else bytes.fromhex(escape[1].decode())

    return re.sub(rb"\\(\\|[0-9A-Fa-f]{2})", byte, text.encode()).decode()


def _splat(attr: ir.Attribute) -> Any:  # Any: a number of any type
    # IntegerAttr.value is limited to 63 bits; elements of the array are not.
    is_integer = isinstance(attr, ir.DenseIntElementsAttr)
    return attr[0] if is_integer else attr.get_splat_value().value


def _dense(array: np.ndarray, dtype: DType, type_: ir.Type) -> ir.Attribute:
    if array.dtype == np.uint64 and array.max(initial=0) > np.iinfo(np.int64).max:
        # IntegerAttr.get is limited to 63 bits.
        return ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=type_)
    element = dtype.tensor_type
    make = ir.FloatAttr.get if dtype.is_float else ir.IntegerAttr.get
    values = [make(element, v) for v in array.reshape(-1).tolist()]
    return ir.DenseElementsAttr.get(values, type_)


class CallTirOp(Relax.Operation, name="call_tir"):
    """Calls a tensor program in destination-passing style; the results are new tensors.

    Attributes:
        callee: the tensor program.
        sizes: values of the callee's symbols, in order, in terms of the caller's symbols.
    Shapes:
        args: the program's inputs, as a tuple; result: a tensor, or a tuple of tensors.
    """

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: FlatSymbolRefAttr
    sizes: Attr


class CallDpsPackedOp(Relax.Operation, name="call_dps_packed"):
    """Calls a packed function in destination-passing style; the results are new tensors.

    Attributes:
        callee: name of a tvm-ffi global function.
    """

    effects = Effects.CALLS

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: ir.StringAttr


class TupleGetItemOp(Relax.Operation, name="tuple_get_item"):
    """One element of a tuple."""

    tuple_value: Operand[TupleType]
    result: Result[ir.Type]
    index: IntegerAttr

    @staticmethod
    def infer(tuple_value: TupleType, index: int) -> ir.Type:
        if not 0 <= index < tuple_value.num_types:
            raise ValueError(
                f"tuple has {tuple_value.num_types} elements, got index {index}"
            )
        return tuple_value.get_type(index)

    @classmethod
    def result_types(
        cls, operands: Sequence[ir.Value], attrs: dict[str, Any]
    ) -> list[ir.Type]:
        return [cls.infer(operands[0].type, **attrs)]

    def unpacked_operands(self) -> list[ir.Value]:
        return list(self.operands)

    @property
    def packed_value(self) -> ir.Value | None:
        """The value that the element was packed from; None if the tuple was not packed."""
        packed = tensors.packed_values(self.tuple_value)
        return None if packed is None else packed[self.index.value]


class ShapeToTensorOp(Relax.Operation, name="shape_to_tensor"):
    """A shape as an int64 vector.

    Attributes:
        dims: the dimensions, ``#relax.shape<[...]>``.
    Shapes:
        y: [number of dims], int64.
    """

    y: Result[RankedTensorType]
    dims: Attr

    argument_attributes = ("dims",)
    cases = (Case(dims=(2, 5, 7)), Case(dims=()))

    @staticmethod
    def infer(dims: Sequence[Dim]) -> RankedTensorType:
        return tensors.tensor_type([len(dims)], dtypes.dtype("int64"))

    @staticmethod
    def reference(dims: Sequence[int]) -> np.ndarray:
        return np.array(dims, np.int64)

    def legalize(self, b: Builder) -> Buffer:
        shape, int64 = b.results[0]
        sizes = [b.dim(b.local_dim(dim)) for dim in self.python_attrs()["dims"]]

        def body(axis: Index) -> Scalar:
            value = b.constant(0, int64)
            for i, size in enumerate(sizes):
                number = (
                    b.constant(size, int64)
                    if isinstance(size, int)
                    else size.to_scalar(int64)
                )
                value = b.select(axis.equal(i), number, value)
            return value

        return b.compute(shape, body, int64, "shape_to_tensor")


def relax_ops() -> list[type[RelaxOperation]]:
    """All relax operations, sorted by name."""
    return sorted(Relax.operations, key=lambda op: op.OPERATION_NAME)
