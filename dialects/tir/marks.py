"""The attributes by which a tensor program remembers what scripts say.

They change nothing about what it computes, but for :data:`KIND` and :data:`THREAD`, which
say how a loop runs; passes may drop the others.
"""

__all__ = [
    "ALLOCATE",
    "ANNOTATIONS",
    "AT_ONCE",
    "AXIS",
    "AXIS_DTYPES",
    "AXIS_NAMES",
    "AXIS_STARTS",
    "BUFFER",
    "BY_VALUE",
    "CONTENTS",
    "DTYPE",
    "HANDLE",
    "IMPLICIT",
    "IN_PLACE",
    "KIND",
    "LOOP_NAMES",
    "MATCH",
    "NAME",
    "NOT_POSITIVE",
    "ORDER",
    "PAD",
    "PARAM",
    "POINTEE",
    "RETURN_TYPE",
    "RING",
    "ROOT",
    "SIZE_DTYPE",
    "STEPS",
    "SUBROUTINE",
    "SYMBOL",
    "THREAD",
    "TOUCHED",
    "WAITS",
    "WHERE",
    "WINOGRAD",
]

KIND = "tir.kind"  # of a loop: serial, parallel, vectorized, unrolled, thread_binding
THREAD = "tir.thread"  # of a loop: the thread axis that it is bound to
AXIS = "tir.axis"  # of a loop over an axis of a block: S, whose points are independent, or R
NAME = "tir.name"  # of a loop's variable, of a buffer, of a function of a script
DTYPE = "tir.dtype"  # element type of a value where its MLIR type does not tell it
SIZE_DTYPE = (
    "tir.size_dtype"  # type of the numbers in a buffer's shape; int32 if absent
)
ANNOTATIONS = "tir.annotations"  # of a loop or a block: a dictionary
AT_ONCE = "tir.at_once"  # of a launch: blocks that a processor has registers for
WAITS = "tir.waits"  # of a launch: its threads wait for the launch before
WHERE = "tir.where"  # an scf.if that is the predicate of the block in it
AXIS_NAMES = "tir.axis_names"  # of a block
AXIS_DTYPES = "tir.axis_dtypes"  # of a block, where they are not all int32
AXIS_STARTS = "tir.axis_starts"  # of a block, where they are not all 0
LOOP_NAMES = "tir.loop_names"  # of a block that stands for its grid: of its loops
SYMBOL = "tir.symbol"  # of an argument: the size that it is
PARAM = "tir.param"  # an argument that is a size and a parameter of the script
RING = "tir.ring"  # of a buffer that `rolling_buffer` has turned into a ring
HANDLE = "tir.handle"  # of an argument: what the pointer to the buffer is called
BUFFER = "tir.buffer"  # of a buffer: alignment and the like, where not as usual
ORDER = "tir.order"  # of a program: numbers of its arguments in the order of a script
RETURN_TYPE = "tir.return_type"  # of a program, where it returns something
ROOT = "tir.root"  # of a program: name of the block that all of it stands in
TOUCHED = "tir.touched"  # of a block: regions that its body does not tell
MATCH = "tir.match_buffer"  # a memref.subview that is a buffer of a block
ALLOCATE = "tir.allocate"  # a buffer of which a script knows the pointer alone
CONTENTS = "tir.contents"  # of a buffer: its elements, from the first one on
IMPLICIT = "tir.implicit"  # a buffer that no statement of a script makes
POINTEE = "tir.pointee"  # of a pointer: what it points to, and in which memory
PAD = "tir.pad"  # of a block that pads a buffer: what it puts before, by dimension
STEPS = "tir.steps"  # of a descriptor: of which elements a box takes each so many-th
BY_VALUE = "tir.by_value"  # of a kernel: arguments that are descriptors of tensors
IN_PLACE = "tir.in_place"  # of a program: arguments whose memory its result may take
NOT_POSITIVE = "tir.not_positive"  # a math.exp of what is; its least results may be 0
SUBROUTINE = "tir.subroutine"  # a tir.call of a function of the module
WINOGRAD = "tir.winograd"  # of a convolution: numbers of its data, kernel at the points, limits
