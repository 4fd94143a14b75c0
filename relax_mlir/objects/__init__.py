"""Relax and TIR as Python objects, read from MLIR and written to it.

Expressions (:mod:`.expr`, :mod:`.prim`) are free-standing trees; a function
(:mod:`.function`) is a view of one in a module. :mod:`.read` and :mod:`.write` convert
between MLIR and objects.
"""

from relax_mlir.support.ffi import import_tvm_ffi

import_tvm_ffi()
