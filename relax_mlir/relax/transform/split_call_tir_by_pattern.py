"""``SplitCallTIRByPattern``: the part of a program that a library knows becomes a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.expr import Call, Expr, ExternFunc, Op, Tuple
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt_functor import free_names, post_order_visit
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions, program_call
from relax_mlir.relax.transform.program_matching import (
    MatchResult,
    match_loops,
    statements_of,
)
from relax_mlir.rewriting import Pass

__all__ = ["SplitCallTirByPattern"]

_CALL_DPS = Op.of("relax.call_dps_packed")


@dataclass(frozen=True)
class SplitCallTirByPattern(Pass):
    """Let a library compute the first blocks of a program, and a program the rest.

    The program in the module becomes a registered function of its name, with the
    attributes ``c_source`` and ``c_source_fmt``; what is left is called
    ``unfused_epilogue``.

    Args:
        patterns: programs that say what the library computes. Parameters that are no
            buffers stand for numbers.
        fcodegen: given what matched the first blocks, in order, gives the source of a
            function in which ``{global_symbol}`` is its name, of how many of the blocks
            it is, 0 for none, and the buffers that it takes.

    Raises:
        PassError: the blocks that the library takes give more than one buffer to others,
            or take what is no parameter.
    """

    known_as: ClassVar[str] = "SplitCallTIRByPattern"
    patterns: Sequence[PrimFunc] = field(default=(), metadata={"text": False})
    fcodegen: Callable[[list[MatchResult]], Sequence[Any]] | None = field(
        default=None, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        found = {
            var.name_hint: self._split(var.name_hint, function)
            for var, function in module.functions.items()
            if isinstance(function, PrimFunc)
        }
        splits = {name: split for name, split in found.items() if split is not None}
        mutate_functions(module, _Splitting(module, splits))

    def _split(self, name: str, program: PrimFunc) -> _Split | None:
        reader, body = program.read()
        statements = statements_of(body)
        results: list[MatchResult] = []
        for statement in statements:
            match = match_loops(statement, self.patterns)
            if match is None:
                break
            results.append(match)
        if not results or self.fcodegen is None:
            return None
        source, count, taken = self.fcodegen(results)
        if not int(count):
            return None
        buffers = [reader.buffer_map.get(param) for param in reader.params]
        code = str(source).replace("{global_symbol}", name)
        library = ExternFunc(name, attrs={"c_source": code, "c_source_fmt": "cu"})
        args = [_place(name, buffer, buffers) for buffer in taken]
        rest = statements[int(count) :]
        if not rest:
            return _Split(library, args)
        between = _between(name, statements[: int(count)], rest, buffers)
        used = [b for b in free_names(stmt.stmt_seq(*rest)) if isinstance(b, Buffer)]
        places = [n for n, b in enumerate(buffers) if any(b is u for u in used)]
        epilogue = _program(between, rest, [buffers[n] for n in places], body)
        return _Split(library, args, between, epilogue, places)


@dataclass(frozen=True)
class _Split:
    """What takes the place of a program.

    Attributes:
        library: the function of the library.
        args: the parameters of the program that it takes.
        between: what it gives to the rest; None if there is no rest.
        epilogue: the rest: of that, then of the parameters at ``places``.
        places: of parameters, outputs among them.
    """

    library: ExternFunc
    args: Sequence[int]
    between: Buffer | None = None
    epilogue: PrimFunc | None = None
    places: Sequence[int] = ()


def _place(name: str, buffer: Buffer, buffers: Sequence[Buffer | None]) -> int:
    for place, known in enumerate(buffers):
        if known is buffer:
            return place
    raise PassError(
        f"`{name}`: the library takes buffer `{buffer.name}`: expected a parameter"
    )


def _written(statements: Sequence[stmt.Stmt]) -> list[Buffer]:
    found: dict[int, Buffer] = {}

    def visit(node: Any) -> None:
        if isinstance(node, stmt.BufferStore):
            found[id(node.buffer)] = node.buffer

    for statement in statements:
        post_order_visit(statement, visit)
    return list(found.values())


def _between(
    name: str,
    first: Sequence[stmt.Stmt],
    rest: Sequence[stmt.Stmt],
    buffers: Sequence[Buffer | None],
) -> Buffer:
    """The one buffer that the first blocks give to the rest."""
    used = free_names(stmt.stmt_seq(*rest))
    given = [b for b in _written(first) if any(b is u for u in used)]
    also = [b.name for b in given[1:]] + [
        b.name for b in _written(first) if any(b is known for known in buffers)
    ]
    again = [b.name for b in _written(rest) if any(b is g for g in given)]
    if len(given) != 1 or also or again:
        raise PassError(
            f"`{name}`: expected one buffer that the library gives to the rest, and "
            f"nothing else, got {[b.name for b in given] + also + again}"
        )
    return given[0]


def _program(
    between: Buffer,
    statements: Sequence[stmt.Stmt],
    buffers: Sequence[Buffer | None],
    body: stmt.Stmt,
) -> PrimFunc:
    """A program of the last statements of another one."""
    known = [between, *buffers]
    root = body.block if isinstance(body, stmt.BlockRealize) else None
    used = free_names(stmt.stmt_seq(*statements))
    allocated = [
        buffer
        for buffer in (() if root is None else root.alloc_buffers)
        if any(buffer is u for u in used) and buffer is not between
    ]
    block = stmt.Block(
        [], None, None, "root", stmt.stmt_seq(*statements), None, allocated
    )
    whole = stmt.BlockRealize([], prim.const(True), block)
    return PrimFunc(known, whole, attrs={"tir.noalias": True})


class _Splitting(PyExprMutator):
    """Calls libraries."""

    def __init__(self, mod: IRModule, splits: dict[str, _Split]) -> None:
        super().__init__(mod)
        self.splits = splits

    def visit_call_(self, op: Call) -> Expr:
        """A call of a program that a library knows the first blocks of."""
        made = super().visit_call_(op)
        found = program_call(made)
        if found is None or found[1].name_hint not in self.splits:
            return made
        call, callee, tensors = found
        split = self.splits[callee.name_hint]
        self.builder_.update_func(callee, split.library)
        inputs = Tuple([tensors.fields[n] for n in split.args])
        if split.between is None or split.epilogue is None:
            return Call(_CALL_DPS, [split.library, inputs], None, call.sinfo_args)
        info = TensorStructInfo(split.between.shape, split.between.dtype)
        made = Call(_CALL_DPS, [split.library, inputs], None, [info])
        bound = self.builder_.emit(made)
        rest = [n for n in split.places if n < len(tensors.fields)]
        args = Tuple([bound, *(tensors.fields[n] for n in rest)])
        program = self.builder_.add_func(split.epilogue, "unfused_epilogue")
        return Call(call.op, [program, args], call.attrs, call.sinfo_args)
