"""Launch plans: kernel launches, copies, and library and host calls of ``main``, as data.

A plan is stored as JSON. Values that depend on the sizes of a call are expressions as text,
such as ``4*ceildiv(n, 2)``, in the syntax of signatures. Binding a plan evaluates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.matmul_descriptors import Matmul
from relax_mlir.runtime.cuda.pointers import (
    Expression,
    Json,
    Pointer,
    Sizes,
    evaluate,
    evaluate_all,
)

__all__ = [
    "Argument",
    "BoundLaunch",
    "BoundPlan",
    "Call",
    "Copy",
    "Expression",
    "HostArray",
    "HostCall",
    "Launch",
    "LibraryCall",
    "Plan",
    "Pointer",
    "Program",
    "TensorMap",
    "evaluate",
]


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor, passed to kernels by value (128 bytes).

    Attributes:
        pointer: to the first element.
        element: the driver's element type, such as ``FLOAT16``, ``BFLOAT16``, ``FLOAT32``
            or ``TFLOAT32``; ``UINT8`` for 8-bit floats, which it lacks.
        sizes: innermost first.
        strides_bytes: of all dimensions but the innermost.
        box: tile shape of a copy, in elements.
        swizzle: ``NONE``, ``32B``, ``64B`` or ``128B``.
        steps: element strides of the box; empty for 1 in all dimensions.
    """

    pointer: Pointer
    element: str
    sizes: tuple[Expression, ...]
    strides_bytes: tuple[Expression, ...]
    box: tuple[int, ...]
    swizzle: str = "NONE"
    steps: tuple[int, ...] = ()

    def fields(self) -> Json:
        """The JSON form."""
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
        """Inverse of :meth:`fields`."""
        _, pointer, element, sizes, strides, box, swizzle, steps = fields
        return TensorMap(
            Pointer.from_fields(pointer),
            element,
            tuple(sizes),
            tuple(strides),
            tuple(box),
            swizzle,
            tuple(steps),
        )

    def at(self, sizes: Sizes) -> TensorMap:
        """Evaluate for values of the symbolic sizes."""
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
    """A kernel launch.

    Attributes:
        kernel: its name in the program's PTX.
        grid: blocks per dimension; block: threads per dimension.
        shared_bytes: dynamic shared memory per block.
        arguments: of the kernel.
        waits: whether the kernel waits for the previous launch itself
            (``griddepcontrol.wait``), so that both may overlap.
    """

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared_bytes: Expression
    arguments: tuple[Argument, ...]
    waits: bool

    def fields(self) -> Json:
        """The JSON form."""
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
        """Inverse of :meth:`fields`."""
        kernel, grid, block, shared, arguments, waits = fields
        parsed = tuple(map(_argument, arguments))
        return Launch(kernel, tuple(grid), tuple(block), shared, parsed, waits)

    def at(self, sizes: Sizes) -> Launch:
        """Evaluate for values of the symbolic sizes."""
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

    def with_arguments(self, arguments: tuple[Argument, ...]) -> Launch:
        """The launch with other arguments."""
        return replace(self, arguments=arguments)

    @property
    def is_empty(self) -> bool:
        """Whether the grid has no blocks; for bound sizes."""
        return not all(self.grid)


LibraryCall: TypeAlias = Matmul | Convolution
"""A library call between launches."""


def _launch(fields: Json) -> Launch | LibraryCall:
    if not isinstance(fields, dict):
        return Launch.from_fields(fields)
    kind = Convolution if "convolution" in fields else Matmul
    return kind.from_fields(fields)


@dataclass(frozen=True)
class Program:
    """A compiled PrimFunc: a sequence of launches and library calls.

    Attributes:
        sizes: names of its size parameters.
        scratch: size of each scratch buffer in bytes.
    """

    sizes: tuple[str, ...]
    scratch: tuple[Expression, ...]
    launches: tuple[Launch | LibraryCall, ...]

    def fields(self) -> Json:
        """The JSON form."""
        launches = [launch.fields() for launch in self.launches]
        return [list(self.sizes), list(self.scratch), launches]

    @staticmethod
    def from_fields(fields: Json) -> Program:
        """Inverse of :meth:`fields`."""
        sizes, scratch, launches = fields
        return Program(tuple(sizes), tuple(scratch), tuple(map(_launch, launches)))


