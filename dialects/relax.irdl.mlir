// The relax dialect in IRDL. Written by `make irdl`.
irdl.dialect @relax {
  irdl.attribute @shape {
    %value = irdl.any
    irdl.parameters(value: %value)
  }
  irdl.attribute @const {
    %value = irdl.any
    irdl.parameters(value: %value)
  }
  irdl.operation @abs {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @acos {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @acosh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @add {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @arange {
    %y = irdl.base "!builtin.tensor"
    %attr_start = irdl.any
    %attr_size = irdl.any
    %attr_step = irdl.base "#builtin.integer"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.results(y: %y)
    irdl.attributes {"start" = %attr_start, "size" = %attr_size, "step" = %attr_step, "dtype" = %attr_dtype}
  }
  irdl.operation @argmax {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_keepdims = irdl.any
    %attr_select_last_index = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims, "select_last_index" = %attr_select_last_index}
  }
  irdl.operation @argmin {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_keepdims = irdl.any
    %attr_select_last_index = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims, "select_last_index" = %attr_select_last_index}
  }
  irdl.operation @asin {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @asinh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @atan {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @atanh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @average_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_kernel = irdl.any
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"kernel" = %attr_kernel, "strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad}
  }
  irdl.operation @batch_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %mean = irdl.base "!builtin.tensor"
    %var = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale, bias: %bias, mean: %mean, var: %var)
    irdl.results(y: %y)
    irdl.attributes {"epsilon" = %attr_epsilon}
  }
  irdl.operation @bit_shift {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    %attr_direction = irdl.base "#builtin.string"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
    irdl.attributes {"direction" = %attr_direction}
  }
  irdl.operation @bitcast {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @bitwise_and {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @bitwise_not {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @bitwise_or {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @bitwise_xor {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @broadcast_to {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape}
  }
  irdl.operation @call_dps_packed {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.string"
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @call_tir {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.symbol_ref"
    %attr_sizes = irdl.any
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee, "sizes" = %attr_sizes}
  }
  irdl.operation @cast {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @ceil {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @celu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @clip {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_low = irdl.base "#builtin.float"
    %attr_high = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"low" = %attr_low, "high" = %attr_high}
  }
  irdl.operation @concat {
    %xs = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(xs: %xs)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @constant {
    %y = irdl.base "!builtin.tensor"
    %attr_value = irdl.any
    irdl.results(y: %y)
    irdl.attributes {"value" = %attr_value}
  }
  irdl.operation @conv {
    %x = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    irdl.operands(x: %x, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "groups" = %attr_groups}
  }
  irdl.operation @conv_transpose {
    %x = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_output_padding = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    irdl.operands(x: %x, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "output_padding" = %attr_output_padding, "groups" = %attr_groups}
  }
  irdl.operation @cos {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @cosh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @cum_prod {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_exclusive = irdl.any
    %attr_reverse = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "exclusive" = %attr_exclusive, "reverse" = %attr_reverse}
  }
  irdl.operation @cum_sum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_exclusive = irdl.any
    %attr_reverse = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "exclusive" = %attr_exclusive, "reverse" = %attr_reverse}
  }
  irdl.operation @divide {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @elu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @equal {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @erf {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @exp {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @floor {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @gather_elements {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @gather_nd {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_batch_dims = irdl.base "#builtin.integer"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"batch_dims" = %attr_batch_dims}
  }
  irdl.operation @gelu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_approximate = irdl.base "#builtin.string"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"approximate" = %attr_approximate}
  }
  irdl.operation @global_average_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @global_lp_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"p" = %attr_p}
  }
  irdl.operation @global_max_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @greater {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @greater_equal {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @group_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_num_groups = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale, bias: %bias)
    irdl.results(y: %y)
    irdl.attributes {"num_groups" = %attr_num_groups, "epsilon" = %attr_epsilon}
  }
  irdl.operation @hard_sigmoid {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    %attr_beta = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha, "beta" = %attr_beta}
  }
  irdl.operation @hard_swish {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @hardmax {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @instance_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale, bias: %bias)
    irdl.results(y: %y)
    irdl.attributes {"epsilon" = %attr_epsilon}
  }
  irdl.operation @is_inf {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_detect_negative = irdl.any
    %attr_detect_positive = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"detect_negative" = %attr_detect_negative, "detect_positive" = %attr_detect_positive}
  }
  irdl.operation @is_nan {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @layer_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale, bias: %bias)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "epsilon" = %attr_epsilon}
  }
  irdl.operation @leaky_relu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @less {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @less_equal {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @local_response_norm {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_size = irdl.base "#builtin.integer"
    %attr_alpha = irdl.base "#builtin.float"
    %attr_beta = irdl.base "#builtin.float"
    %attr_bias = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"size" = %attr_size, "alpha" = %attr_alpha, "beta" = %attr_beta, "bias" = %attr_bias}
  }
  irdl.operation @log {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @log_softmax {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @logical_and {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @logical_not {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @logical_or {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @logical_xor {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @lp_normalize {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "p" = %attr_p}
  }
  irdl.operation @lp_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_kernel = irdl.any
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"kernel" = %attr_kernel, "strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "ceil_mode" = %attr_ceil_mode, "p" = %attr_p}
  }
  irdl.operation @matmul {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @max_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_kernel = irdl.any
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_ceil_mode = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"kernel" = %attr_kernel, "strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "ceil_mode" = %attr_ceil_mode}
  }
  irdl.operation @max_pool_with_indices {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %attr_kernel = irdl.any
    %attr_strides = irdl.any
    %attr_pads = irdl.any
    %attr_dilations = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_column_major = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y, indices: %indices)
    irdl.attributes {"kernel" = %attr_kernel, "strides" = %attr_strides, "pads" = %attr_pads, "dilations" = %attr_dilations, "ceil_mode" = %attr_ceil_mode, "column_major" = %attr_column_major}
  }
  irdl.operation @maximum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @mean_variance_norm {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes}
  }
  irdl.operation @minimum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @mish {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @mod {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    %attr_fmod = irdl.any
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
    irdl.attributes {"fmod" = %attr_fmod}
  }
  irdl.operation @multiply {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @negative {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @not_equal {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @one_hot {
    %indices = irdl.base "!builtin.tensor"
    %values = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_depth = irdl.any
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(indices: %indices, values: %values)
    irdl.results(y: %y)
    irdl.attributes {"depth" = %attr_depth, "axis" = %attr_axis}
  }
  irdl.operation @pad {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pads = irdl.any
    %attr_mode = irdl.base "#builtin.string"
    %attr_value = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"pads" = %attr_pads, "mode" = %attr_mode, "value" = %attr_value}
  }
  irdl.operation @power {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @prelu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @reciprocal {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @reduce_l1 {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_l2 {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_log_sum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_log_sum_exp {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_max {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_mean {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_min {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_prod {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_sum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_sum_square {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "keepdims" = %attr_keepdims}
  }
  irdl.operation @relu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @resample {
    %x = irdl.base "!builtin.tensor"
    %places = irdl.base "!builtin.tensor"
    %weights = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x, places: %places, weights: %weights)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @reshape {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape}
  }
  irdl.operation @resize_table {
    %x = irdl.base "!builtin.tensor"
    %places = irdl.base "!builtin.tensor"
    %weights = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_size = irdl.any
    %attr_scale = irdl.base "#builtin.float"
    %attr_mode = irdl.base "#builtin.string"
    %attr_coordinates = irdl.base "#builtin.string"
    %attr_rounding = irdl.base "#builtin.string"
    %attr_cubic_a = irdl.base "#builtin.float"
    %attr_exclude_outside = irdl.any
    %attr_antialias = irdl.any
    %attr_roi = irdl.any
    irdl.operands(x: %x)
    irdl.results(places: %places, weights: %weights)
    irdl.attributes {"axis" = %attr_axis, "size" = %attr_size, "scale" = %attr_scale, "mode" = %attr_mode, "coordinates" = %attr_coordinates, "rounding" = %attr_rounding, "cubic_a" = %attr_cubic_a, "exclude_outside" = %attr_exclude_outside, "antialias" = %attr_antialias, "roi" = %attr_roi}
  }
  irdl.operation @rms_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "epsilon" = %attr_epsilon}
  }
  irdl.operation @round {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @rsqrt {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @scatter_elements {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %updates = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_reduction = irdl.base "#builtin.string"
    irdl.operands(x: %x, indices: %indices, updates: %updates)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "reduction" = %attr_reduction}
  }
  irdl.operation @scatter_nd {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %updates = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_reduction = irdl.base "#builtin.string"
    irdl.operands(x: %x, indices: %indices, updates: %updates)
    irdl.results(y: %y)
    irdl.attributes {"reduction" = %attr_reduction}
  }
  irdl.operation @selu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    %attr_gamma = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha, "gamma" = %attr_gamma}
  }
  irdl.operation @shape_to_tensor {
    %y = irdl.base "!builtin.tensor"
    %attr_dims = irdl.any
    irdl.results(y: %y)
    irdl.attributes {"dims" = %attr_dims}
  }
  irdl.operation @shrink {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_bias = irdl.base "#builtin.float"
    %attr_lambd = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"bias" = %attr_bias, "lambd" = %attr_lambd}
  }
  irdl.operation @sigmoid {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @sign {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @silu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @sin {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @sinh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @softmax {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @softplus {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @softsign {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @sqrt {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @strided_slice {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_begins = irdl.any
    %attr_ends = irdl.any
    %attr_strides = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"begins" = %attr_begins, "ends" = %attr_ends, "strides" = %attr_strides}
  }
  irdl.operation @subtract {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, y: %y)
    irdl.results(z: %z)
  }
  irdl.operation @take {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @tan {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @tanh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @thresholded_relu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @tile {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_repeats = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"repeats" = %attr_repeats}
  }
  irdl.operation @transpose {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_permutation = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"permutation" = %attr_permutation}
  }
  irdl.operation @trilu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_upper = irdl.any
    %attr_k = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"upper" = %attr_upper, "k" = %attr_k}
  }
  irdl.operation @tuple_get_item {
    %tuple_value = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_index = irdl.base "#builtin.integer"
    irdl.operands(tuple_value: %tuple_value)
    irdl.results(result: %result)
    irdl.attributes {"index" = %attr_index}
  }
  irdl.operation @where {
    %condition = irdl.base "!builtin.tensor"
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(condition: %condition, x: %x, y: %y)
    irdl.results(z: %z)
  }
}
