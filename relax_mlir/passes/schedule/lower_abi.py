"""``schedule-lower-abi``: lowers memref functions to the native runtime's C calling convention."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects import tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import CallPackedOp, Index, attribute_names, emit_dim
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.function_attributes import rename_functions
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.passes.schedule.guarded_calls import GuardedCalls, guard_scratch
from relax_mlir.passes.schedule.packed_calls import PackedCalls
from relax_mlir.rewrite.patterns import Pass, clone, erase
from relax_mlir.schedules.builder import (
    TILE_COUNT,
    IndexLike,
    add,
    div,
    index,
    is_parallel_loop,
    multiply,
    op,
    parallel_loop,
    reinterpret,
)
from relax_mlir.schedules.pointers import (
    alloca,
    load_element,
    memref_of,
    pointer_type,
    store_element,
    to_i64,
    to_index,
)

__all__ = ["LowerAbi"]

_PARALLEL_FOR = "relax_rt2_parallel_for"
_ENTRY = ".entry"
_ALIGNMENT = 64  # bytes, of every buffer in a scratch or an arena


@dataclass(frozen=True)
class LowerAbi(Pass):
    """Lower kernels and main to the C calling convention of the native runtime.

    A kernel ``k`` becomes three functions: ``k.body`` with the loops, on ``noalias`` pointers,
    except for a result and the arguments that it may overwrite;
    ``k.tile(buffers, sizes, scratch, begin, end)``, which the runtime calls for a range of
    tiles; and ``k(buffers, sizes, context)``, which submits the tiles to the runtime.
    ``main(buffers, sizes, arena, context)`` calls kernels that way. In a module with ``main``
    the entry of a kernel is named ``k.entry``, so that it does not clash with C functions that
    arithmetic lowers to, such as ``erf`` and ``memcpy``.

    Attributes:
        guard: call kernels between guard pages, to detect out-of-bounds accesses.
    """

    guard: bool = False

    def run(self, module: IRModule) -> None:
        _rename_kernels(module)
        outputs = _output_counts(module)
        for function in module.func_ops():
            if function_attributes.is_prim_func(function):
                if function.is_external:
                    _declare_kernel(function)
                else:
                    _KernelLowering(function, self.guard).run()
            elif "relax.main" in function.attributes:
                guard = GuardedCalls(function, outputs) if self.guard else None
                _lower_main(function, module.mlir.body, guard)
        functions = module.func_ops()
        is_declared = any(f.name.value == _PARALLEL_FOR for f in functions)
        if not is_declared and any("relax.entry" in f.attributes for f in functions):
            _declare_parallel_for(module)


def _rename_kernels(module: IRModule) -> None:
    """Renames the kernels of a module with ``main`` so that none clashes with a C function."""
    functions = module.func_ops()
    if any("relax.main" in f.attributes for f in functions):
        kernels = filter(function_attributes.is_defined_prim_func, functions)
        names = [kernel.name.value for kernel in kernels]
        rename_functions(module.mlir.operation, {n: f"{n}{_ENTRY}" for n in names})


def _output_counts(module: IRModule) -> dict[str, int]:
    """The number of output buffers, which are the last ones, of each kernel, where known."""
    return {
        f.name.value: f.attributes["tir.num_outputs"].value
        for f in module.func_ops()
        if "tir.num_outputs" in f.attributes
    }


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _declare_parallel_for(module: IRModule) -> None:
    p, i64 = pointer_type(), _i64()
    tile = ir.FunctionType.get([p, p, p, i64, i64], [])
    with ir.InsertionPoint.at_block_begin(module.mlir.body):
        signature = ir.FunctionType.get([p, tile, p, p, i64, i64, i64], [])
        func.FuncOp(_PARALLEL_FOR, signature, visibility="private")


def _declare_kernel(function: func.FuncOp) -> None:
    """Declares an external kernel by its calling convention."""
    name, p = function.name.value, pointer_type()
    function.attributes["sym_name"] = ir.StringAttr.get(f"{name}.old")
    with ir.InsertionPoint(function), function.location:
        func.FuncOp(name, ir.FunctionType.get([p, p, p], []), visibility="private")
    erase(function)


class _KernelLowering:
    """Splits one kernel into body, tile and entry."""

    def __init__(self, function: func.FuncOp, guard: bool) -> None:
        self.function = function
        self.guard = guard
        self.top = function.operation.block
        self.symbol = function.name.value
        self.name = self.symbol.removesuffix(_ENTRY)
        self.types = list(function.type.inputs)
        self.memrefs = [t for t in self.types if isinstance(t, ir.MemRefType)]
        self.shapes = [_argument_shape(function, i) for i in range(len(self.memrefs))]
        self.symbols = [
            ir.DictAttr(a)["tir.symbol"].value
            for a in list(
                function.attributes["arg_attrs"]
                if len(self.memrefs) < len(self.types)
                else []
            )[len(self.memrefs) :]
        ]

    def run(self) -> None:
        loop = self._parallel_loop()
        self.function.attributes["sym_name"] = ir.StringAttr.get(f"{self.name}.old")
        with ir.InsertionPoint(self.function), self.function.location:
            self._make_entry(loop)
            self._make_body(loop)
            self._make_tile()
        erase(self.function)

    def _parallel_loop(self) -> ir.OpView:
        loops = [
            o
            for o in own_operations(self.function.regions[0].blocks[0])
            if is_parallel_loop(o)
        ]
        if not loops and "tir.rule" in self.function.attributes:
            return self._empty_loop()
        if len(loops) != 1:
            raise PassError(
                f"kernel `{self.name}`: expected one loop over tiles, got {len(loops)}. "
                "Hint: run `schedule-apply` first."
            )
        return loops[0]

    def _empty_loop(self) -> ir.OpView:
        """The loop of a kernel on empty tensors, which upstream passes erase."""
        terminator = list(own_operations(self.function.entry_block))[-1]
        with ir.InsertionPoint(terminator), self.function.location:
            parallel_loop(0, lambda tile: None)
        return list(own_operations(self.function.entry_block))[-2]

    def _prefix(self, loop: ir.OpView) -> list[ir.OpView]:
        operations = list(own_operations(self.function.regions[0].blocks[0]))
        return operations[: operations.index(loop)]

    def _make_entry(self, loop: ir.OpView) -> None:
        """Emits ``k(buffers, sizes, context)``, which submits tiles and scratch size."""
        p = pointer_type()
        entry = func.FuncOp(self.symbol, ir.FunctionType.get([p, p, p], []))
        entry.attributes["relax.entry"] = ir.UnitAttr.get()
        buffers, sizes, context = entry.add_entry_block().arguments
        with ir.InsertionPoint(entry.entry_block):
            mapping = self._load_arguments(buffers, sizes)
            for operation in self._prefix(loop):
                clone(operation, mapping)
            tiles = mapping.get(loop.operands[1], loop.operands[1])
            scratch = 0 if self.guard else _scratch_layout(loop, mapping)[1]
            tile_type = ir.FunctionType.get([p, p, p, _i64(), _i64()], [])
            tile = op(
                "func.constant",
                tile_type,
                value=ir.FlatSymbolRefAttr.get(f"{self.name}.tile"),
            )
            grain = op("arith.constant", _i64(), value=loop.attributes["tir.grain"])
            func.CallOp(
                [],
                _PARALLEL_FOR,
                [
                    context,
                    tile,
                    buffers,
                    sizes,
                    to_i64(tiles),
                    grain,
                    to_i64(scratch),
                ],
            )
            func.ReturnOp([])

    def _make_body(self, loop: ir.OpView) -> None:
        """Emits ``k.body``: the loops, from tile ``begin`` to ``end``."""
        pointers = [ir.MemRefType.get([1], t.element_type) for t in self.memrefs]
        scratch_type = ir.MemRefType.get([1], ir.IntegerType.get_signless(8))
        index_type = ir.IndexType.get()
        inputs = [
            *pointers,
            *[index_type] * len(self.symbols),
            scratch_type,
            index_type,
            index_type,
        ]
        body = func.FuncOp(
            f"{self.name}.body", ir.FunctionType.get(inputs, []), visibility="private"
        )
        no_alias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
        empty = ir.DictAttr.get({})
        shared = self._shared_buffers()
        body.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [
                no_alias if isinstance(t, ir.MemRefType) and n not in shared else empty
                for n, t in enumerate(inputs)
            ]
        )
        block = body.add_entry_block()
        arguments = list(block.arguments)
        with ir.InsertionPoint(block):
            symbols = arguments[len(pointers) : len(pointers) + len(self.symbols)]
            values = self._views(arguments[: len(pointers)], symbols)
        old = self.function.regions[0].blocks[0]
        for argument, value in zip(old.arguments, [*values, *symbols], strict=True):
            argument.replace_all_uses_with(value)
        for operation in list(own_operations(old)):
            block.append(operation)
        tiles = constant_of(loop.operands[1])
        if tiles is not None:
            loop.attributes[TILE_COUNT] = ir.IntegerAttr.get(_i64(), tiles)
        begin, end = arguments[-2:]
        loop.operands[0] = begin
        loop.operands[1] = end
        if self.guard:
            guard_scratch(loop, self.top)
            return
        with ir.InsertionPoint(loop):
            _place_scratch(loop, arguments[-3])

    def _shared_buffers(self) -> set[int]:
        """The buffers that may alias: the result and the arguments that it overwrites."""
        if attribute_names.IN_PLACE not in self.function.attributes:
            return set()
        overwritten = self.function.attributes[attribute_names.IN_PLACE]
        return {*overwritten, len(self.memrefs) - 1}

    def _make_tile(self) -> None:
        p, i64 = pointer_type(), _i64()
        tile = func.FuncOp(
            f"{self.name}.tile", ir.FunctionType.get([p, p, p, i64, i64], [])
        )
        buffers, sizes, scratch, begin, end = tile.add_entry_block().arguments
        with ir.InsertionPoint(tile.entry_block):
            pointers = [_load_pointer(buffers, i) for i in range(len(self.memrefs))]
            arguments = [
                memref_of(pointer, ir.MemRefType.get([1], t.element_type))
                for pointer, t in zip(pointers, self.memrefs, strict=True)
            ]
            arguments += self._load_symbols(sizes)
            bytes_type = ir.MemRefType.get([1], ir.IntegerType.get_signless(8))
            arguments.append(memref_of(scratch, bytes_type))
            arguments += [to_index(begin), to_index(end)]
            func.CallOp([], f"{self.name}.body", arguments)
            func.ReturnOp([])

    def _load_symbols(self, sizes: ir.Value) -> list[ir.Value]:
        return [
            to_index(load_element(sizes, i, _i64())) for i in range(len(self.symbols))
        ]

    def _load_arguments(
        self, buffers: ir.Value, sizes: ir.Value
    ) -> dict[ir.Value, ir.Value]:
        symbols = self._load_symbols(sizes)
        bases = [
            memref_of(_load_pointer(buffers, i), ir.MemRefType.get([1], t.element_type))
            for i, t in enumerate(self.memrefs)
        ]
        values = [*self._views(bases, symbols), *symbols]
        return dict(
            zip(self.function.regions[0].blocks[0].arguments, values, strict=True)
        )

    def _views(
        self, bases: Sequence[ir.Value], symbols: Sequence[ir.Value]
    ) -> list[ir.Value]:
        named = {n: Index(v) for n, v in zip(self.symbols, symbols, strict=True)}
        return [
            _view(base, type_, shape, named)
            for base, type_, shape in zip(bases, self.memrefs, self.shapes, strict=True)
        ]


def _argument_shape(function: func.FuncOp, number: int) -> tuple[Dim, ...]:
    type_ = function.type.inputs[number]
    if all(s >= 0 for s in type_.shape):
        return tuple(type_.shape)
    return tensors.python_value(
        ir.DictAttr(function.attributes["arg_attrs"][number])["tir.shape"]
    )


def _view(
    base: ir.Value, type_: ir.MemRefType, shape: Sequence[Dim], named: dict[str, Index]
) -> ir.Value:
    """A pointer as a row-major buffer of a shape."""
    sizes = [emit_dim(d, named) for d in shape]
    sizes = [s.value if isinstance(s, Index) else s for s in sizes]
    return reinterpret(base, type_, sizes)


def _scratch_layout(
    loop: ir.OpView, mapping: dict[ir.Value, ir.Value]
) -> tuple[list[tuple[ir.OpView, IndexLike]], IndexLike]:
    """The offset of each buffer of a tile in its thread's scratch, and the total bytes."""
    offsets: list[tuple[ir.OpView, IndexLike]] = []
    total: IndexLike = 0
    for operation in own_operations(loop.regions[0].blocks[0]):
        if operation.operation.name != "memref.alloc":
            continue
        type_ = operation.results[0].type
        dynamic = iter(list(operation.operands))
        size: IndexLike = (type_.element_type.width + 7) // 8
        for extent in type_.shape:
            given = extent if extent >= 0 else next(dynamic)
            size = multiply(size, mapping.get(given, given) if extent < 0 else given)
        offsets.append((operation, total))
        rounded = multiply(div(add(size, _ALIGNMENT - 1), _ALIGNMENT), _ALIGNMENT)
        total = add(total, rounded)
    return offsets, total


