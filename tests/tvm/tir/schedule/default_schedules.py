"""The output of the tutorial on customised pipelines for scheduled PrimFuncs."""

# ruff: noqa: N803  scripts name variables as TVM prints them

from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it

__all__ = ["matmul", "transpose"]


@T.prim_func
def matmul(
    lv: T.Buffer((T.int64(1), T.int64(256)), "float32"),
    permute_dims1: T.Buffer((T.int64(256), T.int64(10)), "float32"),
    matmul: T.Buffer((T.int64(1), T.int64(10)), "float32"),
):
    T.func_attr({"tir.is_scheduled": 1, "tir.noalias": T.bool(True)})
    matmul_rf_local = T.alloc_buffer(
        (T.int64(16), T.int64(1), T.int64(10)), scope="local"
    )
    for ax0_fused_0 in T.thread_binding(T.int64(1), thread="blockIdx.x"):
        for ax0_fused_1 in T.thread_binding(T.int64(10), thread="threadIdx.x"):
            for ax1_fused_1 in T.thread_binding(T.int64(16), thread="threadIdx.y"):
                with T.block("matmul_rf_init"):
                    vax1_fused_1 = T.axis.spatial(T.int64(16), ax1_fused_1)
                    v0 = T.axis.spatial(
                        T.int64(10), ax0_fused_0 * T.int64(10) + ax0_fused_1
                    )
                    T.reads()
                    T.writes(matmul_rf_local[vax1_fused_1, T.int64(0), v0])
                    matmul_rf_local[vax1_fused_1, T.int64(0), v0] = T.float32(0.0)
                for ax1_fused_0, _ in T.grid(T.int64(16), 1):
                    with T.block("matmul_rf_update"):
                        vax1_fused_1 = T.axis.spatial(T.int64(16), ax1_fused_1)
                        v0 = T.axis.spatial(
                            T.int64(10), ax0_fused_0 * T.int64(10) + ax0_fused_1
                        )
                        vax1_fused_0 = T.axis.reduce(T.int64(16), ax1_fused_0)
                        T.reads(
                            matmul_rf_local[vax1_fused_1, T.int64(0), v0],
                            lv[T.int64(0), vax1_fused_0 * T.int64(16) + vax1_fused_1],
                            permute_dims1[
                                vax1_fused_0 * T.int64(16) + vax1_fused_1, v0
                            ],
                        )
                        T.writes(matmul_rf_local[vax1_fused_1, T.int64(0), v0])
                        matmul_rf_local[vax1_fused_1, T.int64(0), v0] = (
                            matmul_rf_local[vax1_fused_1, T.int64(0), v0]
                            + lv[T.int64(0), vax1_fused_0 * T.int64(16) + vax1_fused_1]
                            * permute_dims1[
                                vax1_fused_0 * T.int64(16) + vax1_fused_1, v0
                            ]
                        )
        for ax1_fused in T.thread_binding(T.int64(10), thread="threadIdx.x"):
            for ax0 in T.thread_binding(T.int64(16), thread="threadIdx.y"):
                with T.block("matmul"):
                    vax1_fused_1, v0 = T.axis.remap("RS", [ax0, ax1_fused])
                    T.reads(matmul_rf_local[vax1_fused_1, T.int64(0), v0])
                    T.writes(matmul[T.int64(0), v0])
                    with T.init():
                        matmul[T.int64(0), v0] = T.float32(0.0)
                    matmul[T.int64(0), v0] = (
                        matmul[T.int64(0), v0]
                        + matmul_rf_local[vax1_fused_1, T.int64(0), v0]
                    )


@T.prim_func
def transpose(
    fc2_weight: T.Buffer((T.int64(10), T.int64(256)), "float32"),
    T_transpose: T.Buffer((T.int64(256), T.int64(10)), "float32"),
):
    T.func_attr({"tir.is_scheduled": 1, "tir.noalias": T.bool(True)})
    for ax0_ax1_fused_0 in T.thread_binding(T.int64(3), thread="blockIdx.x"):
        for ax0_ax1_fused_1 in T.thread_binding(T.int64(1024), thread="threadIdx.x"):
            with T.block("T_transpose"):
                v0 = T.axis.spatial(
                    T.int64(256),
                    (ax0_ax1_fused_0 * T.int64(1024) + ax0_ax1_fused_1) // T.int64(10),
                )
                v1 = T.axis.spatial(
                    T.int64(10),
                    (ax0_ax1_fused_0 * T.int64(1024) + ax0_ax1_fused_1) % T.int64(10),
                )
                T.where(
                    ax0_ax1_fused_0 * T.int64(1024) + ax0_ax1_fused_1 < T.int64(2560)
                )
                T.reads(fc2_weight[v1, v0])
                T.writes(T_transpose[v0, v1])
                T_transpose[v0, v1] = fc2_weight[v1, v0]
