"""User-defined operators: a Python function with its ONNX name, shape rule and reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.symbol_substitution import (
    SymbolSubstitution,
    dims_of,
    substitute_symbols,
)
from relax_mlir.compiler import driver
from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import from_numpy
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import CallDpsPackedOp, CallTirOp
from relax_mlir.dialects.tir import Buffer, Builder
from relax_mlir.errors import MismatchError, RelaxError
from relax_mlir.frontends.onnx.node_form import check_inputs_and_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.functions import flatten_tuple
from relax_mlir.runtime.registry import register_func

__all__ = ["TensorType", "UserOperator", "op"]

_call_ids = count()  # numbers the packed functions of foreign calls


@dataclass(frozen=True)
class TensorType:
    """Static type of a tensor.

    Attributes:
        shape: dimensions, which may be symbolic.
        dtype: name of the element type.
    """

    shape: tuple[Any, ...]
    dtype: str


@dataclass(frozen=True)
class UserOperator:
    """User-defined operator; a call of it calls the defining function.

    Attributes:
        name: ONNX name, ``domain::Name``.
        function: builds the tensor program from a :class:`Builder` and the input buffers;
            maps arrays to arrays if foreign. Returns one result or several.
        shape: shape rule from the :class:`TensorType` of the inputs to those of the
            results, or None.
        reference: numpy implementation from arrays to one result or several, or None.
        foreign: the function is not compiled but called with arrays at run time.
    """

    name: str
    function: Callable[..., Any]
    shape: Callable[..., Any] | None
    reference: Callable[..., Any] | None
    foreign: bool

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Call the defining function."""
        return self.function(*args, **attrs)

    def check(self, *inputs: np.ndarray, tolerance: float = 1e-5, **attrs: Any) -> None:
        """Compile the operator by itself, run it, and compare with the reference.

        Args:
            *inputs: input arrays.
            tolerance: for floats, relative to the largest magnitude in the reference.
            **attrs: attributes of the node.

        Raises:
            ValueError: there is no reference.
            AssertionError: the results differ.
        """
        if self.reference is None:
            raise ValueError(f"`{self.name}` has no reference to compare with")
        module = self._single_op_module(inputs, attrs)
        expected = self.reference(*inputs, **attrs)
        expected = expected if isinstance(expected, (list, tuple)) else [expected]
        actual = driver.compile(module)(*inputs)
        for index, (result, reference) in enumerate(zip(actual, expected, strict=True)):
            where = f"{self.name}: result {index}"
            _compare(where, result, np.asarray(reference), tolerance)

    def _single_op_module(
        self, inputs: Sequence[np.ndarray], attrs: Mapping[str, Any]
    ) -> IRModule:
        """A module whose ``main`` applies the operator to its parameters."""
        module = IRModule.empty()
        with module.context, ir.Location.unknown():
            types = [tensors.tensor_type(x.shape, from_numpy(x.dtype)) for x in inputs]
            with ir.InsertionPoint(module.mlir.body):
                main = func.FuncOp("main", ir.FunctionType.get(types, []))
            block = main.add_entry_block()
            with ir.InsertionPoint(block):
                results = self.emit(list(block.arguments), attrs)
                func.ReturnOp(results)
            type_ = ir.FunctionType.get(types, [value.type for value in results])
            main.attributes["function_type"] = ir.TypeAttr.get(type_)
        return module

    def emit(
        self, operands: Sequence[ir.Value], attrs: Mapping[str, Any]
    ) -> list[ir.Value]:
        """Emit a call of the operator at the insertion point.

        Raises:
            ValueError: the operands do not fit.
        """
        types = self._types_of_shape_rule(operands, attrs)
        if self.foreign:
            return self._emit_foreign_call(operands, attrs, types or [])
        return self._emit_call_tir(operands, attrs, types)

    def _types_of_shape_rule(
        self, operands: Sequence[ir.Value], attrs: Mapping[str, Any]
    ) -> list[ir.Type] | None:
        """The result types of the shape rule, or None without a rule."""
        if self.shape is None:
            return None
        operand_types = [
            TensorType(tensors.shape_of(x), tensors.dtype_of(x).name) for x in operands
        ]
        types = self.shape(*operand_types, **attrs)
        types = [types] if isinstance(types, TensorType) else list(types)
        return [tensors.tensor_type(t.shape, _dtype(t.dtype)) for t in types]

    def _emit_call_tir(
        self,
        operands: Sequence[ir.Value],
        attrs: Mapping[str, Any],
        declared: Sequence[ir.Type] | None,
    ) -> list[ir.Value]:
        """Emit the tensor program of the function, and a call of it."""
        substitution = substitute_symbols(dims_of(value.type for value in operands))
        types = [
            substitution.type(ir.RankedTensorType(value.type)) for value in operands
        ]
        module = _enclosing_module()
        name = _unique_name(module, self.name.rpartition("::")[2].lower())
        inferred = self._infer(types, attrs)
        with ir.InsertionPoint(module.body):
            builder = Builder(name, [], types, inferred)
            builder.finish(self._build(builder, attrs))
        values = dict(
            zip(builder.symbols, substitution.sizes(builder.symbols), strict=True)
        )
        results = list(map(SymbolSubstitution(values, {}).type, inferred))
        if declared is not None and declared != results:
            raise ValueError(
                f"shape rule: expected {', '.join(map(str, declared))}, got "
                f"{', '.join(map(str, results))} from the function"
            )
        result = CallTirOp(
            list(operands),
            callee=name,
            sizes=tensors.shape_attr(list(values.values())),
            results=[tensors.packed_type(results)],
        ).result
        return flatten_tuple(result)

    def _build(self, builder: Builder, attrs: Mapping[str, Any]) -> list[Buffer]:
        """Call the function.

        Raises:
            ValueError: it returns something else than buffers.
        """
        returned = self.function(builder, *builder.inputs, **attrs)
        results = [returned] if isinstance(returned, Buffer) else returned
        if not isinstance(results, (list, tuple)) or not all(
            isinstance(result, Buffer) for result in results
        ):
            raise ValueError(
                f"expected a buffer or a list of buffers, got {returned!r}; "
                "`b.compute` and `b.map` make buffers"
            )
        return list(results)

    def _infer(
        self, types: Sequence[ir.RankedTensorType], attrs: Mapping[str, Any]
    ) -> list[ir.RankedTensorType]:
        """The result types: those of the buffers of a program that is thrown away."""
        with ir.InsertionPoint(ir.Module.create().body):
            results = self._build(Builder("inferred", [], types, []), attrs)
        return [tensors.tensor_type(b.shape, b.dtype) for b in results]

    def _emit_foreign_call(
        self,
        operands: Sequence[ir.Value],
        attrs: Mapping[str, Any],
        types: Sequence[ir.Type],
    ) -> list[ir.Value]:
        """Registers a packed function for these attributes, and emits a call of it."""
        callee = f"relax_mlir.user.{self.name}.{next(_call_ids)}"
        input_count = len(operands)

        def call(*args: Any) -> None:
            arrays = [np.from_dlpack(arg) for arg in args]
            results = self.function(*arrays[:input_count], **attrs)
            results = results if isinstance(results, (list, tuple)) else [results]
            for output, array in zip(arrays[input_count:], results, strict=True):
                _store(self.name, output, np.asarray(array))

        register_func(callee, call, override=True)
        result = CallDpsPackedOp(
            list(operands),
            callee=ir.StringAttr.get(callee),
            results=[tensors.packed_type(types)],
        ).result
        return flatten_tuple(result)


