"""What ``main`` of a compiled model does on a GPU: which kernels it starts, on what.

A plan is plain data, JSON on disk. What depends on the sizes of a call is a text such as
``4*ceildiv(n, 2)``, as signatures spell sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from relax_mlir.runtime.cuda.convolutions import Convolution
from relax_mlir.runtime.cuda.pointers import (
    Expression,
    Json,
    Pointer,
    Sizes,
    evaluate,
    evaluate_all,
)
from relax_mlir.runtime.cuda.products import Product

__all__ = [
    "Argument",
    "Call",
    "Copy",
    "Expression",
    "HostArray",
    "HostCall",
    "KnownPlan",
    "Launch",
    "LibraryCall",
    "Plan",
    "Pointer",
    "Program",
    "Started",
    "TensorMap",
    "evaluate",
]


@dataclass(frozen=True)
class TensorMap:
    """A descriptor of a tensor in memory, which a kernel gets by value: 128 bytes.

    Attributes:
        pointer: to the first element.
        element: the driver's name of its type, such as ``FLOAT16``, ``BFLOAT16``,
            ``FLOAT32`` or ``TFLOAT32``; ``UINT8`` of 8-bit floats, for which it has none.
        sizes: innermost first.
        strides_bytes: of all dimensions but the innermost.
        box: elements that one copy takes of each dimension.
        swizzle: ``NONE``, ``32B``, ``64B`` or ``128B``.
        steps: of each dimension a box takes each so many-th element; all if there are
            none.
    """

    pointer: Pointer
    element: str
    sizes: tuple[Expression, ...]
    strides_bytes: tuple[Expression, ...]
    box: tuple[int, ...]
    swizzle: str = "NONE"
    steps: tuple[int, ...] = ()

    def fields(self) -> Json:
        """As JSON holds it."""
        return [
            "tensor_map",
            self.pointer.fields(),
            self.element,
            list(self.sizes),
            list(self.strides_bytes),
            list(self.box),
            self.swizzle,
            list(self.steps),
        ]

    @staticmethod
    def from_fields(fields: Json) -> TensorMap:
        """What :meth:`fields` made."""
        _, pointer, element, sizes, strides, box, swizzle, steps = fields
        where = Pointer.from_fields(pointer)
        lengths, far = tuple(sizes), tuple(strides)
        return TensorMap(
            where, element, lengths, far, tuple(box), swizzle, tuple(steps)
        )

    def at(self, sizes: Sizes) -> TensorMap:
        """It, when sizes are known."""
        return replace(
            self,
            pointer=self.pointer.at(sizes),
            sizes=evaluate_all(self.sizes, sizes),
            strides_bytes=evaluate_all(self.strides_bytes, sizes),
        )


Argument: TypeAlias = Any  # Any: Pointer | TensorMap | Expression, a 64-bit number


def _argument_fields(argument: Argument) -> Json:
    is_memory = isinstance(argument, Pointer | TensorMap)
    return argument.fields() if is_memory else ["number", argument]


def _argument(fields: Json) -> Argument:
    if fields[0] == "number":
        return fields[1]
    return (Pointer if fields[0] == "pointer" else TensorMap).from_fields(fields)


@dataclass(frozen=True)
class Launch:
    """A grid of a kernel.

    Attributes:
        kernel: its name in the program's PTX.
        grid: numbers of blocks; block: of threads.
        shared_bytes: dynamic shared memory of a block.
        arguments: what the kernel gets.
        waits: whether its threads wait for the launch before, which may still go on when
            they begin.
    """

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_bytes: Expression
    arguments: tuple[Argument, ...]
    waits: bool

    def fields(self) -> Json:
        """As JSON holds it."""
        arguments = [_argument_fields(a) for a in self.arguments]
        return [
            self.kernel,
            list(self.grid),
            list(self.block),
            self.shared_bytes,
            arguments,
            self.waits,
        ]

    @staticmethod
    def from_fields(fields: Json) -> Launch:
        """What :meth:`fields` made."""
        kernel, grid, block, shared, arguments, waits = fields
        made = tuple(map(_argument, arguments))
        return Launch(kernel, tuple(grid), tuple(block), shared, made, waits)

    def at(self, sizes: Sizes) -> Launch:
        """It, when sizes are known."""
        return Launch(
            self.kernel,
            evaluate_all(self.grid, sizes),
            evaluate_all(self.block, sizes),
            evaluate(self.shared_bytes, sizes),
            tuple(
                a.at(sizes)
                if isinstance(a, Pointer | TensorMap)
                else evaluate(a, sizes)
                for a in self.arguments
            ),
            self.waits,
        )

    def given(self, arguments: tuple[Argument, ...]) -> Launch:
        """It, with other arguments."""
        return replace(self, arguments=arguments)

    @property
    def is_empty(self) -> bool:
        """Whether there are no blocks, when sizes are known."""
        return not all(self.grid)


LibraryCall: TypeAlias = Product | Convolution
"""What a library computes, between launches."""


def _launch(fields: Json) -> Launch | LibraryCall:
    if not isinstance(fields, dict):
        return Launch.from_fields(fields)
    kind = Convolution if "convolution" in fields else Product
    return kind.from_fields(fields)


@dataclass(frozen=True)
class Program:
    """A tensor program: launches, and calls of libraries, one after the other.

    Attributes:
        sizes: names of the sizes that it gets.
        scratch: bytes of each buffer of its own.
    """

    sizes: tuple[str, ...]
    scratch: tuple[Expression, ...]
    launches: tuple[Launch | LibraryCall, ...]

    def fields(self) -> Json:
        """As JSON holds it."""
        launches = [launch.fields() for launch in self.launches]
        return [list(self.sizes), list(self.scratch), launches]

    @staticmethod
    def from_fields(fields: Json) -> Program:
        """What :meth:`fields` made."""
        sizes, scratch, launches = fields
        made = tuple(map(_launch, launches))
        return Program(tuple(sizes), tuple(scratch), made)


@dataclass(frozen=True)
class Call:
    """``main`` runs a program.

    Attributes:
        program: its number; kernel: which of the kernels that the model names.
        pointers: its buffers; sizes: its sizes.
    """

    program: int
    kernel: int
    pointers: tuple[Pointer, ...]
    sizes: tuple[Expression, ...]

    def fields(self) -> Json:
        """As JSON holds it."""
        pointers = [p.fields() for p in self.pointers]
        return ["call", self.program, self.kernel, pointers, list(self.sizes)]

    @property
    def expressions(self) -> list[Expression]:
        """All that may depend on the sizes of ``main``."""
        return [*self.sizes, *(p.offset_bytes for p in self.pointers)]


@dataclass(frozen=True)
class Copy:
    """``main`` copies bytes."""

    source: Pointer
    target: Pointer
    size_bytes: Expression

    def fields(self) -> Json:
        """As JSON holds it."""
        return ["copy", self.source.fields(), self.target.fields(), self.size_bytes]

    @property
    def expressions(self) -> list[Expression]:
        """All that may depend on sizes."""
        return [self.size_bytes, self.source.offset_bytes, self.target.offset_bytes]

    def at(self, sizes: Sizes) -> Copy:
        """It, when sizes are known."""
        size_bytes = evaluate(self.size_bytes, sizes)
        return Copy(self.source.at(sizes), self.target.at(sizes), size_bytes)


@dataclass(frozen=True)
class HostArray:
    """An argument of a function on the host."""

    pointer: Pointer
    dtype: str
    shape: tuple[Expression, ...]

    def fields(self) -> Json:
        """As JSON holds it."""
        return [self.pointer.fields(), self.dtype, list(self.shape)]

    @staticmethod
    def from_fields(fields: Json) -> HostArray:
        """What :meth:`fields` made."""
        pointer, dtype, shape = fields
        return HostArray(Pointer.from_fields(pointer), dtype, tuple(shape))

    def at(self, sizes: Sizes) -> HostArray:
        """It, when sizes are known."""
        return HostArray(
            self.pointer.at(sizes), self.dtype, evaluate_all(self.shape, sizes)
        )


@dataclass(frozen=True)
class HostCall:
    """``main`` calls a function by name, which gets copies in the host's memory."""

    function: str
    arrays: tuple[HostArray, ...]

    def fields(self) -> Json:
        """As JSON holds it."""
        return ["host", self.function, [a.fields() for a in self.arrays]]

    @property
    def expressions(self) -> list[Expression]:
        """All that may depend on sizes."""
        return [n for a in self.arrays for n in (a.pointer.offset_bytes, *a.shape)]

    def at(self, sizes: Sizes) -> HostCall:
        """It, when sizes are known."""
        return HostCall(self.function, tuple(a.at(sizes) for a in self.arrays))


