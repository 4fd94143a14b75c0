"""``SplitCallTIRByPattern``: splits programs into library calls and epilogues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, ExternFunc, Op, Tuple
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.stmt import statements as stmt
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.functor import free_names, post_order_visit
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import (
    mutate_functions,
    program_call,
)
from relax_mlir.tvm.relax.transform.program_matching import (
    MatchResult,
    match_loops,
    top_level_statements,
)

__all__ = ["SplitCallTirByPattern"]

_CALL_DPS = Op.of("relax.call_dps_packed")


@dataclass(frozen=True)
class SplitCallTirByPattern(Pass):
    """Offloads the leading blocks of programs to a library; the rest is an epilogue.

    The program in the module becomes an external function of its name, with the attributes
    ``c_source`` and ``c_source_fmt``; the epilogue is called ``unfused_epilogue``.

    Args:
        patterns: programs that the library implements. Parameters that are not buffers are
            scalars.
        fcodegen: maps the matches of the leading blocks, in order, to the source of a
            function (with ``{global_symbol}`` for its name), the number of blocks it
            implements (0 for none), and its buffer arguments.

    Raises:
        PassError: the offloaded blocks write more than one buffer that the rest reads, or
            have an argument that is not a parameter.
    """

    known_as: ClassVar[str] = "SplitCallTIRByPattern"
    patterns: Sequence[PrimFunc] = field(default=(), metadata={"text": False})
    fcodegen: Callable[[list[MatchResult]], Sequence[Any]] | None = field(
        default=None, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        candidates = {
            var.name_hint: self._split(var.name_hint, function)
            for var, function in module.functions.items()
            if isinstance(function, PrimFunc)
        }
        splits = {
            name: split for name, split in candidates.items() if split is not None
        }
        mutate_functions(module, _SplitCallMutator(module, splits))

    def _split(self, name: str, program: PrimFunc) -> _Split | None:
        reader, body = program.read()
        statements = top_level_statements(body)
        results: list[MatchResult] = []
        for statement in statements:
            match = match_loops(statement, self.patterns)
            if match is None:
                break
            results.append(match)
        if not results or self.fcodegen is None:
            return None
        source, count, arguments = self.fcodegen(results)
        if not int(count):
            return None
        buffers = [reader.buffer_map.get(param) for param in reader.params]
        code = str(source).replace("{global_symbol}", name)
        library = ExternFunc(name, attrs={"c_source": code, "c_source_fmt": "cu"})
        args = [_param_index(name, buffer, buffers) for buffer in arguments]
        rest = statements[int(count) :]
        if not rest:
            return _Split(library, args)
        intermediate = _intermediate_buffer(
            name, statements[: int(count)], rest, buffers
        )
        used = [b for b in free_names(stmt.stmt_seq(*rest)) if isinstance(b, Buffer)]
        param_indices = [n for n, b in enumerate(buffers) if any(b is u for u in used)]
        epilogue = _epilogue_program(
            intermediate, rest, [buffers[n] for n in param_indices], body
        )
        return _Split(library, args, intermediate, epilogue, param_indices)


@dataclass(frozen=True)
class _Split:
    """The replacement of a program.

    Attributes:
        library: the external function.
        args: the indices of the program's parameters that it takes.
        intermediate: the buffer passed to the epilogue; None without an epilogue.
        epilogue: the remaining program; it takes ``intermediate``, then ``param_indices``.
        param_indices: parameter indices of the epilogue, including outputs.
    """

    library: ExternFunc
    args: Sequence[int]
    intermediate: Buffer | None = None
    epilogue: PrimFunc | None = None
    param_indices: Sequence[int] = ()


def _param_index(name: str, buffer: Buffer, buffers: Sequence[Buffer | None]) -> int:
    for index, param_buffer in enumerate(buffers):
        if param_buffer is buffer:
            return index
    raise PassError(
        f"`{name}`: the library takes buffer `{buffer.name}`: expected a parameter"
    )


def _written_buffers(statements: Sequence[stmt.Stmt]) -> list[Buffer]:
    buffers_by_id: dict[int, Buffer] = {}

    def visit(node: Any) -> None:
        if isinstance(node, stmt.BufferStore):
            buffers_by_id[id(node.buffer)] = node.buffer

    for statement in statements:
        post_order_visit(statement, visit)
    return list(buffers_by_id.values())


def _intermediate_buffer(
    name: str,
    offloaded: Sequence[stmt.Stmt],
    rest: Sequence[stmt.Stmt],
    buffers: Sequence[Buffer | None],
) -> Buffer:
    """Returns the one buffer that the offloaded blocks pass to the rest."""
    used = free_names(stmt.stmt_seq(*rest))
    passed = [b for b in _written_buffers(offloaded) if any(b is u for u in used)]
    outputs = [b.name for b in passed[1:]] + [
        b.name
        for b in _written_buffers(offloaded)
        if any(b is param_buffer for param_buffer in buffers)
    ]
    rewritten = [b.name for b in _written_buffers(rest) if any(b is p for p in passed)]
    if len(passed) != 1 or outputs or rewritten:
        raise PassError(
            f"`{name}`: expected the library to pass exactly one "
            f"buffer to the rest, got {[b.name for b in passed] + outputs + rewritten}"
        )
    return passed[0]


def _epilogue_program(
    intermediate: Buffer,
    statements: Sequence[stmt.Stmt],
    buffers: Sequence[Buffer | None],
    body: stmt.Stmt,
) -> PrimFunc:
    """Builds a program of the remaining statements."""
    params = [intermediate, *buffers]
    root = body.block if isinstance(body, stmt.BlockRealize) else None
    used = free_names(stmt.stmt_seq(*statements))
    allocated = [
        buffer
        for buffer in (() if root is None else root.alloc_buffers)
        if any(buffer is u for u in used) and buffer is not intermediate
    ]
    block = stmt.Block(
        [], None, None, "root", stmt.stmt_seq(*statements), None, allocated
    )
    root_realize = stmt.BlockRealize([], prim.const(True), block)
    return PrimFunc(params, root_realize, attrs={"tir.noalias": True})


class _SplitCallMutator(PyExprMutator):
    """Replaces calls of split programs by calls of the library and the epilogue."""

    def __init__(self, mod: IRModule, splits: dict[str, _Split]) -> None:
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
        self.builder_.update_func(callee, split.library)
        inputs = Tuple([tensors.fields[n] for n in split.args])
        if split.intermediate is None or split.epilogue is None:
            return Call(_CALL_DPS, [split.library, inputs], None, call.sinfo_args)
        info = TensorStructInfo(split.intermediate.shape, split.intermediate.dtype)
        library_call = Call(_CALL_DPS, [split.library, inputs], None, [info])
        library_result = self.builder_.emit(library_call)
        rest = [n for n in split.param_indices if n < len(tensors.fields)]
        args = Tuple([library_result, *(tensors.fields[n] for n in rest)])
        program = self.builder_.add_func(split.epilogue, "unfused_epilogue")
        return Call(call.op, [program, args], call.attrs, call.sinfo_args)
