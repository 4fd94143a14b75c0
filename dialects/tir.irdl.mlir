// The tir dialect in IRDL. Written by `make irdl`.
irdl.dialect @tir {
  irdl.operation @alloc_buffer {
    %sizes = irdl.is index
    %buffer = irdl.base "!builtin.memref"
    %attr_shape = irdl.any
    irdl.operands(sizes: variadic %sizes)
    irdl.results(buffer: %buffer)
    irdl.attributes {"shape" = %attr_shape}
  }
  irdl.operation @block {
    %extents = irdl.is index
    %bindings = irdl.is index
    %attr_name = irdl.base "#builtin.string"
    %attr_kinds = irdl.base "#builtin.string"
    %attr_static_extents = irdl.any
    %attr_operandSegmentSizes = irdl.any
    %init = irdl.region
    %body = irdl.region
    irdl.operands(extents: variadic %extents, bindings: variadic %bindings)
    irdl.attributes {"name" = %attr_name, "kinds" = %attr_kinds, "static_extents" = %attr_static_extents, "operandSegmentSizes" = %attr_operandSegmentSizes}
    irdl.regions(init: %init, body: %body)
  }
  irdl.operation @call_packed {
    %args = irdl.base "!builtin.tuple"
    %attr_callee = irdl.base "#builtin.string"
    irdl.operands(args: %args)
    irdl.attributes {"callee" = %attr_callee}
  }
}
