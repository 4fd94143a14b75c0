"""The relax dialect, its operation base, and the operations every level knows."""

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
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.index_ranges import IndexOperand
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


# Parts of Relax's operator names before a dot, which names in IRDL cannot have.
_NAMESPACES = frozenset(
    {"ccl", "grad", "image", "inspect", "memory", "nn", "vision", "vm"}
)


class RelaxOperation(Operation):
    """Base of the relax operations: built from values and plain Python attributes.

    A subclass defines ``infer`` (types in, result types out), ``reference`` (numpy in,
    numpy out: the definition of correctness), ``legalize`` (the tensor program), and
    ``cases``. Defaults of attributes are the defaults of ``infer``'s parameters.
    """

    cases: ClassVar[Sequence[Case]] = ()
    # The operands that hold indices, by name; every operand of integers that index is one.
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {}
    tolerance: ClassVar[float] = 1e-5  # of f32 results, relative to their scale
    effects: ClassVar[Effects] = Effects.NONE  # it only computes its results
    # How `reference` walks the points of the tensor program: per second, at the least, and
    # the bytes that it allocates for each. Constant folding estimates by them.
    reference_rate: ClassVar[float] = 2e7
    reference_scratch_bytes: ClassVar[int] = 16
    # Attributes that Relax's own functions take among the arguments: sizes, as a rule.
    argument_attributes: ClassVar[tuple[str, ...]] = ()
    # Whether the type of the result is that of the numbers among the arguments.
    keeps_number_types: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        onnx: tuple[str, int] | None = None,
        **kwargs: Any,
    ) -> None:  # Any: upstream's keywords
        super().__init_subclass__(name=name, **kwargs)
        if onnx is not None:
            onnx_rule(onnx[0], since=onnx[1])(cls._from_onnx_inputs)

    @classmethod
    def script_name(cls) -> str:
        """Its name in a script, after ``R.``: ``nn.relu`` for ``relax.nn_relu``."""
        space, _, rest = cls.SHORT_NAME.partition("_")
        return f"{space}.{rest}" if space in _NAMESPACES else cls.SHORT_NAME

    @classmethod
    def argument_order(cls) -> tuple[str, ...]:
        """Operands and attributes in the order of Relax's arguments."""
        named = (*cls.operand_fields, *cls.argument_attributes)
        return tuple(name for name in cls.field_order if name in named)

    @staticmethod
    def normalize_arguments(
        **attrs: Any,
    ) -> dict[str, Any]:  # Any: as many as attributes
        """Attributes as they are stored, from how a caller may write them."""
        return attrs

    @classmethod
    def program_name(cls) -> str:
        """What its tensor program is called."""
        return cls.script_name().rpartition(".")[2]

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        """The rule of an operator whose inputs are exactly our operands."""
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
            tensors.pack(o) if not isinstance(o, ir.Value) else o for o in operands
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
        """Attributes that need not be given, from the signature of ``infer``."""
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
        """What ``infer`` gives for these operands."""
        types = [
            o.type if isinstance(o, ir.Value) else tuple(e.type for e in o)
            for o in operands
        ]
        inferred = cls.infer(*types, **attrs)
        return list(inferred) if isinstance(inferred, tuple) else [inferred]

    @staticmethod
    def infer(*types: Any, **attrs: Any) -> Any:  # Any: each op has its own signature
        """Result type(s) from operand types (a tuple of types for a tuple operand)."""
        raise NotImplementedError

    def python_attrs(self) -> dict[str, Any]:
        """The attributes as Python values."""
        return {
            n: tensors.python_value(self.attributes[n]) for n in self.attribute_fields
        }

    def unpacked_operands(self) -> "list[ir.Value | list[ir.Value]]":
        """The operands, a tuple as the list of its elements."""
        return [
            tensors.elements(o) if isinstance(o.type, TupleType) else o
            for o in self.operands
        ]

    @classmethod
    def has_infer(cls) -> bool:
        """Whether its operations tell the types of their results; constants do not."""
        return cls.infer is not RelaxOperation.infer

    def infer_again(self) -> list[ir.Type]:
        """The result types that the operands imply now."""
        return self.result_types(self.unpacked_operands(), self.python_attrs())


