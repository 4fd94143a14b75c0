// The tir dialect in IRDL. Written by `make irdl`.
irdl.dialect @tir {
  irdl.operation @address {
    %buffer = irdl.base "!builtin.memref"
    %indices = irdl.is index
    %pointer = irdl.any
    irdl.operands(buffer: %buffer, indices: variadic %indices)
    irdl.results(pointer: %pointer)
  }
  irdl.operation @alloc_buffer {
    %sizes = irdl.is index
    %buffer = irdl.base "!builtin.memref"
    %attr_shape = irdl.any
    irdl.operands(sizes: variadic %sizes)
    irdl.results(buffer: %buffer)
    irdl.attributes {"shape" = %attr_shape}
  }
  irdl.operation @assert {
    %condition = irdl.base "!builtin.integer"
    %attr_message = irdl.base "#builtin.string"
    irdl.operands(condition: %condition)
    irdl.attributes {"message" = %attr_message}
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
  irdl.operation @call {
    %args = irdl.base "!builtin.tuple"
    %outputs = irdl.any
    %attr_callee = irdl.base "#builtin.string"
    %attr_literals = irdl.base "#builtin.array"
    irdl.operands(args: %args)
    irdl.results(outputs: variadic %outputs)
    irdl.attributes {"callee" = %attr_callee, "literals" = %attr_literals}
  }
  irdl.operation @call_packed {
    %args = irdl.base "!builtin.tuple"
    %attr_callee = irdl.base "#builtin.string"
    irdl.operands(args: %args)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @evaluate {
    %value = irdl.any
    irdl.operands(value: %value)
  }
  irdl.operation @let {
    %value = irdl.any
    %result = irdl.any
    %attr_name = irdl.base "#builtin.string"
    irdl.operands(value: %value)
    irdl.results(result: %result)
    irdl.attributes {"name" = %attr_name}
  }
}