Step: TypeAlias = Call | Copy | HostCall


def _step(fields: Json) -> Step:
    kind, *rest = fields
    if kind == "call":
        program, kernel, pointers, sizes = rest
        made = tuple(map(Pointer.from_fields, pointers))
        return Call(program, kernel, made, tuple(sizes))
    if kind == "copy":
        source, target, size_bytes = rest
        ends = Pointer.from_fields(source), Pointer.from_fields(target)
        return Copy(*ends, size_bytes)
    if kind == "host":
        function, arrays = rest
        return HostCall(function, tuple(map(HostArray.from_fields, arrays)))
    raise ValueError(f"unknown step `{kind}` of a plan")


@dataclass(frozen=True)
class Started:
    """A launch of a call, when sizes are known.

    Attributes:
        program: in whose PTX the kernel is; kernel: of those that the model names.
    """

    program: int
    kernel: int
    launch: Launch | LibraryCall


Done: TypeAlias = tuple[Started | Copy | HostCall, ...]
"""What a step does, when sizes are known."""


@dataclass(frozen=True)
class KnownPlan:
    """What one call does, when sizes are known.

    Attributes:
        sizes: their values.
        steps: what each step of the plan does, in order.
        open: numbers of those that depend on sizes; all others are the same objects
            whatever the sizes are.
        workspace_bytes: scratch memory of all programs, which use it in turn.
    """

    sizes: tuple[int, ...]
    steps: tuple[Done, ...]
    open: tuple[int, ...]
    workspace_bytes: int