@dataclass(frozen=True)
class Call:
    """A step that calls a program.

    Attributes:
        program: its index; kernel: index of the model's kernel call.
        pointers: buffer arguments; sizes: size arguments.
    """

    program: int
    kernel: int
    pointers: tuple[Pointer, ...]
    sizes: tuple[Expression, ...]

    def fields(self) -> Json:
        """The JSON form."""
        pointers = [p.fields() for p in self.pointers]
        return ["call", self.program, self.kernel, pointers, list(self.sizes)]

    @property
    def expressions(self) -> list[Expression]:
        """All values that may depend on the sizes of ``main``."""
        return [*self.sizes, *(p.offset_bytes for p in self.pointers)]


@dataclass(frozen=True)
class Copy:
    """A step that copies memory."""

    source: Pointer
    target: Pointer
    size_bytes: Expression

    def fields(self) -> Json:
        """The JSON form."""
        return ["copy", self.source.fields(), self.target.fields(), self.size_bytes]

    @property
    def expressions(self) -> list[Expression]:
        """All values that may depend on sizes."""
        return [self.size_bytes, self.source.offset_bytes, self.target.offset_bytes]

    def at(self, sizes: Sizes) -> Copy:
        """Evaluate for values of the symbolic sizes."""
        size_bytes = evaluate(self.size_bytes, sizes)
        return Copy(self.source.at(sizes), self.target.at(sizes), size_bytes)


@dataclass(frozen=True)
class HostArray:
    """An argument of a host function."""

    pointer: Pointer
    dtype: str
    shape: tuple[Expression, ...]

    def fields(self) -> Json:
        """The JSON form."""
        return [self.pointer.fields(), self.dtype, list(self.shape)]

    @staticmethod
    def from_fields(fields: Json) -> HostArray:
        """Inverse of :meth:`fields`."""
        pointer, dtype, shape = fields
        return HostArray(Pointer.from_fields(pointer), dtype, tuple(shape))

    def at(self, sizes: Sizes) -> HostArray:
        """Evaluate for values of the symbolic sizes."""
        return HostArray(
            self.pointer.at(sizes), self.dtype, evaluate_all(self.shape, sizes)
        )


@dataclass(frozen=True)
class HostCall:
    """A step that calls a host function by name, on copies in host memory."""

    function: str
    arrays: tuple[HostArray, ...]

    def fields(self) -> Json:
        """The JSON form."""
        return ["host", self.function, [a.fields() for a in self.arrays]]

    @property
    def expressions(self) -> list[Expression]:
        """All values that may depend on sizes."""
        return [n for a in self.arrays for n in (a.pointer.offset_bytes, *a.shape)]

    def at(self, sizes: Sizes) -> HostCall:
        """Evaluate for values of the symbolic sizes."""
        return HostCall(self.function, tuple(a.at(sizes) for a in self.arrays))


Step: TypeAlias = Call | Copy | HostCall


def _step(fields: Json) -> Step:
    kind, *rest = fields
    if kind == "call":
        program, kernel, pointers, sizes = rest
        arguments = tuple(map(Pointer.from_fields, pointers))
        return Call(program, kernel, arguments, tuple(sizes))
    if kind == "copy":
        source, target, size_bytes = rest
        ends = Pointer.from_fields(source), Pointer.from_fields(target)
        return Copy(*ends, size_bytes)
    if kind == "host":
        function, arrays = rest
        return HostCall(function, tuple(map(HostArray.from_fields, arrays)))
    raise ValueError(f"unknown step `{kind}` of a launch plan")


@dataclass(frozen=True)
class BoundLaunch:
    """A launch with bound sizes and translated pointers.

    Attributes:
        program: index of the program; kernel: index of the model's kernel call.
    """

    program: int
    kernel: int
    launch: Launch | LibraryCall


BoundStep: TypeAlias = tuple[BoundLaunch | Copy | HostCall, ...]
"""The operations of a step with bound sizes."""


@dataclass(frozen=True)
class BoundPlan:
    """A plan with bound sizes.

    Attributes:
        sizes: values of the symbolic sizes.
        steps: the bound steps, in order.
        dynamic: indices of steps that depend on sizes; other steps are identical objects
            for all sizes.
        workspace_bytes: size of the scratch memory that all programs share.
    """

    sizes: tuple[int, ...]
    steps: tuple[BoundStep, ...]
    dynamic: tuple[int, ...]
    workspace_bytes: int