def _place_scratch(loop: ir.OpView, scratch: ir.Value) -> None:
    """Replaces the allocations of a tile by views of the scratch argument."""
    for operation, offset in _scratch_layout(loop, {})[0]:
        type_ = operation.results[0].type
        view = op("memref.view", type_, scratch, index(offset), *operation.operands)
        operation.results[0].replace_all_uses_with(view)
        erase(operation)


def _lower_main(
    function: func.FuncOp, top: ir.Block, guard: GuardedCalls | None
) -> None:
    """Lowers main to ``i32 main(buffers, sizes, arena, context)``."""
    p, i32 = pointer_type(), ir.IntegerType.get_signless(32)
    old = function.entry_block
    name = function.name.value
    function.attributes["sym_name"] = ir.StringAttr.get(f"{name}.old")
    with ir.InsertionPoint(function), function.location:
        lowered = func.FuncOp(name, ir.FunctionType.get([p, p, p, p], [i32]))
        *places, context = lowered.add_entry_block().arguments
        with ir.InsertionPoint(lowered.entry_block):
            values = _main_arguments(function, *places)
            calls = _CallArrays(old, context, guard)
            packed = PackedCalls(old)
        for argument, value in zip(old.arguments, values, strict=True):
            argument.replace_all_uses_with(value)
        for operation in list(own_operations(old))[:-1]:
            lowered.entry_block.append(operation)
            if operation.operation.name == "func.call":
                calls.lower(operation)
            elif isinstance(operation, CallPackedOp):
                packed.lower(operation, top)
        with ir.InsertionPoint(lowered.entry_block):
            func.ReturnOp([packed.status])
        if packed.is_used:
            packed.declare(top)
        if guard is not None:
            guard.declare(top)
    erase(function)


