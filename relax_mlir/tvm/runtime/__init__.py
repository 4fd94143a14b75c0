"""What stands in TVM's runtime and is of a higher level here: ``tvm.runtime``."""