@dataclass(frozen=True)
class _KnownProgram:
    """A program whose sizes are known.

    Attributes:
        launches: of it; scratch: where its own buffers begin; workspace_bytes: of all.
    """

    launches: tuple[Launch | LibraryCall, ...]
    scratch: tuple[Pointer, ...]
    workspace_bytes: int

    @staticmethod
    def of(program: Program, sizes: Sizes) -> _KnownProgram:
        """A program when sizes are known.

        Raises:
            ValueError: an expression of sizes makes no sense, or a size is negative.
        """
        scratch: list[Pointer] = []
        total = 0
        for size_bytes in evaluate_all(program.scratch, sizes):
            if size_bytes < 0:
                raise ValueError(f"`main`: scratch memory of {size_bytes} bytes")
            scratch.append(Pointer("workspace", 0, total))
            total += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        launches = tuple(launch.at(sizes) for launch in program.launches)
        return _KnownProgram(launches, tuple(scratch), total)


_ALIGNMENT = 256  # bytes, of scratch memory: what the driver gives


@dataclass(frozen=True)
class Plan:
    """What ``main`` does.

    Attributes:
        programs: that it runs; steps: in order.
    """

    programs: tuple[Program, ...]
    steps: tuple[Step, ...]

    def fields(self) -> Json:
        """As JSON holds it."""
        programs = [program.fields() for program in self.programs]
        return {"programs": programs, "steps": [step.fields() for step in self.steps]}

    @staticmethod
    def from_fields(fields: Json) -> Plan:
        """What :meth:`fields` made.

        Raises:
            ValueError: a step is of no known kind.
        """
        programs = tuple(map(Program.from_fields, fields["programs"]))
        return Plan(programs, tuple(map(_step, fields["steps"])))

    @property
    def calls_host(self) -> bool:
        """Whether functions on the host take part."""
        return any(isinstance(step, HostCall) for step in self.steps)

    def at(self, sizes: Sizes) -> KnownPlan:
        """What a call with these sizes does.

        Raises:
            ValueError: an expression of sizes makes no sense, or a size is negative.
        """
        return self._known(self._fixed, sizes, self._fixed.open)

    @cached_property
    def _fixed(self) -> KnownPlan:
        """What does not depend on sizes; steps that do are empty."""
        is_open = [
            not all(isinstance(e, int) for e in step.expressions) for step in self.steps
        ]
        numbers = range(len(self.steps))
        steps: tuple[Done, ...] = ((),) * len(self.steps)
        nothing = KnownPlan((), steps, tuple(n for n in numbers if is_open[n]), 0)
        return self._known(nothing, {}, [n for n in numbers if not is_open[n]])

    def _known(
        self, rest: KnownPlan, sizes: Sizes, numbers: Sequence[int]
    ) -> KnownPlan:
        """Some steps when sizes are known, and the rest as it is."""
        steps, workspace_bytes = list(rest.steps), rest.workspace_bytes
        programs: dict[tuple[int, tuple[int, ...]], _KnownProgram] = {}
        for number in numbers:
            step = self.steps[number]
            if not isinstance(step, Call):
                steps[number] = (step.at(sizes),)
                continue
            values = evaluate_all(step.sizes, sizes)
            program = programs.get((step.program, values))
            if program is None:
                whole = self.programs[step.program]
                own = dict(zip(whole.sizes, values, strict=True))
                program = _KnownProgram.of(whole, own)
                programs[step.program, values] = program
            steps[number] = _started(step, program, sizes)
            workspace_bytes = max(workspace_bytes, program.workspace_bytes)
        values = tuple(sizes.values())
        return KnownPlan(values, tuple(steps), rest.open, workspace_bytes)


def _started(call: Call, program: _KnownProgram, sizes: Sizes) -> tuple[Started, ...]:
    """The launches of a call."""
    given = [pointer.at(sizes) for pointer in call.pointers]
    memory = {"argument": given, "scratch": program.scratch}

    def placed(argument: Argument) -> Argument:
        if isinstance(argument, Pointer):
            base = memory[argument.base][argument.number]
            return base.moved(argument.offset_bytes)
        if isinstance(argument, TensorMap):
            return replace(argument, pointer=placed(argument.pointer))
        return argument

    return tuple(
        Started(
            call.program,
            call.kernel,
            known.given(tuple(map(placed, known.arguments)))
            if isinstance(known, Launch)
            else known.placed(placed),
        )
        for known in program.launches
    )
