"""``schedule-outline-launches``: outlines GPU launches into kernel functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func, gpu, nvvm

from relax_mlir.analysis.prim_func_verifier import argument_shape, argument_symbols
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Index, attribute_names, emit_dim
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.rewrite.patterns import Pass, clone, erase
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    index,
    multiply,
    op,
    reinterpret,
    row_major_strides,
)
from relax_mlir.schedules.flat_buffers import buffer_extents

__all__ = ["OutlineLaunches"]

_SHARED = "#gpu.address_space<workgroup>"
_ALIGNMENT = 1024  # bytes, of shared memory, for TMA tiles
_WAIT, _PREFETCH = "nvvm.griddepcontrol", "memref.prefetch"
_BUFFER_ALIGNMENT = 128  # bytes, the default of its buffers


@dataclass(frozen=True)
class OutlineLaunches(Pass):
    """Outline every program's launches into a GPU module of kernels on pointers and sizes.

    Launch ``n`` of a program ``k`` becomes the kernel ``k_n`` of the module ``k_gpu``;
    characters that PTX identifiers do not allow become ``_``. The arguments of a kernel are a
    pointer for each buffer that it accesses, and the sizes that it needs; other values from
    outside the launch are rematerialized inside. Grid and arguments stay in the program.

    Buffers of a block become views of one dynamic shared memory. Tensor (TMA) descriptors,
    which are created outside of the launch, are passed by value.

    Args:
        overlap: programmatic dependent launch: a kernel may begin before the previous one
            has ended. Each triggers its dependents, and waits before it accesses memory: at
            the launch's ``nvvm.griddepcontrol wait``, or else at its start. Without
            ``overlap`` nothing waits, and nothing is prefetched meanwhile. Needs compute
            capability 9.0.
    """

    overlap: bool = False

    def run(self, module: IRModule) -> None:
        symbols = UniqueNameSupply()
        for operation in own_operations(module.mlir.body):
            if "sym_name" in operation.attributes:
                name = ir.StringAttr(operation.attributes["sym_name"]).value
                symbols.reserve_name(name)
        for function in module.func_ops():
            launches = (
                [o for o in own_operations(function.entry_block) if _is_launch(o)]
                if not function.is_external
                else []
            )
            if launches:
                module.mlir.operation.attributes["gpu.container_module"] = (
                    ir.UnitAttr.get()
                )
                name = symbols.fresh_name(f"{_ptx_identifier(function.name.value)}_gpu")
                _outline(module, function, launches, name, is_overlapping=self.overlap)


def _is_launch(operation: ir.OpView) -> bool:
    return operation.operation.name == "gpu.launch"


def _outline(
    module: IRModule,
    function: func.FuncOp,
    launches: Sequence[ir.OpView],
    name: str,
    *,
    is_overlapping: bool,
) -> None:
    """Outlines launches of a function into a new GPU module called ``name``."""
    with ir.InsertionPoint.at_block_begin(module.mlir.body), function.location:
        kernels = gpu.GPUModuleOp(name)
        body = kernels.bodyRegion.blocks.append()
        if any(_shared_buffers(launch) for launch in launches):
            with ir.InsertionPoint(body):
                _declare_shared_memory()
    for number, launch in enumerate(launches):
        name_of_kernel = f"{_ptx_identifier(function.name.value)}_{number}"
        kernel = _Kernel(
            function, launch, name_of_kernel, is_overlapping=is_overlapping
        )
        with ir.InsertionPoint(body), launch.location:
            kernel.write()
        with ir.InsertionPoint(launch), launch.location:
            kernel.write_launch(name)
        erase(launch)


def _ptx_identifier(name: str) -> str:
    """A name in which characters that PTX identifiers do not allow are replaced.

    LLVM renames only module-local symbols, and aborts when it prints a kernel whose name has
    characters such as ``<``.
    """
    allowed = re.sub(r"[^0-9A-Za-z_$]", "_", name)
    return allowed if re.match(r"[A-Za-z_$]", allowed) else f"k_{allowed}"


def _declare_shared_memory() -> None:
    """Declares dynamic shared memory: external, so that it follows all static allocations."""
    type_ = _shared_type(0)
    op(
        "memref.global",
        None,
        sym_name=ir.StringAttr.get("shared"),
        type=ir.TypeAttr.get(type_),
        alignment=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ALIGNMENT),
    )


def _shared_type(size_bytes: int) -> ir.MemRefType:
    byte, space = ir.IntegerType.get_signless(8), ir.Attribute.parse(_SHARED)
    return ir.MemRefType.get([size_bytes], byte, memory_space=space)


def _shared_buffers(launch: ir.OpView) -> list[ir.OpView]:
    """The shared-memory buffers of a launch.

    Raises:
        PassError: one is not at the top of the launch, so that its size would not count.
    """
    for operation in walk(launch):
        is_nested = operation.operation.parent != launch.operation
        if operation.operation.name == "memref.alloc" and is_nested:
            raise PassError(
                f"{operation.location}: `memref.alloc` inside of a branch or loop of a "
                "launch: expected at its top"
            )
    return [
        o
        for o in own_operations(launch.regions[0].blocks[0])
        if o.operation.name == "memref.alloc"
    ]


def _alignment(buffer: ir.OpView) -> int:
    if "alignment" not in buffer.operation.attributes:
        return _BUFFER_ALIGNMENT
    return ir.IntegerAttr(buffer.operation.attributes["alignment"]).value


class _Kernel:
    """One launch, outlined as a kernel function."""

    def __init__(
        self,
        function: func.FuncOp,
        launch: ir.OpView,
        name: str,
        *,
        is_overlapping: bool,
    ) -> None:
        self._function, self._launch, self._name = function, launch, name
        self._is_overlapping = is_overlapping
        self._symbols = argument_symbols(function)
        self._values: dict[ir.Value, ir.Value] = {}
        self._aliasing = _aliasing_arguments(function)
        self._inside = {o.operation for o in walk(launch)}
        self._roots, self._sizes = self._needed()
        self._shared_bytes = 0

    def _needed(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """The buffers and sizes that the launch depends on."""
        roots: dict[ir.Value, None] = {}
        seen: set[ir.Value] = set()
        todo = [v for o in walk(self._launch) for v in o.operation.operands]
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if _is_root(value):
                roots[value] = None
                is_sized = not isinstance(value.owner, ir.Block)
                is_sized = is_sized and not _is_descriptor(value)
                todo += value.owner.operands if is_sized else []
            elif (
                not isinstance(value.owner, ir.Block)
                and value.owner not in self._inside
            ):
                todo += value.owner.operands
        arguments = list(self._function.arguments)
        order = {v: n for n, v in enumerate(arguments)}
        ordered = sorted(roots, key=lambda v: order.get(v, len(order)))
        return ordered, [a for a in arguments if a in self._symbols]

    def write(self) -> None:
        """Emits the kernel at the insertion point."""
        types = [*map(_argument_type, self._roots), *(s.type for s in self._sizes)]
        threads = [_constant(v) for v in list(self._launch.operands)[3:6]]
        made = gpu.GPUFuncOp(
            ir.FunctionType.get(types, []),
            self._name,
            kernel=True,
            known_block_size=threads,
            arg_attrs=[self._attributes(r) for r in self._roots]
            + [{} for _ in self._sizes],
        )
        if attribute_names.AT_ONCE in self._launch.attributes:
            made.attributes["nvvm.minctasm"] = self._launch.attributes[
                attribute_names.AT_ONCE
            ]
        by_value = [n for n, root in enumerate(self._roots) if _is_descriptor(root)]
        if by_value:
            made.attributes[attribute_names.BY_VALUE] = ir.DenseI64ArrayAttr.get(
                by_value
            )
        entry = made.add_entry_block()
        bases = list(entry.arguments)
        self._values.update(zip(self._sizes, bases[len(self._roots) :], strict=True))
        source = self._launch.regions[0].blocks[0]
        with ir.InsertionPoint(entry):
            if self._is_overlapping:
                nvvm.griddepcontrol(nvvm.GridDepActionKind.launch_dependents)
            for root, base in zip(self._roots, bases, strict=False):
                self._values[root] = self._view(root, base)
            self._write_ids(source)
            operations = list(own_operations(source))[:-1]
            waits = any(o.operation.name == _WAIT for o in operations)
            if self._is_overlapping and not waits:
                nvvm.griddepcontrol(nvvm.GridDepActionKind.wait)
            self._place_shared()
            for operation in operations:
                self._write(operation)
            op("gpu.return", None)

    def _write(self, operation: ir.OpView) -> None:
        """Emits an operation of the launch at the insertion point."""
        name = operation.operation.name
        if name == "memref.alloc":
            return
        if name in (_WAIT, _PREFETCH) and not self._is_overlapping:
            return
        self._rematerialize(operation)
        if name == _PREFETCH:
            self._prefetch(operation)
        else:
            clone(operation, self._values)

    def _prefetch(self, operation: ir.OpView) -> None:
        """Emits a prefetch into the L2 cache while the kernel waits."""
        buffer, *where = (self._values.get(v, v) for v in operation.operands)
        type_ = ir.MemRefType(buffer.type)
        if type_.affine_map != ir.AffineMap.get_identity(type_.rank):
            return
        strides = row_major_strides(buffer_extents(buffer))
        place: IndexLike = 0
        for number, stride in zip(where, strides, strict=True):
            place = add(place, multiply(number, stride))
        begin = op(
            "memref.extract_aligned_pointer_as_index", ir.IndexType.get(), buffer
        )
        address = add(begin, multiply(place, -(-type_.element_type.width // 8)))
        i64 = ir.IntegerType.get_signless(64)
        number = op("arith.index_cast", i64, index(address))
        pointer = op("llvm.inttoptr", ir.Type.parse("!llvm.ptr<1>"), number)
        nvvm.prefetch(pointer, cache_level=nvvm.PrefetchCacheLevel.L2)

    def _attributes(self, root: ir.Value) -> dict[str, ir.Attribute]:
        """The LLVM attributes of a buffer argument.

        A ``readonly`` ``noalias`` buffer is assumed constant while the kernel runs. That is wrong
        if the previous kernel may still write it: then ``noalias`` is omitted, which loads do not
        need as long as the written buffers have it.
        """
        if _is_descriptor(root):
            return {}
        users = (use.owner for use in _uses(root))
        is_read_only = not any(_writes(u) for u in users if u in self._inside)
        found: dict[str, ir.Attribute] = {}
        may_change = is_read_only and self._is_overlapping
        if root not in self._aliasing and not may_change:
            found["llvm.noalias"] = ir.UnitAttr.get()
        if is_read_only:
            found["llvm.readonly"] = ir.UnitAttr.get()
        return found

    def _view(self, root: ir.Value, base: ir.Value) -> ir.Value:
        """The buffer or descriptor of the program that a kernel's pointer argument stands for."""
        if _is_descriptor(root):
            return op("builtin.unrealized_conversion_cast", root.type, base)
        type_ = ir.MemRefType(root.type)
        if isinstance(root.owner, ir.Block):
            shape = argument_shape(self._function, ir.BlockArgument(root).arg_number)
            named = {n: Index(self._values[v]) for v, n in self._symbols.items()}
            sizes = [_extent(d, named) for d in shape]
        else:
            given = iter([self._value(v) for v in root.owner.operands])
            sizes = [n if n >= 0 else next(given) for n in type_.shape]
        return reinterpret(base, type_, sizes)

    def _write_ids(self, source: ir.Block) -> None:
        """Emits the indices of block and thread, and the dimensions of grid and block."""
        makers = ("block_id", "thread_id", "grid_dim", "block_dim")
        for place, argument in enumerate(source.arguments):
            if len(list(argument.uses)):
                axis = ir.Attribute.parse(f"#gpu<dim {'xyz'[place % 3]}>")
                name = f"gpu.{makers[place // 3]}"
                made = op(name, ir.IndexType.get(), dimension=axis)
                self._values[argument] = made

    def _place_shared(self) -> None:
        buffers = _shared_buffers(self._launch)
        if not buffers:
            return
        whole = ir.Operation.create(
            "memref.get_global",
            results=[_shared_type(0)],
            attributes={"name": ir.FlatSymbolRefAttr.get("shared")},
        ).results[0]
        offsets, total = [], 0
        for buffer in buffers:
            type_ = buffer.results[0].type
            size = -(-type_.element_type.width // 8)
            for extent in type_.shape:
                size *= extent
            total = -(-total // _alignment(buffer)) * _alignment(buffer)
            offsets.append(total)
            total += -(-size // _BUFFER_ALIGNMENT) * _BUFFER_ALIGNMENT
        self._shared_bytes = total
        memory = reinterpret(whole, _shared_type(total), [total])
        for buffer, offset in zip(buffers, offsets, strict=True):
            result = buffer.results[0]
            self._values[result] = op("memref.view", result.type, memory, index(offset))

    def _value(self, value: ir.Value) -> ir.Value:
        """The value inside the kernel that replaces one defined outside the launch."""
        if value not in self._values:
            clone(self._rematerialized(value.owner), self._values)
        return self._values[value]

    def _rematerialized(self, operation: ir.Operation) -> ir.OpView:
        for operand in operation.operands:
            self._value(operand)
        return operation.opview

    def _rematerialize(self, operation: ir.OpView) -> None:
        """Rematerializes the values from outside of the launch that an operation reads."""
        everything = [operation, *walk(operation)]
        inside = {o.operation for o in everything}
        for inner in everything:
            for value in inner.operation.operands:
                is_argument = isinstance(value.owner, ir.Block)
                if value in self._values or (is_argument and not _is_root(value)):
                    continue
                if not is_argument and value.owner in inside:
                    continue
                self._value(value)

    def write_launch(self, module: str) -> None:
        """Emits ``gpu.launch_func`` in place of the launch."""
        grid, block = (list(self._launch.operands)[n : n + 3] for n in (0, 3))
        bases = [
            op("builtin.unrealized_conversion_cast", _argument_type(r), r)
            if _is_descriptor(r)
            else reinterpret(r, _argument_type(r), [1])
            for r in self._roots
        ]
        i32 = ir.IntegerType.get_signless(32)
        shared = op(
            "arith.constant", i32, value=ir.IntegerAttr.get(i32, self._shared_bytes)
        )
        launch = gpu.LaunchFuncOp(
            [module, self._name],
            tuple(grid),
            tuple(block),
            [*bases, *self._sizes],
            dynamic_shared_memory_size=shared,
        )
        if self._is_overlapping:
            launch.attributes[attribute_names.WAITS] = ir.UnitAttr.get()


def _aliasing_arguments(function: func.FuncOp) -> set[ir.Value]:
    """The buffers that may alias: the result and the arguments that it overwrites."""
    if attribute_names.IN_PLACE not in function.attributes:
        return set()
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    numbers = ir.DenseI64ArrayAttr(function.attributes[attribute_names.IN_PLACE])
    return {*(function.arguments[n] for n in numbers), buffers[-1]}


def _extent(dim: Dim, named: dict[str, Index]) -> int | ir.Value:
    size = emit_dim(dim, named)
    return size.value if isinstance(size, Index) else size


def _argument_type(root: ir.Value) -> ir.Type:
    """The type of a kernel argument for a buffer or a descriptor."""
    if _is_descriptor(root):
        return ir.Type.parse("!llvm.ptr")
    return ir.MemRefType.get([1], root.type.element_type)


def _is_descriptor(value: ir.Value) -> bool:
    """Whether a value is a TMA descriptor."""
    owner = value.owner
    return (
        not isinstance(owner, ir.Block) and owner.name == "nvgpu.tma.create.descriptor"
    )


def _is_root(value: ir.Value) -> bool:
    """Whether a value is a buffer argument, an allocation of the program, or a descriptor."""
    if _is_descriptor(value):
        return True
    if not isinstance(value.type, ir.MemRefType):
        return False
    is_argument = isinstance(value.owner, ir.Block)
    if is_argument:
        return isinstance(value.owner.owner.opview, func.FuncOp)
    is_launched = isinstance(value.owner.parent.opview, gpu.LaunchOp)
    return value.owner.name == "memref.alloc" and not is_launched


def _constant(value: ir.Value) -> int:
    return ir.IntegerAttr(value.owner.attributes["value"]).value


def _uses(buffer: ir.Value) -> list[ir.OpOperand]:
    """All uses of a buffer and of its views."""
    found = list(buffer.uses)
    for use in list(found):
        for result in use.owner.results:
            if isinstance(result.type, ir.MemRefType):
                found += _uses(result)
    return found


_READS = frozenset(
    {
        *("memref.load", "vector.load", "vector.maskedload", "vector.gather"),
        *("memref.dim", _PREFETCH),
    }
)


def _writes(operation: ir.Operation) -> bool:
    """Whether an operation may write a buffer operand."""
    makes_view = any(isinstance(r.type, ir.MemRefType) for r in operation.results)
    return operation.name not in _READS and not makes_view