def _dtype(name: str) -> Any:  # Any: the element type
    return from_numpy(np.dtype(name))


def _store(name: str, output: np.ndarray, array: np.ndarray) -> None:
    """Copies a result to its output buffer.

    Raises:
        ValueError: its shape or element type differs from the shape rule's.
    """
    if array.shape != output.shape or array.dtype != output.dtype:
        raise ValueError(
            f"`{name}`: expected {output.dtype}{list(output.shape)}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    output[...] = array


def _enclosing_module() -> Any:  # Any: MLIR's view of the module
    """The module of the insertion point."""
    owner: Any = ir.InsertionPoint.current.block.owner
    while owner.operation.parent is not None:
        owner = owner.operation.parent.opview
    return owner


def _unique_name(module: Any, name: str) -> str:
    """The name, with a number if a function of the module has it."""
    taken = {
        ir.StringAttr(o.attributes["sym_name"]).value
        for o in own_operations(module.body)
    }
    candidates = (f"{name}{number or ''}" for number in count())
    return next(candidate for candidate in candidates if candidate not in taken)


def _compare(
    where: str, actual: np.ndarray, expected: np.ndarray, tolerance: float
) -> None:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise MismatchError(
            f"{where}: expected {expected.dtype}{list(expected.shape)}, got "
            f"{actual.dtype}{list(actual.shape)}"
        )
    scale = max(1.0, float(np.abs(expected.astype(np.float64)).max(initial=0)))
    atol = tolerance * scale if expected.dtype.kind not in "biu" else 0
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=where)


def op(
    name: str,
    *,
    since: int = 1,
    shape: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    foreign: bool = False,
) -> Callable[[Callable[..., Any]], UserOperator]:
    """Decorator that registers a function as an operator for ONNX import.

    The function takes a :class:`relax_mlir.dialects.tir.Builder`, the buffer of each input
    as a positional parameter, and the attributes as keyword-only ones. It builds the tensor
    program and returns the result's buffer, or a list of several, as ``legalize`` of the
    compiler's own operators does. A foreign function takes no builder and is called with
    arrays at run time.

    Args:
        name: ONNX name, ``domain::Name``.
        since: first opset version of the domain that has the operator.
        shape: shape rule: takes a :class:`TensorType` per input and the attributes, and
            returns that of the result, or a list of several. Required for a foreign
            function; the results of a program are checked against it.
        reference: numpy implementation, for :meth:`UserOperator.check`.
        foreign: do not compile the function but call it with arrays.

    Raises:
        ValueError: a foreign function without ``shape``, or the name is taken.
    """
    if foreign and shape is None:
        raise ValueError(
            f"`{name}`: expected `shape` with a foreign function, got none"
        )

    def define(function: Callable[..., Any]) -> UserOperator:
        operator = UserOperator(name, function, shape, reference, foreign)
        parameters = inspect.signature(function).parameters.values()
        inputs = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        inputs = inputs if foreign else inputs[1:]  # the first is the builder
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

        def rule(node: OnnxNode) -> list[ir.Value]:
            check_inputs_and_attributes(node, len(inputs), *names)
            operands = [node.input(index) for index in range(len(inputs))]
            try:
                return operator.emit(operands, node.attrs)
            except (RelaxError, TypeError) as error:
                raise ValueError(f"in its function: {error}") from error

        onnx_rule(name, since=since)(rule)
        return operator

    return define