def _main_arguments(
    function: func.FuncOp, buffers: ir.Value, sizes: ir.Value, arena: ir.Value
) -> list[ir.Value]:
    """The arguments of main, loaded from the arrays that the runtime passes."""
    attrs = [ir.DictAttr(a) for a in function.attributes["arg_attrs"]]
    names = [a["tir.symbol"].value for a in attrs if "tir.symbol" in a]
    named = {
        name: Index(to_index(load_element(sizes, number, _i64())))
        for number, name in enumerate(names)
    }
    values: list[ir.Value] = []
    for number, (argument, attr) in enumerate(
        zip(function.arguments, attrs, strict=True)
    ):
        if "tir.symbol" in attr:
            values.append(named[attr["tir.symbol"].value].value)
        elif "relax.arena" in attr:
            values.append(_arena(arena))
        else:
            flat = ir.MemRefType.get([1], argument.type.element_type)
            base = memref_of(_load_pointer(buffers, number), flat)
            shape = tensors.python_value(attr["tir.shape"])
            values.append(_view(base, argument.type, shape, named))
    return values


def _arena(pointer: ir.Value) -> ir.Value:
    byte = ir.IntegerType.get_signless(8)
    base = memref_of(pointer, ir.MemRefType.get([1], byte))
    dynamic = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], byte)
    return reinterpret(base, dynamic, [(1 << 62)])


