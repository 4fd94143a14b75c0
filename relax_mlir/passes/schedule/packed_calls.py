"""Calls of registered functions from main, with buffers as DLPack tensors."""

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import CallPackedOp
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase, has_uses
from relax_mlir.schedules.builder import constant, if_else, op, row_major_strides
from relax_mlir.schedules.flat_buffers import buffer_extents
from relax_mlir.schedules.pointers import (
    address_of_element,
    alloca,
    pointer_type,
    store_element,
    to_i64,
)

__all__ = ["PackedCalls"]

_CALL = "relax_rt2_call_packed"
_WORDS = 6  # 8-byte words of a DLTensor
_CPU = 1  # kDLCPU
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLDataTypeCode
_BFLOAT = 4


class PackedCalls:
    """Lowers ``tir.call_packed`` to calls of the runtime.

    After a failed call, later ones are skipped, but not the kernels between them, whose
    results are discarded.

    Args:
        block: the block of the calls. Argument space is allocated at the insertion point.
    """

    def __init__(self, block: ir.Block) -> None:
        calls = [o for o in own_operations(block) if isinstance(o, CallPackedOp)]
        arguments = [tensors.tuple_elements(c.args) for c in calls]
        ranks = [sum(ir.MemRefType(v.type).rank for v in a) for a in arguments]
        i64 = ir.IntegerType.get_signless(64)
        self.is_used = bool(calls)
        if self.is_used:
            self.tensors = alloca(_WORDS * max(map(len, arguments)), i64)
            self.sizes = alloca(2 * max(ranks), i64)
        self.status = constant(0, ir.IntegerType.get_signless(32))

    def lower(self, call: CallPackedOp, top: ir.Block) -> None:
        """Replaces ``call`` by the runtime's call; its name becomes a global in ``top``."""
        with ir.InsertionPoint(call), call.location:
            used = 0
            names = [a.value for a in call.attributes["tir.dtypes"]]
            buffers = tensors.tuple_elements(call.args)
            for place, (buffer, name) in enumerate(zip(buffers, names, strict=True)):
                used = self._fill(place * _WORDS, buffer, name, used)
            name = _name_in(top, call.callee.value)
            self.status = self._call(name, len(buffers))
        pack = call.args.owner
        erase(call)
        if not has_uses(pack.results[0]):  # calls may share it
            erase(pack.opview)

    def _fill(self, first: int, buffer: ir.Value, dtype: str, used: int) -> int:
        """Stores one DLTensor; its shape and strides follow ``used`` numbers."""
        type_ = ir.MemRefType(buffer.type)
        address = op(
            "memref.extract_aligned_pointer_as_index", ir.IndexType.get(), buffer
        )
        shape = buffer_extents(buffer)
        strides = row_major_strides(shape)
        for number, value in enumerate([*shape, *strides]):
            store_element(to_i64(value), self.sizes, used + number)
        words = [
            to_i64(address),
            to_i64(_CPU),
            to_i64(type_.rank | _type_word(dtype) << 32),
            _address(self.sizes, used),
            _address(self.sizes, used + type_.rank),
            to_i64(0),
        ]
        for number, word in enumerate(words):
            store_element(word, self.tensors, first + number)
        return used + 2 * type_.rank

    def _call(self, name: ir.Value, count: int) -> ir.Value:
        i32 = ir.IntegerType.get_signless(32)
        equal = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        has_succeeded = op(
            "arith.cmpi",
            ir.IntegerType.get_signless(1),
            self.status,
            constant(0, i32),
            predicate=equal,
        )
        arguments = [name, constant(count, i32), self.tensors]
        status = self.status
        return if_else(
            has_succeeded,
            i32,
            lambda: func.CallOp([i32], _CALL, arguments).results[0],
            lambda: status,
        )

    @staticmethod
    def declare(top: ir.Block) -> None:
        """Declare the runtime's function."""
        p, i32 = pointer_type(), ir.IntegerType.get_signless(32)
        with ir.InsertionPoint.at_block_begin(top):
            signature = ir.FunctionType.get([p, i32, p], [i32])
            func.FuncOp(_CALL, signature, visibility="private")


def _address(base: ir.Value, number: int) -> ir.Value:
    """The address of a 64-bit element of an array, as an integer."""
    i64 = ir.IntegerType.get_signless(64)
    return op("llvm.ptrtoint", i64, address_of_element(base, number, i64))


def _type_word(name: str) -> int:
    """A DLDataType: code, bits, lanes."""
    dtype = dtypes.dtype(name)
    code = _BFLOAT if name == "bfloat16" else _CODES[dtype.kind]
    return code | 8 * dtype.size_bytes << 8 | 1 << 16


def _name_in(top: ir.Block, text: str) -> ir.Value:
    """A pointer to ``text``, a global constant of the module."""
    names = {
        op.attributes["sym_name"].value: op
        for op in own_operations(top)
        if op.operation.name == "llvm.mlir.global"
    }
    symbol = next((n for n, o in names.items() if _text_of(o) == text), None)
    if symbol is None:
        symbol = f"packed_name_{len(names)}"
        with ir.InsertionPoint.at_block_begin(top):
            data = text.encode() + b"\0"
            ir.Operation.create(
                "llvm.mlir.global",
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "global_type": ir.TypeAttr.get(
                        ir.Type.parse(f"!llvm.array<{len(data)} x i8>")
                    ),
                    "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
                    "constant": ir.UnitAttr.get(),
                    "value": ir.StringAttr.get(text + "\0"),
                },
                regions=1,
            )
    return op(
        "llvm.mlir.addressof",
        pointer_type(),
        global_name=ir.FlatSymbolRefAttr.get(symbol),
    )


def _text_of(constant_: ir.OpView) -> str:
    return constant_.attributes["value"].value.rstrip("\0")
