"""``SplitLayoutRewritePreproc``: splits weight prepacking out of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, Tuple, TupleGetItem
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.stmt import statements as stmt
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.functor import ir_transform, post_order_visit
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import (
    mutate_functions,
    program_call,
)

__all__ = ["SplitLayoutRewritePreproc"]

_ANNOTATION = "meta_schedule.layout_rewrite_preproc"
_LAYOUT_FREE = "layout_free_buffers"


@dataclass(frozen=True)
class SplitLayoutRewritePreproc(Pass):
    """Moves weight prepacking blocks into programs of their own.

    These blocks have the annotation ``meta_schedule.layout_rewrite_preproc``. A call of
    ``f`` becomes one of ``f_weight_prepack``, whose results can be computed ahead of time,
    and one of ``f_prepacked``, which takes them instead of the weights.

    Raises:
        PassError: such a block does more than copying one parameter, shares a loop with
            other blocks, or writes a tensor of unknown sizes.
    """

    def run(self, module: IRModule) -> None:
        candidates = {
            var.name_hint: _split(var.name_hint, function)
            for var, function in module.functions.items()
            if isinstance(function, PrimFunc)
        }
        splits = {
            name: split for name, split in candidates.items() if split is not None
        }
        mutate_functions(module, _SplitCallMutator(module, splits))
        DeadCodeElimination().run(module)


@dataclass(frozen=True)
class _Split:
    """The two programs that replace one.

    Attributes:
        prepack: transforms the weights.
        prepacked: computes the rest.
        param_indices: the indices of the weight parameters.
        infos: the struct info of the prepacked weights.
    """

    prepack: PrimFunc
    prepacked: PrimFunc
    param_indices: tuple[int, ...]
    infos: tuple[StructInfo, ...]


def _split(name: str, program: PrimFunc) -> _Split | None:
    """Splits a program; None if it has no prepacking blocks."""
    reader, body = program.read()
    if not isinstance(body, stmt.BlockRealize):
        return None
    root = body.block
    body = root.body
    statements = body.seq if isinstance(body, stmt.SeqStmt) else [body]
    prepacking = [s for s in statements if _is_prepacking(name, s)]
    if not prepacking:
        return None
    copies = [
        _source_and_destination(name, block) for s in prepacking for block in _blocks(s)
    ]
    buffers = [reader.buffer_map.get(param) for param in reader.params]
    param_indices = [_param_index(name, old, buffers) for old, _ in copies]
    params: list[Any] = list(reader.params)
    for index, (_, new) in zip(param_indices, copies, strict=True):
        params[index] = new
    allocated = [
        b for b in root.alloc_buffers if all(b is not new for _, new in copies)
    ]
    rest = stmt.stmt_seq(
        *(s for s in statements if all(s is not p for p in prepacking))
    )
    block = stmt.Block([], None, None, "root", rest, None, allocated)
    root_realize = stmt.BlockRealize([], prim.const(True), block)
    prepack_body = stmt.stmt_seq(*map(_without_annotation, prepacking))
    both = [*(old for old, _ in copies), *(new for _, new in copies)]
    return _Split(
        PrimFunc(both, prepack_body, attrs=_attrs(program.attrs, "weight_prepack")),
        PrimFunc(
            params,
            root_realize,
            None,
            reader.buffer_map,
            _attrs(program.attrs, "prepacked"),
        ),
        tuple(param_indices),
        tuple(_info(name, new) for _, new in copies),
    )


def _blocks(statement: stmt.Stmt) -> list[stmt.Block]:
    blocks: list[stmt.Block] = []

    def visit(node: Any) -> None:
        if isinstance(node, stmt.Block):
            blocks.append(node)

    post_order_visit(statement, visit)
    return blocks


def _is_prepacking(name: str, statement: stmt.Stmt) -> bool:
    """Returns whether the blocks of a statement are prepacking blocks."""
    blocks = _blocks(statement)
    marked = [block.name_hint for block in blocks if block.annotations.get(_ANNOTATION)]
    if marked and len(marked) != len(blocks):
        raise PassError(
            f"`{name}`: block `{marked[0]}` prepacks weights: expected no other blocks in "
            "its loops"
        )
    return bool(marked)


def _source_and_destination(name: str, block: stmt.Block) -> tuple[Buffer, Buffer]:
    """Returns the source and destination buffers of a prepacking block."""
    read = {id(region.buffer): region.buffer for region in block.reads}
    written = {id(region.buffer): region.buffer for region in block.writes}
    if len(read) != 1 or len(written) != 1 or block.alloc_buffers:
        raise PassError(
            f"`{name}`: block `{block.name_hint}` prepacks weights: expected one buffer "
            f"that it reads and one that it writes, got {len(read)} and {len(written)}"
        )
    return next(iter(read.values())), next(iter(written.values()))


def _param_index(name: str, buffer: Buffer, buffers: Sequence[Buffer | None]) -> int:
    for index, param_buffer in enumerate(buffers):
        if param_buffer is buffer:
            return index
    raise PassError(
        f"`{name}`: expected weights that are parameters, got buffer `{buffer.name}`"
    )


def _info(name: str, buffer: Buffer) -> StructInfo:
    if not all(isinstance(size, prim.IntImm) for size in buffer.shape):
        raise PassError(
            f"`{name}`: buffer `{buffer.name}` holds weights: expected known sizes, got "
            f"{list(buffer.shape)}"
        )
    return TensorStructInfo(buffer.shape, buffer.dtype)


def _attrs(attrs: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    new_attrs = {k: v for k, v in attrs.items() if k != _LAYOUT_FREE}
    if "global_symbol" in new_attrs:
        new_attrs["global_symbol"] = f"{new_attrs['global_symbol']}_{suffix}"
    return new_attrs


def _without_annotation(statement: stmt.Stmt) -> stmt.Stmt:
    def remove_annotation(block: stmt.Block) -> stmt.Stmt:
        annotations = {k: v for k, v in block.annotations.items() if k != _ANNOTATION}
        return stmt.Block(
            block.iter_vars,
            None,
            None,
            block.name_hint,
            block.body,
            block.init,
            annotations=annotations,
        )

    return ir_transform(statement, None, remove_annotation, ["Block"])


class _SplitCallMutator(PyExprMutator):
    """Replaces calls of split programs by a prepacking call and a compute call."""

    def __init__(self, mod: IRModule, splits: Mapping[str, _Split]) -> None:
        super().__init__(mod)
        self.splits = splits

    def visit_call_(self, op: Call) -> Expr:
        """Replaces the call of a program that was split."""
        visited = super().visit_call_(op)
        matched = program_call(visited)
        if matched is None or matched[1].name_hint not in self.splits:
            return visited
        call, callee, tensors = matched
        split = self.splits[callee.name_hint]
        name = callee.name_hint
        prepack = self.builder_.add_func(split.prepack, f"{name}_weight_prepack")
        prepacked = self.builder_.add_func(split.prepacked, f"{name}_prepacked")
        args = list(tensors.fields)
        weights = Tuple([args[index] for index in split.param_indices])
        is_one = len(split.infos) == 1
        info = split.infos[0] if is_one else TupleStructInfo(split.infos)
        prepacked_weights = self.builder_.emit(
            Call(call.op, [prepack, weights], None, [info])
        )
        for field_index, index in enumerate(split.param_indices):
            args[index] = (
                prepacked_weights
                if is_one
                else TupleGetItem(prepacked_weights, field_index)
            )
        rest = [prepacked, Tuple(args), *call.args[2:]]
        return self.builder_.emit(Call(call.op, rest, call.attrs, call.sinfo_args))
