// RUN: relax-opt %s -p relax-adjust-matmul-order | filecheck %s

// 35 * n multiplications for the product of the weights against 7 * n for the row: less for all n
// but 0, and sizes are at least 1.
// CHECK-LABEL: func.func @any_rank
// CHECK:         "relax.matmul"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<1x?xf32
// CHECK:         "relax.matmul"(%{{.*}}, %{{.*}}) {{.*}} -> tensor<1x5xf32>
func.func @any_rank(%x: tensor<1x7xf32> {relax.name = "x"}, %a: tensor<7x?xf32, #relax.shape<["7", "n"]>> {relax.name = "a"}, %b: tensor<?x5xf32, #relax.shape<["n", "5"]>> {relax.name = "b"}) -> tensor<1x5xf32> {
  %0 = "relax.matmul"(%a, %b) {out_dtype, relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<7x?xf32, #relax.shape<["7", "n"]>>, tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<7x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<1x7xf32>, tensor<7x5xf32>) -> tensor<1x5xf32>
  return %1 : tensor<1x5xf32>
}

// m rows: 50 * n + 25 * m against 10 * m * n: the better order depends on m and n.
// CHECK-LABEL: func.func @unknown
// CHECK:         "relax.matmul"({{.*}}) {{.*}} -> tensor<5x5xf32>
func.func @unknown(%x: tensor<?x5xf32, #relax.shape<["m", "5"]>> {relax.name = "x"}, %a: tensor<5x?xf32, #relax.shape<["5", "n"]>> {relax.name = "a"}, %b: tensor<?x5xf32, #relax.shape<["n", "5"]>> {relax.name = "b"}) -> tensor<?x5xf32, #relax.shape<["m", "5"]>> {
  %0 = "relax.matmul"(%a, %b) {out_dtype, relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<5x?xf32, #relax.shape<["5", "n"]>>, tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<5x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<?x5xf32, #relax.shape<["m", "5"]>>, tensor<5x5xf32>) -> tensor<?x5xf32, #relax.shape<["m", "5"]>>
  return %1 : tensor<?x5xf32, #relax.shape<["m", "5"]>>
}

// With n below 3 it does not: 10 * m * n is at most 20 * m.
// CHECK-LABEL: func.func @bounded
// CHECK-NOT:     tensor<5x5xf32>
// CHECK:         return
func.func @bounded(%x: tensor<?x5xf32, #relax.shape<["m", "5"]>> {relax.name = "x"}, %a: tensor<5x?xf32, #relax.shape<["5", "n"]>> {relax.name = "a"}, %b: tensor<?x5xf32, #relax.shape<["n", "5"]>> {relax.name = "b"}) -> tensor<?x5xf32, #relax.shape<["m", "5"]>> attributes {relax.attrs = {tir_var_upper_bound = {n = 3 : i64}}} {
  %0 = "relax.matmul"(%a, %b) {out_dtype, relax.dataflow = -1 : i64, relax.name = "w"} : (tensor<5x?xf32, #relax.shape<["5", "n"]>>, tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<5x5xf32>
  %1 = "relax.matmul"(%x, %0) {out_dtype, relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<?x5xf32, #relax.shape<["m", "5"]>>, tensor<5x5xf32>) -> tensor<?x5xf32, #relax.shape<["m", "5"]>>
  return %1 : tensor<?x5xf32, #relax.shape<["m", "5"]>>
}