class Relax(Dialect, name="relax"):
    """Graphs of tensor operations: what a model computes.

    Types beside builtin tensors and tuples: ``object`` is any value, ``sizes`` those
    of a tensor (``<["n", "4"]>``, a rank, or ``unit``), ``prim`` a scalar (``<[i64,
    "n"]>``), ``callable`` a function (``<[[arguments], result, pure]>``), ``unknown`` the
    element type that nobody knows.
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
    """An array.

    Attributes:
        value: ``dense<...>`` for a few elements, else ``#relax.const<"key">``, which
            names an array in the module's constants.
    """

    y: Result[RankedTensorType]
    value: Attr

    @property
    def key(self) -> str | None:
        """The name of its array in the module's constants; None if it stands here."""
        return ConstantOp.key_of(self.attributes["value"])

    @staticmethod
    def key_of(attr: ir.Attribute) -> str | None:
        """The key that an attribute of the dialect names; None for other attributes."""
        text = str(attr)
        return _unquoted(text[len(_CONST) : -2]) if text.startswith(_CONST) else None

    def array(self, constants: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its value.

        Raises:
            ValueError: ``constants`` does not hold it.
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
        """A constant of rank 0, in the IR."""
        type_ = tensors.tensor_type((), dtype)
        attr = _dense(np.array(value), dtype, type_)
        return ConstantOp(value=attr, results=[type_]).y

    @staticmethod
    def of(
        array: np.ndarray, constants: MutableMapping[str, np.ndarray], key: str
    ) -> ir.Value:
        """A constant with this value; a few elements stand in the IR, others in the pool.

        Args:
            constants: the module's pool.
            key: the name to use there; a number is added if it is taken.
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
        """The value of a constant whose array the pool holds under ``key``."""
        return ir.Attribute.parse(f'{_CONST}{_quoted(key)}">')


_CONST = '#relax.const<"'
_INLINE = 16  # elements


def _quoted(key: str) -> str:
    """A key as MLIR spells it in a string."""
    return "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
        for b in key.encode()
    )


def _unquoted(text: str) -> str:
    """What a string of MLIR's spells."""
    if "\\" not in text:
        return text

    def byte(escape: re.Match[bytes]) -> bytes:
        return b"\\" if escape[1] == b"\\" else bytes.fromhex(escape[1].decode())

    return re.sub(rb"\\(\\|[0-9A-Fa-f]{2})", byte, text.encode()).decode()


def _splat(attr: ir.Attribute) -> Any:  # Any: a number of any type
    # The value of an IntegerAttr has 63 bits, that of an element has as many as it needs.
    is_integer = isinstance(attr, ir.DenseIntElementsAttr)
    return attr[0] if is_integer else attr.get_splat_value().value


def _dense(array: np.ndarray, dtype: DType, type_: ir.Type) -> ir.Attribute:
    if array.dtype == np.uint64 and array.max(initial=0) > np.iinfo(np.int64).max:
        # An IntegerAttr made from a number takes 63 bits at most.
        return ir.DenseElementsAttr.get(np.ascontiguousarray(array), type=type_)
    element = dtype.tensor_type
    make = ir.FloatAttr.get if dtype.is_float else ir.IntegerAttr.get
    values = [make(element, v) for v in array.reshape(-1).tolist()]
    return ir.DenseElementsAttr.get(values, type_)


class CallTirOp(Relax.Operation, name="call_tir"):
    """Call a tensor program, which writes new tensors.

    Shapes:
        args: the program's inputs, as a tuple. result: one tensor, or a tuple of them.

    Attributes:
        callee: the tensor program.
        sizes: values of its symbols, in order, in terms of the caller's.
    """

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: FlatSymbolRefAttr
    sizes: Attr


class CallDpsPackedOp(Relax.Operation, name="call_dps_packed"):
    """Call a registered function, which writes new tensors.

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


class ShapeToTensorOp(Relax.Operation, name="shape_to_tensor"):
    """Sizes as data: an int64 vector of symbolic dimensions.

    Attributes:
        dims: the sizes, ``#relax.shape<[...]>``.
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
        sizes = [b.dim(b.local(dim)) for dim in self.python_attrs()["dims"]]

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
    """Every relax operation, by name."""
    return sorted(Relax.operations, key=lambda op: op.OPERATION_NAME)
