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
  irdl.operation @attr {
    %args = irdl.base "!builtin.tuple"
    %attr_key = irdl.base "#builtin.string"
    %attr_form = irdl.base "#builtin.string"
    %attr_literals = irdl.base "#builtin.array"
    %combiner = irdl.region
    %body = irdl.region
    irdl.operands(args: %args)
    irdl.attributes {"key" = %attr_key, "form" = %attr_form, "literals" = %attr_literals}
    irdl.regions(combiner: %combiner, body: %body)
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
  irdl.operation @decl_buffer {
    %pointer = irdl.any
    %sizes = irdl.is index
    %buffer = irdl.base "!builtin.memref"
    %attr_shape = irdl.any
    irdl.operands(pointer: %pointer, sizes: variadic %sizes)
    irdl.results(buffer: %buffer)
    irdl.attributes {"shape" = %attr_shape}
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
  irdl.operation @library_convolution {
    %image = irdl.base "!builtin.memref"
    %weights = irdl.base "!builtin.memref"
    %result = irdl.base "!builtin.memref"
    %batch = irdl.is index
    %bias = irdl.base "!builtin.memref"
    %residual = irdl.base "!builtin.memref"
    %attr_counts = irdl.any
    %attr_image_sizes = irdl.any
    %attr_window_sizes = irdl.any
    %attr_result_sizes = irdl.any
    %attr_steps = irdl.any
    %attr_dilations = irdl.any
    %attr_pads = irdl.any
    %attr_image_strides = irdl.any
    %attr_result_strides = irdl.any
    %attr_channels_last = irdl.any
    %attr_tf32 = irdl.any
    %attr_activation = irdl.base "#builtin.string"
    %attr_operandSegmentSizes = irdl.any
    irdl.operands(image: %image, weights: %weights, result: %result, batch: %batch, bias: variadic %bias, residual: variadic %residual)
    irdl.attributes {"counts" = %attr_counts, "image_sizes" = %attr_image_sizes, "window_sizes" = %attr_window_sizes, "result_sizes" = %attr_result_sizes, "steps" = %attr_steps, "dilations" = %attr_dilations, "pads" = %attr_pads, "image_strides" = %attr_image_strides, "result_strides" = %attr_result_strides, "channels_last" = %attr_channels_last, "tf32" = %attr_tf32, "activation" = %attr_activation, "operandSegmentSizes" = %attr_operandSegmentSizes}
  }
  irdl.operation @library_product {
    %lhs = irdl.base "!builtin.memref"
    %rhs = irdl.base "!builtin.memref"
    %result = irdl.base "!builtin.memref"
    %sizes = irdl.is index
    %leading = irdl.is index
    %steps = irdl.is index
    %bias = irdl.base "!builtin.memref"
    %attr_turned = irdl.base "#builtin.array"
    %attr_tf32 = irdl.any
    %attr_activation = irdl.base "#builtin.string"
    %attr_operandSegmentSizes = irdl.any
    irdl.operands(lhs: %lhs, rhs: %rhs, result: %result, sizes: variadic %sizes, leading: variadic %leading, steps: variadic %steps, bias: variadic %bias)
    irdl.attributes {"turned" = %attr_turned, "tf32" = %attr_tf32, "activation" = %attr_activation, "operandSegmentSizes" = %attr_operandSegmentSizes}
  }
  irdl.operation @ramp {
    %base = irdl.base "!builtin.integer"
    %stride = irdl.base "!builtin.integer"
    %result = irdl.base "!builtin.vector"
    irdl.operands(base: %base, stride: %stride)
    irdl.results(result: %result)
  }
  irdl.operation @undefined {
    %result = irdl.any
    %attr_name = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"name" = %attr_name}
  }
  irdl.operation @vector_load {
    %buffer = irdl.base "!builtin.memref"
    %indices = irdl.is index
    %places = irdl.base "!builtin.vector"
    %mask = irdl.base "!builtin.vector"
    %result = irdl.base "!builtin.vector"
    %attr_operandSegmentSizes = irdl.any
    irdl.operands(buffer: %buffer, indices: variadic %indices, places: %places, mask: variadic %mask)
    irdl.results(result: %result)
    irdl.attributes {"operandSegmentSizes" = %attr_operandSegmentSizes}
  }
  irdl.operation @vector_store {
    %value = irdl.base "!builtin.vector"
    %buffer = irdl.base "!builtin.memref"
    %indices = irdl.is index
    %places = irdl.base "!builtin.vector"
    %mask = irdl.base "!builtin.vector"
    %attr_operandSegmentSizes = irdl.any
    irdl.operands(value: %value, buffer: %buffer, indices: variadic %indices, places: %places, mask: variadic %mask)
    irdl.attributes {"operandSegmentSizes" = %attr_operandSegmentSizes}
  }
}