@dataclass(frozen=True)
class _BoundProgram:
    """A program with bound sizes.

    Attributes:
        launches: of the program; scratch: pointers to its scratch buffers;
            workspace_bytes: total size of the scratch buffers.
    """

    launches: tuple[Launch | LibraryCall, ...]
    scratch: tuple[Pointer, ...]
    workspace_bytes: int

    @staticmethod
    def of(program: Program, sizes: Sizes) -> _BoundProgram:
        """Bind the sizes of a program.

        Raises:
            ValueError: an expression is invalid, or a size is negative.
        """
        scratch: list[Pointer] = []
        total = 0
        for size_bytes in evaluate_all(program.scratch, sizes):
            if size_bytes < 0:
                raise ValueError(f"`main`: scratch memory of {size_bytes} bytes")
            scratch.append(Pointer("workspace", 0, total))
            total += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        launches = tuple(launch.at(sizes) for launch in program.launches)
        return _BoundProgram(launches, tuple(scratch), total)


_ALIGNMENT = 256  # bytes, of scratch buffers, as for allocations of the driver


@dataclass(frozen=True)
class Plan:
    """The launch plan of ``main``.

    Attributes:
        programs: callees; steps: in order.
    """

    programs: tuple[Program, ...]
    steps: tuple[Step, ...]

    def fields(self) -> Json:
        """The JSON form."""
        programs = [program.fields() for program in self.programs]
        return {"programs": programs, "steps": [step.fields() for step in self.steps]}

    @staticmethod
    def from_fields(fields: Json) -> Plan:
        """Inverse of :meth:`fields`.

        Raises:
            ValueError: the kind of a step is unknown.
        """
        programs = tuple(map(Program.from_fields, fields["programs"]))
        return Plan(programs, tuple(map(_step, fields["steps"])))

    @property
    def calls_host(self) -> bool:
        """Whether a step calls a host function."""
        return any(isinstance(step, HostCall) for step in self.steps)

    def at(self, sizes: Sizes) -> BoundPlan:
        """Bind the sizes of a call.

        Raises:
            ValueError: an expression is invalid, or a size is negative.
        """
        return self._bind(self._static, sizes, self._static.dynamic)

    @cached_property
    def _static(self) -> BoundPlan:
        """The plan with its size-independent steps bound, and the others empty."""
        is_dynamic = [
            not all(isinstance(e, int) for e in step.expressions) for step in self.steps
        ]
        numbers = range(len(self.steps))
        steps: tuple[BoundStep, ...] = ((),) * len(self.steps)
        empty = BoundPlan((), steps, tuple(n for n in numbers if is_dynamic[n]), 0)
        return self._bind(empty, {}, [n for n in numbers if not is_dynamic[n]])

    def _bind(self, rest: BoundPlan, sizes: Sizes, numbers: Sequence[int]) -> BoundPlan:
        """Bind some steps, and take the others from ``rest``."""
        steps, workspace_bytes = list(rest.steps), rest.workspace_bytes
        programs: dict[tuple[int, tuple[int, ...]], _BoundProgram] = {}
        for number in numbers:
            step = self.steps[number]
            if not isinstance(step, Call):
                steps[number] = (step.at(sizes),)
                continue
            values = evaluate_all(step.sizes, sizes)
            program = programs.get((step.program, values))
            if program is None:
                unbound = self.programs[step.program]
                parameters = dict(zip(unbound.sizes, values, strict=True))
                program = _BoundProgram.of(unbound, parameters)
                programs[step.program, values] = program
            steps[number] = _bound_launches(step, program, sizes)
            workspace_bytes = max(workspace_bytes, program.workspace_bytes)
        values = tuple(sizes.values())
        return BoundPlan(values, tuple(steps), rest.dynamic, workspace_bytes)


def _bound_launches(
    call: Call, program: _BoundProgram, sizes: Sizes
) -> tuple[BoundLaunch, ...]:
    """The launches of a call, with pointers translated from callee to ``main``."""
    arguments = [pointer.at(sizes) for pointer in call.pointers]
    memory = {"argument": arguments, "scratch": program.scratch}

    def translated(argument: Argument) -> Argument:
        if isinstance(argument, Pointer):
            base = memory[argument.base][argument.number]
            return base.offset_by(argument.offset_bytes)
        if isinstance(argument, TensorMap):
            return replace(argument, pointer=translated(argument.pointer))
        return argument

    return tuple(
        BoundLaunch(
            call.program,
            call.kernel,
            launch.with_arguments(tuple(map(translated, launch.arguments)))
            if isinstance(launch, Launch)
            else launch.with_pointers(translated),
        )
        for launch in program.launches
    )
