"""Host interpreter: runs the parts of a module that are not compiled to machine code."""
