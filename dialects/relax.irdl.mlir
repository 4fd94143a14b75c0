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
  irdl.type @object {
  }
  irdl.type @sizes {
    %value = irdl.any
    irdl.parameters(value: %value)
  }
  irdl.type @prim {
    %value = irdl.any
    irdl.parameters(value: %value)
  }
  irdl.type @callable {
    %value = irdl.any
    irdl.parameters(value: %value)
  }
  irdl.type @unknown {
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
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @arange {
    %y = irdl.base "!builtin.tensor"
    %attr_start = irdl.any
    %attr_end = irdl.any
    %attr_step = irdl.any
    %attr_dtype = irdl.any
    irdl.results(y: %y)
    irdl.attributes {"start" = %attr_start, "end" = %attr_end, "step" = %attr_step, "dtype" = %attr_dtype}
  }
  irdl.operation @argmax {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @argmax_last {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @argmin {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @argmin_last {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @argsort {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_descending = irdl.any
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "descending" = %attr_descending, "dtype" = %attr_dtype}
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
  irdl.operation @astype {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @atan {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @atan2 {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @atanh {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @bind {
    %value = irdl.any
    %result = irdl.any
    irdl.operands(value: %value)
    irdl.results(result: %result)
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
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @bitwise_not {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @bitwise_or {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @bitwise_xor {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
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
  irdl.operation @bucketize {
    %input_tensor = irdl.base "!builtin.tensor"
    %boundaries = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_out_int32 = irdl.any
    %attr_right = irdl.any
    irdl.operands(input_tensor: %input_tensor, boundaries: %boundaries)
    irdl.results(y: %y)
    irdl.attributes {"out_int32" = %attr_out_int32, "right" = %attr_right}
  }
  irdl.operation @cache_update {
    %past = irdl.base "!builtin.tensor"
    %update = irdl.base "!builtin.tensor"
    %places = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_circular = irdl.any
    irdl.operands(past: %past, update: %update, places: %places)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "circular" = %attr_circular}
  }
  irdl.operation @call {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.symbol_ref"
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @call_dps_packed {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.string"
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @call_extern {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.string"
    %attr_attrs = irdl.base "#builtin.dictionary"
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee, "attrs" = %attr_attrs}
  }
  irdl.operation @call_operator {
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_operator = irdl.base "#builtin.string"
    %attr_attrs = irdl.base "#builtin.dictionary"
    %attr_types = irdl.any
    irdl.operands(args: %args)
    irdl.results(result: %result)
    irdl.attributes {"operator" = %attr_operator, "attrs" = %attr_attrs, "types" = %attr_types}
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
  irdl.operation @call_value {
    %function = irdl.any
    %args = irdl.base "!builtin.tuple"
    %result = irdl.any
    irdl.operands(function: %function, args: %args)
    irdl.results(result: %result)
  }
  irdl.operation @cast_scale {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_round_mode = irdl.base "#builtin.string"
    %attr_saturate = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"round_mode" = %attr_round_mode, "saturate" = %attr_saturate}
  }
  irdl.operation @causal_mask {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_k = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"k" = %attr_k}
  }
  irdl.operation @ccl_allgather {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_num_workers = irdl.base "#builtin.integer"
    %attr_in_group = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"num_workers" = %attr_num_workers, "in_group" = %attr_in_group}
  }
  irdl.operation @ccl_allreduce {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_op_type = irdl.base "#builtin.string"
    %attr_in_group = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"op_type" = %attr_op_type, "in_group" = %attr_in_group}
  }
  irdl.operation @ccl_broadcast_from_worker0 {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @ccl_scatter_from_worker0 {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_num_workers = irdl.base "#builtin.integer"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"num_workers" = %attr_num_workers, "axis" = %attr_axis}
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
  irdl.operation @check_indices {
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_limits = irdl.any
    %attr_least = irdl.any
    %attr_ignored = irdl.any
    %attr_where = irdl.base "#builtin.string"
    %attr_operand = irdl.base "#builtin.string"
    irdl.operands(indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"limits" = %attr_limits, "least" = %attr_least, "ignored" = %attr_ignored, "where" = %attr_where, "operand" = %attr_operand}
  }
  irdl.operation @clip {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_min = irdl.base "#builtin.float"
    %attr_max = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"min" = %attr_min, "max" = %attr_max}
  }
  irdl.operation @col2im {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_image_shape = irdl.any
    %attr_block_shape = irdl.any
    %attr_strides = irdl.any
    %attr_dilations = irdl.any
    %attr_padding = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"image_shape" = %attr_image_shape, "block_shape" = %attr_block_shape, "strides" = %attr_strides, "dilations" = %attr_dilations, "padding" = %attr_padding}
  }
  irdl.operation @collapse_sum_like {
    %data = irdl.base "!builtin.tensor"
    %collapse_target = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data, collapse_target: %collapse_target)
    irdl.results(y: %y)
  }
  irdl.operation @collapse_sum_to {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape}
  }
  irdl.operation @concat {
    %tensors = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    irdl.operands(tensors: %tensors)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @constant {
    %y = irdl.base "!builtin.tensor"
    %attr_value = irdl.any
    irdl.results(y: %y)
    irdl.attributes {"value" = %attr_value}
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
  irdl.operation @count_ngrams {
    %x = irdl.base "!builtin.tensor"
    %pool = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_steps = irdl.base "#builtin.integer"
    irdl.operands(x: %x, pool: %pool)
    irdl.results(y: %y)
    irdl.attributes {"steps" = %attr_steps}
  }
  irdl.operation @cumprod {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_dtype = irdl.any
    %attr_exclusive = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "dtype" = %attr_dtype, "exclusive" = %attr_exclusive}
  }
  irdl.operation @cumsum {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_dtype = irdl.any
    %attr_exclusive = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "dtype" = %attr_dtype, "exclusive" = %attr_exclusive}
  }
  irdl.operation @data_type {
    %result = irdl.any
    %attr_value = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"value" = %attr_value}
  }
  irdl.operation @deform_columns {
    %x = irdl.base "!builtin.tensor"
    %offset = irdl.base "!builtin.tensor"
    %mask = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_kernel = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilations = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    irdl.operands(x: %x, offset: %offset, mask: %mask)
    irdl.results(y: %y)
    irdl.attributes {"kernel" = %attr_kernel, "strides" = %attr_strides, "padding" = %attr_padding, "dilations" = %attr_dilations, "groups" = %attr_groups}
  }
  irdl.operation @dequantize {
    %data = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %zero_point = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_out_dtype = irdl.base "#builtin.type"
    irdl.operands(data: %data, scale: %scale, zero_point: %zero_point)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @dequantize_linear {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %zero_point = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_block_size = irdl.base "#builtin.integer"
    %attr_out_dtype = irdl.base "#builtin.type"
    irdl.operands(x: %x, scale: %scale, zero_point: %zero_point)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "block_size" = %attr_block_size, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @det {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @divide {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @dynamic_strided_slice {
    %x = irdl.base "!builtin.tensor"
    %begin = irdl.base "!builtin.tensor"
    %end = irdl.base "!builtin.tensor"
    %strides = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, begin: %begin, end: %end, strides: %strides)
    irdl.results(y: %y)
  }
  irdl.operation @einsum {
    %operand_tuple = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tensor"
    %attr_subscripts = irdl.base "#builtin.string"
    irdl.operands(operand_tuple: %operand_tuple)
    irdl.results(y: %y)
    irdl.attributes {"subscripts" = %attr_subscripts}
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
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @erf {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @ewise_fma {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %x3 = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2, x3: %x3)
    irdl.results(y: %y)
  }
  irdl.operation @exp {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @expand_dims {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @extern_func {
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @eye {
    %y = irdl.base "!builtin.tensor"
    %attr_n = irdl.any
    %attr_m = irdl.any
    %attr_k = irdl.base "#builtin.integer"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.results(y: %y)
    irdl.attributes {"n" = %attr_n, "m" = %attr_m, "k" = %attr_k, "dtype" = %attr_dtype}
  }
  irdl.operation @eye_like {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_k = irdl.base "#builtin.integer"
    %attr_dtype = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"k" = %attr_k, "dtype" = %attr_dtype}
  }
  irdl.operation @find {
    %x = irdl.base "!builtin.tensor"
    %sorted = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, sorted: %sorted)
    irdl.results(y: %y)
  }
  irdl.operation @flatten {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @flip {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @floor {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @floor_divide {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @floor_mod {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @free_var {
    %result = irdl.any
    %attr_called = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"called" = %attr_called}
  }
  irdl.operation @full {
    %fill_value = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    %attr_dtype = irdl.any
    irdl.operands(fill_value: %fill_value)
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape, "dtype" = %attr_dtype}
  }
  irdl.operation @full_like {
    %x = irdl.base "!builtin.tensor"
    %fill_value = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.any
    irdl.operands(x: %x, fill_value: %fill_value)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @function {
    %result = irdl.any
    %attr_attrs = irdl.base "#builtin.dictionary"
    %body = irdl.region
    irdl.results(result: %result)
    irdl.attributes {"attrs" = %attr_attrs}
    irdl.regions(body: %body)
  }
  irdl.operation @gather_elements {
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @gather_nd {
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_batch_dims = irdl.base "#builtin.integer"
    irdl.operands(data: %data, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"batch_dims" = %attr_batch_dims}
  }
  irdl.operation @global_lp_pool {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"p" = %attr_p}
  }
  irdl.operation @global_var {
    %result = irdl.any
    %attr_callee = irdl.base "#builtin.symbol_ref"
    irdl.results(result: %result)
    irdl.attributes {"callee" = %attr_callee}
  }
  irdl.operation @greater {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @greater_equal {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @hamming_window {
    %y = irdl.base "!builtin.tensor"
    %attr_window_size = irdl.any
    %attr_periodic = irdl.any
    %attr_alpha = irdl.base "#builtin.float"
    %attr_beta = irdl.base "#builtin.float"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.results(y: %y)
    irdl.attributes {"window_size" = %attr_window_size, "periodic" = %attr_periodic, "alpha" = %attr_alpha, "beta" = %attr_beta, "dtype" = %attr_dtype}
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
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @if {
    %condition = irdl.any
    %result = irdl.any
    %then_branch = irdl.region
    %else_branch = irdl.region
    irdl.operands(condition: %condition)
    irdl.results(result: %result)
    irdl.regions(then_branch: %then_branch, else_branch: %else_branch)
  }
  irdl.operation @image_affine_grid {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_size = irdl.any
    %attr_align_corners = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"size" = %attr_size, "align_corners" = %attr_align_corners}
  }
  irdl.operation @image_grid_sample {
    %data = irdl.base "!builtin.tensor"
    %grid = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_method = irdl.base "#builtin.string"
    %attr_layout = irdl.base "#builtin.string"
    %attr_padding_mode = irdl.base "#builtin.string"
    %attr_align_corners = irdl.any
    irdl.operands(data: %data, grid: %grid)
    irdl.results(y: %y)
    irdl.attributes {"method" = %attr_method, "layout" = %attr_layout, "padding_mode" = %attr_padding_mode, "align_corners" = %attr_align_corners}
  }
  irdl.operation @image_resize2d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_size = irdl.any
    %attr_roi = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_method = irdl.base "#builtin.string"
    %attr_coordinate_transformation_mode = irdl.base "#builtin.string"
    %attr_rounding_method = irdl.base "#builtin.string"
    %attr_cubic_alpha = irdl.base "#builtin.float"
    %attr_cubic_exclude = irdl.base "#builtin.integer"
    %attr_extrapolation_value = irdl.base "#builtin.float"
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"size" = %attr_size, "roi" = %attr_roi, "layout" = %attr_layout, "method" = %attr_method, "coordinate_transformation_mode" = %attr_coordinate_transformation_mode, "rounding_method" = %attr_rounding_method, "cubic_alpha" = %attr_cubic_alpha, "cubic_exclude" = %attr_cubic_exclude, "extrapolation_value" = %attr_extrapolation_value, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @image_resize3d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_size = irdl.any
    %attr_roi = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_method = irdl.base "#builtin.string"
    %attr_coordinate_transformation_mode = irdl.base "#builtin.string"
    %attr_rounding_method = irdl.base "#builtin.string"
    %attr_cubic_alpha = irdl.base "#builtin.float"
    %attr_cubic_exclude = irdl.base "#builtin.integer"
    %attr_extrapolation_value = irdl.base "#builtin.float"
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"size" = %attr_size, "roi" = %attr_roi, "layout" = %attr_layout, "method" = %attr_method, "coordinate_transformation_mode" = %attr_coordinate_transformation_mode, "rounding_method" = %attr_rounding_method, "cubic_alpha" = %attr_cubic_alpha, "cubic_exclude" = %attr_cubic_exclude, "extrapolation_value" = %attr_extrapolation_value, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @index_put {
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tuple"
    %values = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_accumulate = irdl.any
    irdl.operands(data: %data, indices: %indices, values: %values)
    irdl.results(y: %y)
    irdl.attributes {"accumulate" = %attr_accumulate}
  }
  irdl.operation @index_tensor {
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data, indices: %indices)
    irdl.results(y: %y)
  }
  irdl.operation @isfinite {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @isinf {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @isnan {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @layout_transform {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_index_map = irdl.base "#builtin.affine_map"
    %attr_pad_value = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"index_map" = %attr_index_map, "pad_value" = %attr_pad_value}
  }
  irdl.operation @left_shift {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @less {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @less_equal {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
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
  irdl.operation @log_add_exp {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @logical_and {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @logical_not {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @logical_or {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @logical_xor {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @lp_normalize {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "p" = %attr_p}
  }
  irdl.operation @lp_pool {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_p = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "p" = %attr_p}
  }
  irdl.operation @match_cast {
    %value = irdl.any
    %result = irdl.any
    irdl.operands(value: %value)
    irdl.results(result: %result)
  }
  irdl.operation @matmul {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    %attr_out_dtype = irdl.any
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
    irdl.attributes {"out_dtype" = %attr_out_dtype}
  }
  irdl.operation @max {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @max_pool_with_indices {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_column_major = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y, indices: %indices)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "column_major" = %attr_column_major}
  }
  irdl.operation @maximum {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @mean {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @mean_variance_norm {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes}
  }
  irdl.operation @median {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @meshgrid {
    %tensors = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tuple"
    %attr_indexing = irdl.base "#builtin.string"
    irdl.operands(tensors: %tensors)
    irdl.results(y: %y)
    irdl.attributes {"indexing" = %attr_indexing}
  }
  irdl.operation @min {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @minimum {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @mish {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @mod {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @multinomial_from_uniform {
    %prob = irdl.base "!builtin.tensor"
    %uniform_sample = irdl.base "!builtin.tensor"
    %sample_indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(prob: %prob, uniform_sample: %uniform_sample, sample_indices: %sample_indices)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @multiply {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @negative {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @nn_adaptive_avg_pool1d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_output_size = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"output_size" = %attr_output_size, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_adaptive_avg_pool2d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_output_size = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"output_size" = %attr_output_size, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_adaptive_avg_pool3d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_output_size = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"output_size" = %attr_output_size, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_attention {
    %query = irdl.base "!builtin.tensor"
    %key = irdl.base "!builtin.tensor"
    %value = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_scale = irdl.any
    %attr_causal_mask = irdl.any
    %attr_window_size = irdl.any
    irdl.operands(query: %query, key: %key, value: %value)
    irdl.results(y: %y)
    irdl.attributes {"scale" = %attr_scale, "causal_mask" = %attr_causal_mask, "window_size" = %attr_window_size}
  }
  irdl.operation @nn_attention_bias {
    %query = irdl.base "!builtin.tensor"
    %key = irdl.base "!builtin.tensor"
    %value = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_scale = irdl.any
    %attr_causal_mask = irdl.any
    %attr_window_size = irdl.any
    irdl.operands(query: %query, key: %key, value: %value, bias: %bias)
    irdl.results(y: %y)
    irdl.attributes {"scale" = %attr_scale, "causal_mask" = %attr_causal_mask, "window_size" = %attr_window_size}
  }
  irdl.operation @nn_avg_pool1d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_avg_pool2d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_avg_pool3d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_batch_flatten {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_batch_norm {
    %data = irdl.base "!builtin.tensor"
    %gamma = irdl.base "!builtin.tensor"
    %beta = irdl.base "!builtin.tensor"
    %moving_mean = irdl.base "!builtin.tensor"
    %moving_var = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tuple"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_center = irdl.any
    %attr_scale = irdl.any
    %attr_momentum = irdl.base "#builtin.float"
    %attr_training = irdl.any
    irdl.operands(data: %data, gamma: %gamma, beta: %beta, moving_mean: %moving_mean, moving_var: %moving_var)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "epsilon" = %attr_epsilon, "center" = %attr_center, "scale" = %attr_scale, "momentum" = %attr_momentum, "training" = %attr_training}
  }
  irdl.operation @nn_conv1d {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_conv1d_transpose {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_output_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "output_padding" = %attr_output_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_conv2d {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_conv2d_transpose {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_output_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "output_padding" = %attr_output_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_conv3d {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_conv3d_transpose {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_output_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_groups = irdl.base "#builtin.integer"
    %attr_data_layout = irdl.base "#builtin.string"
    %attr_kernel_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"strides" = %attr_strides, "padding" = %attr_padding, "output_padding" = %attr_output_padding, "dilation" = %attr_dilation, "groups" = %attr_groups, "data_layout" = %attr_data_layout, "kernel_layout" = %attr_kernel_layout, "out_layout" = %attr_out_layout, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_cross_entropy_with_logits {
    %predictions = irdl.base "!builtin.tensor"
    %labels = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(predictions: %predictions, labels: %labels)
    irdl.results(y: %y)
  }
  irdl.operation @nn_dense {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    %attr_out_dtype = irdl.any
    irdl.operands(data: %data, weight: %weight)
    irdl.results(z: %z)
    irdl.attributes {"out_dtype" = %attr_out_dtype}
  }
  irdl.operation @nn_dropout {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tuple"
    %attr_rate = irdl.base "#builtin.float"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"rate" = %attr_rate}
  }
  irdl.operation @nn_gelu {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_gelu_tanh {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_group_norm {
    %data = irdl.base "!builtin.tensor"
    %gamma = irdl.base "!builtin.tensor"
    %beta = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_num_groups = irdl.base "#builtin.integer"
    %attr_channel_axis = irdl.base "#builtin.integer"
    %attr_axes = irdl.any
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_center = irdl.any
    %attr_scale = irdl.any
    irdl.operands(data: %data, gamma: %gamma, beta: %beta)
    irdl.results(y: %y)
    irdl.attributes {"num_groups" = %attr_num_groups, "channel_axis" = %attr_channel_axis, "axes" = %attr_axes, "epsilon" = %attr_epsilon, "center" = %attr_center, "scale" = %attr_scale}
  }
  irdl.operation @nn_gru {
    %x = irdl.base "!builtin.tensor"
    %r = irdl.base "!builtin.tensor"
    %h = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %lengths = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tuple"
    %attr_direction = irdl.base "#builtin.string"
    %attr_functions = irdl.base "#builtin.string"
    %attr_alphas = irdl.any
    %attr_betas = irdl.any
    %attr_clip = irdl.any
    %attr_linear_before_reset = irdl.any
    irdl.operands(x: %x, r: %r, h: %h, bias: %bias, lengths: %lengths)
    irdl.results(y: %y)
    irdl.attributes {"direction" = %attr_direction, "functions" = %attr_functions, "alphas" = %attr_alphas, "betas" = %attr_betas, "clip" = %attr_clip, "linear_before_reset" = %attr_linear_before_reset}
  }
  irdl.operation @nn_instance_norm {
    %data = irdl.base "!builtin.tensor"
    %gamma = irdl.base "!builtin.tensor"
    %beta = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_channel_axis = irdl.base "#builtin.integer"
    %attr_axes = irdl.any
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_center = irdl.any
    %attr_scale = irdl.any
    irdl.operands(data: %data, gamma: %gamma, beta: %beta)
    irdl.results(y: %y)
    irdl.attributes {"channel_axis" = %attr_channel_axis, "axes" = %attr_axes, "epsilon" = %attr_epsilon, "center" = %attr_center, "scale" = %attr_scale}
  }
  irdl.operation @nn_layer_norm {
    %data = irdl.base "!builtin.tensor"
    %gamma = irdl.base "!builtin.tensor"
    %beta = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_epsilon = irdl.base "#builtin.float"
    %attr_center = irdl.any
    %attr_scale = irdl.any
    irdl.operands(data: %data, gamma: %gamma, beta: %beta)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "epsilon" = %attr_epsilon, "center" = %attr_center, "scale" = %attr_scale}
  }
  irdl.operation @nn_leakyrelu {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_alpha = irdl.base "#builtin.float"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"alpha" = %attr_alpha}
  }
  irdl.operation @nn_log_softmax {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @nn_lstm {
    %x = irdl.base "!builtin.tensor"
    %r = irdl.base "!builtin.tensor"
    %h = irdl.base "!builtin.tensor"
    %c = irdl.base "!builtin.tensor"
    %peepholes = irdl.base "!builtin.tensor"
    %lengths = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tuple"
    %attr_direction = irdl.base "#builtin.string"
    %attr_functions = irdl.base "#builtin.string"
    %attr_alphas = irdl.any
    %attr_betas = irdl.any
    %attr_clip = irdl.any
    %attr_input_forget = irdl.any
    irdl.operands(x: %x, r: %r, h: %h, c: %c, peepholes: %peepholes, lengths: %lengths)
    irdl.results(y: %y)
    irdl.attributes {"direction" = %attr_direction, "functions" = %attr_functions, "alphas" = %attr_alphas, "betas" = %attr_betas, "clip" = %attr_clip, "input_forget" = %attr_input_forget}
  }
  irdl.operation @nn_max_pool1d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_max_pool2d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_max_pool3d {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pool_size = irdl.any
    %attr_strides = irdl.any
    %attr_padding = irdl.any
    %attr_dilation = irdl.any
    %attr_ceil_mode = irdl.any
    %attr_count_include_pad = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_out_layout = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pool_size" = %attr_pool_size, "strides" = %attr_strides, "padding" = %attr_padding, "dilation" = %attr_dilation, "ceil_mode" = %attr_ceil_mode, "count_include_pad" = %attr_count_include_pad, "layout" = %attr_layout, "out_layout" = %attr_out_layout}
  }
  irdl.operation @nn_nll_loss {
    %predictions = irdl.base "!builtin.tensor"
    %targets = irdl.base "!builtin.tensor"
    %weights = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_reduction = irdl.base "#builtin.string"
    %attr_ignore_index = irdl.base "#builtin.integer"
    irdl.operands(predictions: %predictions, targets: %targets, weights: variadic %weights)
    irdl.results(y: %y)
    irdl.attributes {"reduction" = %attr_reduction, "ignore_index" = %attr_ignore_index}
  }
  irdl.operation @nn_pad {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pad_width = irdl.any
    %attr_pad_mode = irdl.base "#builtin.string"
    %attr_pad_value = irdl.base "#builtin.float"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"pad_width" = %attr_pad_width, "pad_mode" = %attr_pad_mode, "pad_value" = %attr_pad_value}
  }
  irdl.operation @nn_pixel_shuffle {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_upscale_factor = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"upscale_factor" = %attr_upscale_factor}
  }
  irdl.operation @nn_prelu {
    %data = irdl.base "!builtin.tensor"
    %alpha = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data, alpha: %alpha)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @nn_relu {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_rms_norm {
    %data = irdl.base "!builtin.tensor"
    %weight = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_epsilon = irdl.base "#builtin.float"
    irdl.operands(data: %data, weight: %weight)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "epsilon" = %attr_epsilon}
  }
  irdl.operation @nn_rnn {
    %x = irdl.base "!builtin.tensor"
    %r = irdl.base "!builtin.tensor"
    %h = irdl.base "!builtin.tensor"
    %lengths = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tuple"
    %attr_direction = irdl.base "#builtin.string"
    %attr_functions = irdl.base "#builtin.string"
    %attr_alphas = irdl.any
    %attr_betas = irdl.any
    %attr_clip = irdl.any
    irdl.operands(x: %x, r: %r, h: %h, lengths: %lengths)
    irdl.results(y: %y)
    irdl.attributes {"direction" = %attr_direction, "functions" = %attr_functions, "alphas" = %attr_alphas, "betas" = %attr_betas, "clip" = %attr_clip}
  }
  irdl.operation @nn_selu {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_silu {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(data: %data)
    irdl.results(y: %y)
  }
  irdl.operation @nn_softmax {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @nn_softplus {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_beta = irdl.base "#builtin.float"
    %attr_threshold = irdl.base "#builtin.float"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"beta" = %attr_beta, "threshold" = %attr_threshold}
  }
  irdl.operation @nonzero {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @not_equal {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @one_hot {
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_on_value = irdl.any
    %attr_off_value = irdl.any
    %attr_depth = irdl.any
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"on_value" = %attr_on_value, "off_value" = %attr_off_value, "depth" = %attr_depth, "axis" = %attr_axis}
  }
  irdl.operation @ones {
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    %attr_dtype = irdl.base "#builtin.type"
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape, "dtype" = %attr_dtype}
  }
  irdl.operation @ones_like {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
  irdl.operation @outer {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(y: %y)
  }
  irdl.operation @pairwise_coupling {
    %r = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(r: %r)
    irdl.results(y: %y)
  }
  irdl.operation @permute_dims {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes}
  }
  irdl.operation @power {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @prim_value {
    %result = irdl.any
    %attr_value = irdl.any
    irdl.results(result: %result)
    irdl.attributes {"value" = %attr_value}
  }
  irdl.operation @prod {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @quantize {
    %data = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %zero_point = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_out_dtype = irdl.base "#builtin.type"
    irdl.operands(data: %data, scale: %scale, zero_point: %zero_point)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "out_dtype" = %attr_out_dtype}
  }
  irdl.operation @quantize_linear {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %zero_point = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_block_size = irdl.base "#builtin.integer"
    %attr_saturate = irdl.any
    %attr_precision = irdl.base "#builtin.type"
    irdl.operands(x: %x, scale: %scale, zero_point: %zero_point)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "block_size" = %attr_block_size, "saturate" = %attr_saturate, "precision" = %attr_precision}
  }
  irdl.operation @random_uniform {
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    %attr_seed = irdl.base "#builtin.integer"
    %attr_stream = irdl.base "#builtin.integer"
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape, "seed" = %attr_seed, "stream" = %attr_stream}
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
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_l2 {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_log_sum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_log_sum_exp {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @reduce_sum_square {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @repeat {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_repeats = irdl.base "#builtin.integer"
    %attr_axis = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"repeats" = %attr_repeats, "axis" = %attr_axis}
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
  irdl.operation @reverse_cumprod {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_dtype = irdl.any
    %attr_exclusive = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "dtype" = %attr_dtype, "exclusive" = %attr_exclusive}
  }
  irdl.operation @reverse_cumsum {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_dtype = irdl.any
    %attr_exclusive = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "dtype" = %attr_dtype, "exclusive" = %attr_exclusive}
  }
  irdl.operation @reverse_sequence {
    %data = irdl.base "!builtin.tensor"
    %seq_lengths = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_seq_axis = irdl.base "#builtin.integer"
    %attr_batch_axis = irdl.base "#builtin.integer"
    irdl.operands(data: %data, seq_lengths: %seq_lengths)
    irdl.results(y: %y)
    irdl.attributes {"seq_axis" = %attr_seq_axis, "batch_axis" = %attr_batch_axis}
  }
  irdl.operation @right_shift {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @roi_align {
    %data = irdl.base "!builtin.tensor"
    %rois = irdl.base "!builtin.tensor"
    %images = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_size = irdl.any
    %attr_scale = irdl.base "#builtin.float"
    %attr_points = irdl.base "#builtin.integer"
    %attr_is_shifted = irdl.any
    %attr_mode = irdl.base "#builtin.string"
    irdl.operands(data: %data, rois: %rois, images: %images)
    irdl.results(y: %y)
    irdl.attributes {"size" = %attr_size, "scale" = %attr_scale, "points" = %attr_points, "is_shifted" = %attr_is_shifted, "mode" = %attr_mode}
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
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %updates = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_reduction = irdl.base "#builtin.string"
    irdl.operands(data: %data, indices: %indices, updates: %updates)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "reduction" = %attr_reduction}
  }
  irdl.operation @scatter_nd {
    %data = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %updates = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_reduction = irdl.base "#builtin.string"
    irdl.operands(data: %data, indices: %indices, updates: %updates)
    irdl.results(y: %y)
    irdl.attributes {"reduction" = %attr_reduction}
  }
  irdl.operation @shape_expr {
    %result = irdl.any
    irdl.results(result: %result)
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
  irdl.operation @slice_scatter {
    %input_tensor = irdl.base "!builtin.tensor"
    %src = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_start = irdl.any
    %attr_end = irdl.any
    %attr_step = irdl.any
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(input_tensor: %input_tensor, src: %src)
    irdl.results(y: %y)
    irdl.attributes {"start" = %attr_start, "end" = %attr_end, "step" = %attr_step, "axis" = %attr_axis}
  }
  irdl.operation @softsign {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @sort {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_descending = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "descending" = %attr_descending}
  }
  irdl.operation @split {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_indices_or_sections = irdl.any
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"indices_or_sections" = %attr_indices_or_sections, "axis" = %attr_axis}
  }
  irdl.operation @sqrt {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @square {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @squeeze {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @stack {
    %tensors = irdl.base "!builtin.tuple"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.base "#builtin.integer"
    irdl.operands(tensors: %tensors)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis}
  }
  irdl.operation @std {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @strided_slice {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axes = irdl.any
    %attr_begin = irdl.any
    %attr_end = irdl.any
    %attr_strides = irdl.any
    %attr_assume_inbound = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axes" = %attr_axes, "begin" = %attr_begin, "end" = %attr_end, "strides" = %attr_strides, "assume_inbound" = %attr_assume_inbound}
  }
  irdl.operation @string {
    %result = irdl.any
    %attr_value = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"value" = %attr_value}
  }
  irdl.operation @subtract {
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @sum {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @take {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_mode = irdl.base "#builtin.string"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "mode" = %attr_mode}
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
    %data = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_repeats = irdl.any
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"repeats" = %attr_repeats}
  }
  irdl.operation @topk {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_k = irdl.base "#builtin.integer"
    %attr_axis = irdl.base "#builtin.integer"
    %attr_ret_type = irdl.base "#builtin.string"
    %attr_largest = irdl.any
    %attr_dtype = irdl.base "#builtin.type"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"k" = %attr_k, "axis" = %attr_axis, "ret_type" = %attr_ret_type, "largest" = %attr_largest, "dtype" = %attr_dtype}
  }
  irdl.operation @tree_leaves {
    %x = irdl.base "!builtin.tensor"
    %nodes = irdl.base "!builtin.tensor"
    %bounds = irdl.base "!builtin.tensor"
    %roots = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_depth = irdl.base "#builtin.integer"
    irdl.operands(x: %x, nodes: %nodes, bounds: %bounds, roots: %roots)
    irdl.results(y: %y)
    irdl.attributes {"depth" = %attr_depth}
  }
  irdl.operation @tril {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_k = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"k" = %attr_k}
  }
  irdl.operation @triu {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_k = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"k" = %attr_k}
  }
  irdl.operation @trunc {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(y: %y)
  }
  irdl.operation @tuple_get_item {
    %tuple_value = irdl.base "!builtin.tuple"
    %result = irdl.any
    %attr_index = irdl.base "#builtin.integer"
    irdl.operands(tuple_value: %tuple_value)
    irdl.results(result: %result)
    irdl.attributes {"index" = %attr_index}
  }
  irdl.operation @unique {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_sorted = irdl.any
    %attr_return_index = irdl.any
    %attr_return_inverse = irdl.any
    %attr_return_counts = irdl.any
    %attr_axis = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"sorted" = %attr_sorted, "return_index" = %attr_return_index, "return_inverse" = %attr_return_inverse, "return_counts" = %attr_return_counts, "axis" = %attr_axis}
  }
  irdl.operation @variance {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_axis = irdl.any
    %attr_keepdims = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"axis" = %attr_axis, "keepdims" = %attr_keepdims}
  }
  irdl.operation @vision_all_class_non_max_suppression {
    %boxes = irdl.base "!builtin.tensor"
    %scores = irdl.base "!builtin.tensor"
    %max_output_boxes_per_class = irdl.base "!builtin.tensor"
    %iou_threshold = irdl.base "!builtin.tensor"
    %score_threshold = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_output_format = irdl.base "#builtin.string"
    irdl.operands(boxes: %boxes, scores: %scores, max_output_boxes_per_class: %max_output_boxes_per_class, iou_threshold: %iou_threshold, score_threshold: %score_threshold)
    irdl.results(y: %y)
    irdl.attributes {"output_format" = %attr_output_format}
  }
  irdl.operation @vision_get_valid_counts {
    %data = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_score_threshold = irdl.base "#builtin.float"
    %attr_id_index = irdl.base "#builtin.integer"
    %attr_score_index = irdl.base "#builtin.integer"
    irdl.operands(data: %data)
    irdl.results(y: %y)
    irdl.attributes {"score_threshold" = %attr_score_threshold, "id_index" = %attr_id_index, "score_index" = %attr_score_index}
  }
  irdl.operation @vision_multibox_transform_loc {
    %cls_pred = irdl.base "!builtin.tensor"
    %loc_pred = irdl.base "!builtin.tensor"
    %anchor = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_clip = irdl.any
    %attr_threshold = irdl.base "#builtin.float"
    %attr_variances = irdl.any
    %attr_keep_background = irdl.any
    %attr_apply_softmax = irdl.any
    irdl.operands(cls_pred: %cls_pred, loc_pred: %loc_pred, anchor: %anchor)
    irdl.results(y: %y)
    irdl.attributes {"clip" = %attr_clip, "threshold" = %attr_threshold, "variances" = %attr_variances, "keep_background" = %attr_keep_background, "apply_softmax" = %attr_apply_softmax}
  }
  irdl.operation @vision_non_max_suppression {
    %data = irdl.base "!builtin.tensor"
    %valid_count = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %y = irdl.any
    %attr_max_output_size = irdl.base "#builtin.integer"
    %attr_iou_threshold = irdl.base "#builtin.float"
    %attr_force_suppress = irdl.any
    %attr_top_k = irdl.base "#builtin.integer"
    %attr_coord_start = irdl.base "#builtin.integer"
    %attr_score_index = irdl.base "#builtin.integer"
    %attr_id_index = irdl.base "#builtin.integer"
    %attr_return_indices = irdl.any
    %attr_invalid_to_bottom = irdl.any
    %attr_soft_nms_sigma = irdl.base "#builtin.float"
    %attr_score_threshold = irdl.base "#builtin.float"
    irdl.operands(data: %data, valid_count: %valid_count, indices: %indices)
    irdl.results(y: %y)
    irdl.attributes {"max_output_size" = %attr_max_output_size, "iou_threshold" = %attr_iou_threshold, "force_suppress" = %attr_force_suppress, "top_k" = %attr_top_k, "coord_start" = %attr_coord_start, "score_index" = %attr_score_index, "id_index" = %attr_id_index, "return_indices" = %attr_return_indices, "invalid_to_bottom" = %attr_invalid_to_bottom, "soft_nms_sigma" = %attr_soft_nms_sigma, "score_threshold" = %attr_score_threshold}
  }
  irdl.operation @vision_roi_align {
    %data = irdl.base "!builtin.tensor"
    %rois = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pooled_size = irdl.any
    %attr_spatial_scale = irdl.base "#builtin.float"
    %attr_sample_ratio = irdl.base "#builtin.integer"
    %attr_aligned = irdl.any
    %attr_layout = irdl.base "#builtin.string"
    %attr_mode = irdl.base "#builtin.string"
    irdl.operands(data: %data, rois: %rois)
    irdl.results(y: %y)
    irdl.attributes {"pooled_size" = %attr_pooled_size, "spatial_scale" = %attr_spatial_scale, "sample_ratio" = %attr_sample_ratio, "aligned" = %attr_aligned, "layout" = %attr_layout, "mode" = %attr_mode}
  }
  irdl.operation @vision_roi_pool {
    %data = irdl.base "!builtin.tensor"
    %rois = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_pooled_size = irdl.any
    %attr_spatial_scale = irdl.base "#builtin.float"
    %attr_layout = irdl.base "#builtin.string"
    irdl.operands(data: %data, rois: %rois)
    irdl.results(y: %y)
    irdl.attributes {"pooled_size" = %attr_pooled_size, "spatial_scale" = %attr_spatial_scale, "layout" = %attr_layout}
  }
  irdl.operation @where {
    %condition = irdl.base "!builtin.tensor"
    %x1 = irdl.base "!builtin.tensor"
    %x2 = irdl.base "!builtin.tensor"
    %z = irdl.base "!builtin.tensor"
    irdl.operands(condition: %condition, x1: %x1, x2: %x2)
    irdl.results(z: %z)
  }
  irdl.operation @zeros {
    %y = irdl.base "!builtin.tensor"
    %attr_shape = irdl.any
    %attr_dtype = irdl.base "#builtin.type"
    irdl.results(y: %y)
    irdl.attributes {"shape" = %attr_shape, "dtype" = %attr_dtype}
  }
  irdl.operation @zeros_like {
    %x = irdl.base "!builtin.tensor"
    %y = irdl.base "!builtin.tensor"
    %attr_dtype = irdl.any
    irdl.operands(x: %x)
    irdl.results(y: %y)
    irdl.attributes {"dtype" = %attr_dtype}
  }
}
