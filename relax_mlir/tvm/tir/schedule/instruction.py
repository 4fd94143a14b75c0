"""Trace instructions: one for each primitive call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from relax_mlir.errors import ScheduleError, near_misses
from relax_mlir.objects import prim
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, LoopRV

__all__ = ["Instruction", "InstructionKind", "is_variable", "named_map"]

Arguments = list[tuple[str, Any]]


def is_variable(value: object) -> bool:
    """Whether a value is a random variable."""
    return isinstance(value, (BlockRV, LoopRV, prim.Var))


class InstructionKind:
    """The kind of an instruction: a primitive.

    Attributes:
        name: its name in traces.
        method: the method of :class:`Schedule`.
        is_pure: whether it leaves the module unchanged.
        num_results: the number of results: 0, 1, or -1 for a list.
    """

    _known: ClassVar[dict[str, InstructionKind]] = {}

    def __init__(
        self,
        name: str,
        method: str,
        arguments: Callable[[Sequence[Any], Sequence[Any]], Arguments],
        *,
        num_results: int = 0,
        is_pure: bool = False,
    ) -> None:
        self.name, self.method = name, method
        self.arguments = arguments
        self.num_results, self.is_pure = num_results, is_pure
        InstructionKind._known[name] = self

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind with a name.

        Raises:
            ValueError: there is none.
        """
        known = InstructionKind._known
        if name not in known:
            raise ValueError(f"no instruction kind `{name}`.{near_misses(name, known)}")
        return known[name]

    @staticmethod
    def names() -> list[str]:
        """The names of all kinds."""
        return list(InstructionKind._known)

    @property
    def is_postproc(self) -> bool:
        """Whether post-processing starts here."""
        return self.name == "EnterPostproc"

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


@dataclass(frozen=True, eq=False)
class Instruction:
    """One primitive call.

    Attributes:
        kind: the primitive.
        inputs: random variables and values passed to it.
        attrs: constants passed to it.
        outputs: the random variables it returns.
    """

    kind: InstructionKind
    inputs: Sequence[Any]
    attrs: Sequence[Any]
    outputs: Sequence[Any]

    def same_as(self, other: object) -> bool:
        """Whether both are the same object."""
        return self is other

    def arguments(self) -> Arguments:
        """The arguments of the method, by name; empty names are positional."""
        return self.kind.arguments(list(self.inputs), list(self.attrs))

    def apply(
        self,
        schedule: Any,  # Any: a Schedule
        values: Mapping[Any, Any],
        decision: Any = None,
    ) -> list[Any]:
        """Replay the call on a schedule.

        Args:
            values: the random variables of that schedule for those of the trace.
            decision: the decision of a sampling instruction.

        Returns:
            The resulting random variables.
        """
        mapped = [(n, substitute_variables(v, values)) for n, v in self.arguments()]
        args = [v for n, v in mapped if not n]
        named = {n: v for n, v in mapped if n}
        if decision is not None:
            named["decision"] = decision
        result = getattr(schedule, self.kind.method)(*args, **named)
        if self.kind.num_results == 0:
            return []
        return [result] if self.kind.num_results == 1 else list(result)

    def as_python(self, names: Mapping[Any, str], decision: Any = None) -> str:
        """The call as Python code.

        Args:
            names: the names of random variables.
        """
        listed = self.arguments()
        if decision is not None:
            listed.append(("decision", decision))
        arguments_text = [(n, text_of(v, names)) for n, v in listed]
        inner = ", ".join(f"{n}={v}" if n else v for n, v in arguments_text)
        call = f"sch.{self.kind.method}({inner})"
        if not self.outputs:
            return call
        given = ", ".join(names.get(v, "_") for v in self.outputs)
        comma = "," if self.kind.num_results < 0 and len(self.outputs) == 1 else ""
        return f"{given}{comma} = {call}"


def substitute_variables(value: Any, values: Mapping[Any, Any]) -> Any:
    """A value with random variables substituted."""
    if isinstance(value, (list, tuple)):
        return [substitute_variables(v, values) for v in value]
    if isinstance(value, Mapping):
        return {k: substitute_variables(v, values) for k, v in value.items()}
    if is_variable(value):
        if value not in values:
            raise ScheduleError(
                "trace: an instruction uses a variable that none defines"
            )
        return values[value]
    if isinstance(value, IndexMap):
        return value.substitute(
            {v: t for v, t in values.items() if isinstance(v, prim.Var)}
        )
    return value


