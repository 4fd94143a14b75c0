"""``SplitLayoutRewritePreproc``: weights are laid out anew by programs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.expr import Call, Expr, Tuple, TupleGetItem
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt_functor import ir_transform, post_order_visit
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.passes.relax.dead_code_elimination import DeadCodeElimination
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions, program_call
from relax_mlir.rewriting import Pass

__all__ = ["SplitLayoutRewritePreproc"]

_MARK = "meta_schedule.layout_rewrite_preproc"
_FREE = "layout_free_buffers"


@dataclass(frozen=True)
class SplitLayoutRewritePreproc(Pass):
    """Give the blocks that lay out weights anew a program of their own.

    They are those that have the annotation ``meta_schedule.layout_rewrite_preproc``. A
    call of ``f`` becomes one of ``f_weight_prepack``, whose results can be computed ahead,
    and one of ``f_prepacked``, which takes them in place of the weights.

    Raises:
        PassError: such a block does more than copying one parameter, stands beside others
            in one loop, or makes a tensor whose sizes are not known.
    """

    def run(self, module: IRModule) -> None:
        found = {
            var.name_hint: _split(var.name_hint, function)
            for var, function in module.functions.items()
            if isinstance(function, PrimFunc)
        }
        splits = {name: split for name, split in found.items() if split is not None}
        mutate_functions(module, _Splitting(module, splits))
        DeadCodeElimination().run(module)


@dataclass(frozen=True)
class _Split:
    """The two programs that take the place of one.

    Attributes:
        prepack: lays out the weights.
        prepacked: computes the rest.
        places: of the parameters that are weights.
        infos: what is known of the weights when they are laid out.
    """

    prepack: PrimFunc
    prepacked: PrimFunc
    places: tuple[int, ...]
    infos: tuple[StructInfo, ...]


def _split(name: str, program: PrimFunc) -> _Split | None:
    """Split a program; None if nothing in it lays out weights."""
    reader, body = program.read()
    if not isinstance(body, stmt.BlockRealize):
        return None
    root = body.block
    body = root.body
    statements = body.seq if isinstance(body, stmt.SeqStmt) else [body]
    ahead = [s for s in statements if _is_ahead(name, s)]
    if not ahead:
        return None
    copies = [_copied(name, block) for s in ahead for block in _blocks(s)]
    buffers = [reader.buffer_map.get(param) for param in reader.params]
    places = [_place(name, old, buffers) for old, _ in copies]
    params: list[Any] = list(reader.params)
    for place, (_, new) in zip(places, copies, strict=True):
        params[place] = new
    allocated = [
        b for b in root.alloc_buffers if all(b is not new for _, new in copies)
    ]
    rest = stmt.stmt_seq(*(s for s in statements if all(s is not a for a in ahead)))
    block = stmt.Block([], None, None, "root", rest, None, allocated)
    whole = stmt.BlockRealize([], prim.const(True), block)
    first = stmt.stmt_seq(*map(_unmarked, ahead))
    both = [*(old for old, _ in copies), *(new for _, new in copies)]
    return _Split(
        PrimFunc(both, first, attrs=_attrs(program.attrs, "weight_prepack")),
        PrimFunc(
            params, whole, None, reader.buffer_map, _attrs(program.attrs, "prepacked")
        ),
        tuple(places),
        tuple(_info(name, new) for _, new in copies),
    )


def _blocks(statement: stmt.Stmt) -> list[stmt.Block]:
    found: list[stmt.Block] = []

    def visit(node: Any) -> None:
        if isinstance(node, stmt.Block):
            found.append(node)

    post_order_visit(statement, visit)
    return found


def _is_ahead(name: str, statement: stmt.Stmt) -> bool:
    """Whether the blocks of a statement lay out weights."""
    blocks = _blocks(statement)
    marked = [block.name_hint for block in blocks if block.annotations.get(_MARK)]
    if marked and len(marked) != len(blocks):
        raise PassError(
            f"`{name}`: block `{marked[0]}` lays out weights: expected no other blocks in "
            "its loops"
        )
    return bool(marked)


def _copied(name: str, block: stmt.Block) -> tuple[Buffer, Buffer]:
    """What a block that lays out a weight reads and writes."""
    read = {id(region.buffer): region.buffer for region in block.reads}
    written = {id(region.buffer): region.buffer for region in block.writes}
    if len(read) != 1 or len(written) != 1 or block.alloc_buffers:
        raise PassError(
            f"`{name}`: block `{block.name_hint}` lays out weights: expected one buffer "
            f"that it reads and one that it writes, got {len(read)} and {len(written)}"
        )
    return next(iter(read.values())), next(iter(written.values()))


def _place(name: str, buffer: Buffer, buffers: Sequence[Buffer | None]) -> int:
    for place, known in enumerate(buffers):
        if known is buffer:
            return place
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
    kept = {k: v for k, v in attrs.items() if k != _FREE}
    if "global_symbol" in kept:
        kept["global_symbol"] = f"{kept['global_symbol']}_{suffix}"
    return kept


def _unmarked(statement: stmt.Stmt) -> stmt.Stmt:
    def unmark(block: stmt.Block) -> stmt.Stmt:
        kept = {k: v for k, v in block.annotations.items() if k != _MARK}
        return stmt.Block(
            block.iter_vars,
            None,
            None,
            block.name_hint,
            block.body,
            block.init,
            annotations=kept,
        )

    return ir_transform(statement, None, unmark, ["Block"])


class _Splitting(PyExprMutator):
    """Calls two programs in place of one."""

    def __init__(self, mod: IRModule, splits: Mapping[str, _Split]) -> None:
        super().__init__(mod)
        self.splits = splits

    def visit_call_(self, op: Call) -> Expr:
        """A call of a program that was split."""
        made = super().visit_call_(op)
        found = program_call(made)
        if found is None or found[1].name_hint not in self.splits:
            return made
        call, callee, tensors = found
        split = self.splits[callee.name_hint]
        name = callee.name_hint
        prepack = self.builder_.add_func(split.prepack, f"{name}_weight_prepack")
        prepacked = self.builder_.add_func(split.prepacked, f"{name}_prepacked")
        args = list(tensors.fields)
        weights = Tuple([args[place] for place in split.places])
        is_one = len(split.infos) == 1
        info = split.infos[0] if is_one else TupleStructInfo(split.infos)
        made = self.builder_.emit(Call(call.op, [prepack, weights], None, [info]))
        for number, place in enumerate(split.places):
            args[place] = made if is_one else TupleGetItem(made, number)
        rest = [prepacked, Tuple(args), *call.args[2:]]
        return self.builder_.emit(Call(call.op, rest, call.attrs, call.sinfo_args))