class _CallArrays:
    """Kernel calls through arrays of buffers and sizes, which all calls share."""

    def __init__(
        self, block: ir.Block, context: ir.Value, guard: GuardedCalls | None
    ) -> None:
        calls = [o for o in own_operations(block) if o.operation.name == "func.call"]
        counts = [[0, 0], *(_count_kinds(c) for c in calls)]
        self.context = context
        self.buffers = alloca(max(c[0] for c in counts), pointer_type())
        self.sizes = alloca(max(c[1] for c in counts), _i64())
        self.guard = guard
        if guard is not None:
            guard.begin()

    def lower(self, call: ir.OpView) -> None:
        with ir.InsertionPoint(call), call.location:
            buffers = [v for v in call.operands if isinstance(v.type, ir.MemRefType)]
            sizes = [v for v in call.operands if isinstance(v.type, ir.IndexType)]
            for number, buffer in enumerate(buffers):
                address = op(
                    "memref.extract_aligned_pointer_as_index",
                    ir.IndexType.get(),
                    buffer,
                )
                pointer = op("llvm.inttoptr", pointer_type(), to_i64(address))
                store_element(pointer, self.buffers, number)
            for number, size in enumerate(sizes):
                store_element(to_i64(size), self.sizes, number)
            callee = call.attributes["callee"].value
            arguments = [self.buffers, self.sizes, self.context]
            if self.guard is None:
                func.CallOp([], callee, arguments)
            else:
                self.guard.call(callee, buffers, arguments)
        erase(call)


def _count_kinds(call: ir.OpView) -> list[int]:
    memrefs = sum(isinstance(v.type, ir.MemRefType) for v in call.operands)
    return [memrefs, len(list(call.operands)) - memrefs]


def _load_pointer(buffers: ir.Value, number: int) -> ir.Value:
    return load_element(buffers, number, pointer_type())
