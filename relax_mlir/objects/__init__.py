"""Relax and TIR as Python objects: read from MLIR, and written to it.

Terms (:mod:`.expr`, :mod:`.prim`) stand nowhere; a function (:mod:`.function`) is a view
of one in a module; :mod:`.writer` and :mod:`.reader` go between the two.
"""