def named_map(index_map: IndexMap, names: Mapping[Any, str]) -> IndexMap:
    """An index map with the random variables named as in a trace."""
    known = {v: n for v, n in names.items() if isinstance(v, prim.Var)}
    return index_map.substitute({v: prim.Var(n, v.dtype) for v, n in known.items()})


def text_of(value: Any, names: Mapping[Any, str]) -> str:
    """A value as Python code."""
    if is_variable(value):
        return names.get(value, "_")
    if isinstance(value, (list, tuple)):
        inner = ", ".join(text_of(v, names) for v in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
    if isinstance(value, Mapping):
        inner = (f"{_quoted(str(k))}: {text_of(v, names)}" for k, v in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, IndexMap):
        return str(named_map(value, names))
    return number_text(value)


def number_text(value: Any) -> str:
    """A number, None, or another printable value as Python code."""
    if isinstance(value, prim.IntImm):
        return str(bool(value.value) if value.dtype == "bool" else value.value)
    if isinstance(value, (float, prim.FloatImm)):
        return repr(float(value)).removesuffix(".0")
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # JSON escapes are Python escapes


def _named(*names: str) -> Callable[[Sequence[Any], Sequence[Any]], Arguments]:
    """Maps inputs, then attributes, to parameter names in order."""

    def arguments(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
        return list(zip(names, [*inputs, *attrs], strict=False))

    return arguments


def _split(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    loop, *factors = inputs
    flags = zip(("preserve_unit_iters", "disable_predication"), attrs, strict=False)
    return [("loop", loop), ("factors", factors), *((n, bool(v)) for n, v in flags)]


def _partition(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    loop, *factors = inputs
    flags = [("preserve_unit_iters", bool(v)) for v in attrs]
    return [("loop", loop), ("factors", factors), *flags]


def _fuse(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    flags = [("preserve_unit_iters", bool(v)) for v in attrs]
    return [*(("", loop) for loop in inputs), *flags]


def _positional(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    return [("", loop) for loop in inputs]


def _annotate(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    target, value = inputs
    return [("block_or_loop", target), ("ann_key", attrs[0]), ("ann_val", value)]


def _move(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
    names = ("block", "loop")
    preserve, index = attrs
    listed: Arguments = list(zip(names, inputs, strict=True))
    return [*listed, ("preserve_unit_loops", bool(preserve)), ("index", index)]


def _cache(which: str) -> Callable[[Sequence[Any], Sequence[Any]], Arguments]:
    def arguments(inputs: Sequence[Any], attrs: Sequence[Any]) -> Arguments:
        block, *consumers = inputs
        listed = [("block", block), (which, attrs[0]), ("storage_scope", attrs[1])]
        found = consumers[0] if consumers else []
        return [*listed, ("consumer_blocks", list(found))] if found else listed

    return arguments


_ONE_BLOCK, _ONE_LOOP = _named("block"), _named("loop")
for _name, _method, _arguments, _num_results, _is_pure in (
    ("GetBlock", "get_block", _named("name", "func_name"), 1, True),
    ("GetSBlock", "get_sblock", _named("name", "func_name"), 1, True),
    ("GetLoops", "get_loops", _ONE_BLOCK, -1, True),
    ("GetChildBlocks", "get_child_blocks", _positional, -1, True),
    ("GetProducers", "get_producers", _ONE_BLOCK, -1, True),
    ("GetConsumers", "get_consumers", _ONE_BLOCK, -1, True),
    ("GetOutputBlocks", "get_output_blocks", _named("scope_block"), -1, True),
    (
        "SampleCategorical",
        "sample_categorical",
        _named("candidates", "probs"),
        1,
        True,
    ),
    (
        "SamplePerfectTile",
        "sample_perfect_tile",
        _named("loop", "n", "max_innermost_factor"),
        -1,
        True,
    ),
    (
        "SamplePartitionedTile",
        "sample_partitioned_tile",
        _named("loop", "n", "partition_pos", "innerpart_factor"),
        -1,
        True,
    ),
    ("SampleComputeLocation", "sample_compute_location", _ONE_BLOCK, 1, True),
    ("Merge", "merge", _positional, 1, False),
    ("Fuse", "fuse", _fuse, 1, False),
    ("Split", "split", _split, -1, False),
    ("LoopPartition", "loop_partition", _partition, -1, False),
    ("Reorder", "reorder", _positional, 0, False),
    (
        "ReorderBlockIterVar",
        "reorder_block_iter_var",
        _named("block", "new_order"),
        0,
        False,
    ),
    ("AddUnitLoop", "add_unit_loop", _named("block_or_loop"), 1, False),
    ("Parallel", "parallel", _ONE_LOOP, 0, False),
    ("Vectorize", "vectorize", _ONE_LOOP, 0, False),
    ("Unroll", "unroll", _ONE_LOOP, 0, False),
    ("Bind", "bind", _named("loop", "thread_axis"), 0, False),
    ("CacheRead", "cache_read", _cache("read_buffer_index"), 1, False),
    ("CacheWrite", "cache_write", _cache("write_buffer_index"), 1, False),
    (
        "CacheInplace",
        "cache_inplace",
        _named("block", "read_buffer_index", "storage_scope"),
        -1,
        False,
    ),
    (
        "ReadAt",
        "read_at",
        _named("loop", "block", "read_buffer_index", "storage_scope"),
        1,
        False,
    ),
    (
        "WriteAt",
        "write_at",
        _named("loop", "block", "write_buffer_index", "storage_scope"),
        1,
        False,
    ),
    (
        "RollingBuffer",
        "rolling_buffer",
        _named("block", "write_buffer_index"),
        0,
        False,
    ),
    ("ComputeAt", "compute_at", _move, 0, False),
    ("ReverseComputeAt", "reverse_compute_at", _move, 0, False),
    ("ComputeInline", "compute_inline", _ONE_BLOCK, 0, False),
    ("ReverseComputeInline", "reverse_compute_inline", _ONE_BLOCK, 0, False),
    ("DecomposeReduction", "decompose_reduction", _named("block", "loop"), 1, False),
    ("RFactor", "rfactor", _named("loop", "factor_axis"), 1, False),
    (
        "StorageAlign",
        "storage_align",
        _named("block", "buffer_index", "axis", "factor", "offset"),
        0,
        False,
    ),
    (
        "SetScope",
        "set_scope",
        _named("block", "buffer_index", "storage_scope"),
        0,
        False,
    ),
    ("Annotate", "annotate", _annotate, 0, False),
    ("Unannotate", "unannotate", _named("block_or_loop", "ann_key"), 0, False),
    (
        "SetAxisSeparator",
        "set_axis_separator",
        _named("block", "buffer", "axis_separators"),
        0,
        False,
    ),
    (
        "UnsafeSetDType",
        "unsafe_set_dtype",
        _named("block", "buffer_index", "dtype"),
        0,
        False,
    ),
    (
        "CacheIndex",
        "cache_index",
        _named("block", "storage_scope", "cse_thresh"),
        -1,
        False,
    ),
    (
        "AnnotateBufferAccess",
        "annotate_buffer_access",
        _named("block", "buffer_index", "buf_type", "gen_new_ranges"),
        0,
        False,
    ),
    (
        "UnsafeHideBufferAccess",
        "unsafe_hide_buffer_access",
        _named("block", "buf_type", "buf_index_array"),
        0,
        False,
    ),
    ("ReIndex", "reindex", _named("block", "buffer"), 1, False),
    (
        "ReindexCacheRead",
        "reindex_cache_read",
        _named("block", "read_buffer_index", "storage_scope", "index_map"),
        1,
        False,
    ),
    (
        "ReindexCacheWrite",
        "reindex_cache_write",
        _named("block", "write_buffer_index", "storage_scope", "index_map"),
        1,
        False,
    ),
    (
        "Tensorize",
        "tensorize",
        _named("block_or_loop", "tensor_intrin", "preserve_unit_iters"),
        0,
        False,
    ),
    (
        "TransformLayout",
        "transform_layout",
        _named(
            "block", "buffer", "index_map", "pad_value", "assume_injective_transform"
        ),
        0,
        False,
    ),
    (
        "TransformBlockLayout",
        "transform_block_layout",
        _named("block", "index_map"),
        0,
        False,
    ),
    ("Blockize", "blockize", _named("target", "preserve_unit_iters"), 1, False),
    (
        "FuseReductionEpilogue",
        "fuse_reduction_epilogue",
        _named("reduction_block", "epilogue_block"),
        0,
        False,
    ),
    ("DecomposePadding", "decompose_padding", _named("block", "loop"), 1, False),
    ("PadEinsum", "pad_einsum", _named("block", "padding"), 0, False),
    ("EnterPostproc", "enter_postproc", _named(), 0, False),
):
    InstructionKind(
        _name, _method, _arguments, num_results=_num_results, is_pure=_is_pure
    )
