"""Names of the discardable attributes of tensor programs.

Most preserve what a TVMScript program states, and do not change what is computed; passes
may drop them. :data:`KIND` and :data:`THREAD` choose how a loop is executed;
:data:`PRIM_FUNC` says what a function is.
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
    "PRIM_FUNC",
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

# Loops.
KIND = "tir.kind"  # execution: serial, parallel, vectorized, unrolled, thread_binding
THREAD = "tir.thread"  # thread axis of a thread_binding loop
AXIS = "tir.axis"  # kind of the block axis that the loop runs over: S (parallel) or R
LOOP_NAMES = "tir.loop_names"  # on a block without bindings: names of its implied loops

# Blocks.
AXIS_NAMES = "tir.axis_names"
AXIS_DTYPES = "tir.axis_dtypes"  # if not all int32
AXIS_STARTS = "tir.axis_starts"  # lower bounds, if not all 0
WHERE = "tir.where"  # on an scf.if: it is the predicate (T.where) of the block inside
TOUCHED = "tir.touched"  # explicit read and write regions (T.reads, T.writes)
PAD = "tir.pad"  # on a block that pads a buffer: leading padding per dimension

# Buffers, values and pointers.
DTYPE = "tir.dtype"  # element type, if the MLIR type does not imply it
SIZE_DTYPE = "tir.size_dtype"  # type of the sizes of a buffer's shape; int32 if absent
BUFFER = "tir.buffer"  # alignment, strides and the like, if not the defaults
MATCH = "tir.match_buffer"  # on a memref.subview: it is a match_buffer of a block
ALLOCATE = "tir.allocate"  # on a buffer of which the script has only the pointer
CONTENTS = "tir.contents"  # initial elements, from the first one on
IMPLICIT = "tir.implicit"  # on a buffer that no statement of the script declares
POINTEE = "tir.pointee"  # of a pointer: element type and storage scope
NOT_POSITIVE = "tir.not_positive"  # on a math.exp of x <= 0: may flush subnormals to 0

# Functions and their arguments.
PRIM_FUNC = "tir.prim_func"  # the function is a tensor program
ORDER = "tir.order"  # permutation of the arguments to the order of the script
RETURN_TYPE = "tir.return_type"  # if the program returns a value
ROOT = "tir.root"  # name of the root block
SYMBOL = "tir.symbol"  # on an index argument: the symbolic size that it passes
PARAM = "tir.param"  # on a size argument that is also a parameter of the script
RING = "tir.ring"  # a buffer that `rolling_buffer` has made circular
HANDLE = "tir.handle"  # on a buffer argument: name of its pointer in the script
IN_PLACE = "tir.in_place"  # arguments whose memory the result may reuse
SUBROUTINE = "tir.subroutine"  # on a tir.call: the callee is a function of the module
WINOGRAD = "tir.winograd"  # argument numbers: data, transformed kernel, limits

# Kernels and launches.
AT_ONCE = "tir.at_once"  # minimum resident blocks per multiprocessor (nvvm.minctasm)
WAITS = (
    "tir.waits"  # threads wait for the preceding launch (programmatic dependent launch)
)
STEPS = "tir.steps"  # element strides of the box of a tensor map (TMA descriptor)
BY_VALUE = "tir.by_value"  # kernel arguments passed by value: tensor maps

# Any of them.
NAME = "tir.name"  # name of a loop variable, a buffer or a function in the script
ANNOTATIONS = "tir.annotations"  # dictionary of annotations of a loop or a block
