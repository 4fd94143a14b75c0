"""The relax dialect: one class per operator, by family."""

from relax_mlir.dialects.relax.core import *
from relax_mlir.dialects.relax.elementwise import *
from relax_mlir.dialects.relax.matmul import *
from relax_mlir.dialects.relax.movement import *
from relax_mlir.dialects.relax.norm import *
