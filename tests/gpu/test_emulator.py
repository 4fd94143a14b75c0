"""Errors that the emulator detects, and semantics of synchronization."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.descriptors import Descriptor
from tests.ptx_emulator.launch import launch
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.text import parse

# Thread t has %r1 = t, and %r3 = x[t]; %rd4 and %rd5 point to x[t] and y[t], %r5 to s[t],
# and %r7 to s[last - t].
_KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
{globals}
.visible .entry k(
	.param .u64 .ptr .align 1 k_param_0,
	.param .u64 .ptr .align 1 k_param_1,
	.param .align 128 .b8 k_param_2[128]
)
.maxntid 256, 1, 1
{{
	.reg .pred 	%p<4>;
	.reg .b16 	%rs<4>;
	.reg .b32 	%r<20>;
	.reg .b64 	%rd<20>;
	// demoted variable
	.shared .align 16 .b8 s[1024];
	ld.param.b64 	%rd1, [k_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	ld.param.b64 	%rd3, [k_param_1];
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r8, %ntid.x;
	sub.s32 	%r9, %r8, 1;
	mul.wide.u32 	%rd6, %r1, 4;
	add.s64 	%rd4, %rd2, %rd6;
	add.s64 	%rd5, %rd3, %rd6;
	ld.global.b32 	%r3, [%rd4];
	mov.b32 	%r4, s;
	shl.b32 	%r2, %r1, 2;
	add.s32 	%r5, %r4, %r2;
	sub.s32 	%r6, %r9, %r1;
	shl.b32 	%r6, %r6, 2;
	add.s32 	%r7, %r4, %r6;
	{body}
	ret;
}}
"""

_EXCHANGE = """st.shared.b32 [%r5], %r3;
	{barrier}
	ld.shared.b32 %r10, [%r7];
	st.global.b32 [%rd5], %r10;"""


def run(
    body: str,
    threads: int = 64,
    *,
    globals_: str = "",
    blocks: int = 1,
    shared_bytes: int = 0,
    map_: bytes = bytes(128),
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs a kernel with input ``x``; returns its output ``y``."""
    x, y = np.arange(threads, dtype=np.float32), np.zeros(threads, np.float32)
    program = parse(_KERNEL.format(body=body, globals=globals_))
    device = DeviceMemory()
    addresses = [device.place(array).to_bytes(8, "little") for array in (x, y)]
    parameters = program.kernels["k"].packed([*addresses, map_])
    grid, extents = (blocks, 1, 1), (threads, 1, 1)
    launch(program, "k", grid, extents, shared_bytes, parameters, device, seed=seed)
    return x, y


def refused(reason: str, body: str, threads: int = 64, **given: object) -> None:
    with pytest.raises(EmulationError, match=reason):
        run(body, threads, **given)  # pyright: ignore[reportArgumentType]


def test_threads_meet_at_a_barrier() -> None:
    x, y = run(_EXCHANGE.format(barrier="bar.sync 0;"))
    np.testing.assert_array_equal(y, x[::-1])


def test_threads_race_without_a_barrier() -> None:
    refused(
        r"race: thread .* reads what another thread has", _EXCHANGE.format(barrier="")
    )


def test_write_after_read_races() -> None:
    body = _EXCHANGE.format(barrier="bar.sync 0;") + "st.shared.b32 [%r5], %r10;"
    refused("writes what another thread has read", body)


def test_write_after_write_races() -> None:
    refused("writes what another thread writes", "st.shared.b32 [s], %r3;")
    body = "cvta.to.global.u64 %rd7, %rd3; st.global.b32 [%rd7], %r3;"
    refused("writes what another thread writes", body)


def test_races_in_global_memory() -> None:
    body = """st.global.b32 [%rd5], %r3;
    cvt.u64.u32 %rd7, %r6;
    add.s64 %rd8, %rd3, %rd7;
    {barrier} ld.global.b32 %r10, [%rd8];"""
    refused("reads what another thread has written", body.format(barrier=""))
    run(body.format(barrier="bar.sync 0;"))  # of one block, behind a barrier


def test_non_coherent_loads_race_with_writes() -> None:
    """Non-coherent loads (``ld.global.nc``) race with any write of the launch."""
    for body in (
        "ld.global.nc.b32 %r10, [%rd5]; st.global.b32 [%rd5], %r3;",
        "st.global.b32 [%rd5], %r3; ld.global.nc.b32 %r10, [%rd5];",
    ):
        refused("non-coherent load|what another thread has read", body)


def test_arriving_is_not_waiting() -> None:
    body = """setp.lt.u32 %p1, %r1, 32; @%p1 bra $L1;
    bar.arrive 1, 64; ld.shared.b32 %r10, [%r7]; bra $L2;
    $L1: st.shared.b32 [%r5], %r3; bar.sync 1, 64; $L2:"""
    refused("race: thread", body)
    refused("race: thread", body.replace("bar.arrive 1, 64; ld", "ld") + "bar.sync 0;")


def test_unwritten_predicates_are_refused() -> None:
    refused("a predicate that was never written", "@%p3 st.global.b32 [%rd5], %r3;")


def test_barriers_do_not_span_blocks() -> None:
    body = """mov.u32 %r10, %ctaid.x; setp.ne.b32 %p1, %r10, 0; @%p1 bra $L1;
    st.global.b32 [%rd5], %r3; bar.sync 0; bra $L2;
    $L1: bar.sync 0; ld.global.b32 %r11, [%rd5]; $L2:"""
    run(body)
    refused("reads what another thread has written", body, blocks=2)


def test_barriers_need_all_threads() -> None:
    body = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra $L1; bar.sync 0; $L1:"
    refused("deadlock", body)


def test_barriers_need_converged_warps() -> None:
    body = "setp.lt.u32 %p1, %r1, 40; @!%p1 bra $L1; bar.sync 0; $L1:"
    refused("some threads of a warp do not reach `bar.sync 0`", body)


def test_out_of_bounds_accesses() -> None:
    refused("thread 63: address 0x[0-9a-f]+ is outside", "st.global.b32 [%rd5+4], %r3;")
    refused("outside of 1024 bytes of memory `shared`", "ld.shared.b32 %r10, [s+1024];")
    refused("not a multiple of 4 bytes", "ld.shared.b32 %r10, [s+2];")
    refused("not a multiple of 16", "ld.global.v4.b32 {%r10,%r11,%r12,%r13}, [%rd4];")
    refused("writes to constant memory", "st.const.b32 [%rd5], %r3;")


def test_inactive_threads_are_not_bounds_checked() -> None:
    body = """setp.lt.u32 %p1, %r1, 32;
    @%p1 st.global.b32 [%rd5+128], %r3;"""
    x, y = run(body)
    np.testing.assert_array_equal(y[32:], x[:32])
    assert not y[:32].any()


def test_memory_is_poisoned() -> None:
    assert np.isfinite(run("st.global.b32 [%rd5], %r3;")[1]).all()
    _, y = run("ld.shared.b32 %r10, [%r5]; st.global.b32 [%rd5], %r10;")
    assert np.isnan(y).all()
    _, y = run("st.global.b32 [%rd5], %r19;")  # a register, too
    assert np.isnan(y).all()


def test_shuffles_need_an_active_source() -> None:
    shuffle = """{guard} shfl.sync.bfly.b32 %r10|%p2, %r3, 1, 31, -1;
    st.global.b32 [%rd5], %r10;"""
    x, y = run(shuffle.format(guard=""))
    np.testing.assert_array_equal(y, x.reshape(-1, 2)[:, ::-1].reshape(-1))
    some = "setp.eq.u32 %p1, %r1, 0; " + shuffle.format(guard="@%p1")
    refused("some threads of a warp do not reach `@%p1 shfl", some)
    other = shuffle.format(guard="").replace("-1;", "1;")
    refused("all threads of a warp", other)


@pytest.mark.parametrize(
    ("mode", "distance", "limits", "source"),
    [
        ("up", 3, 0, lambda lane: lane - 3 if lane >= 3 else lane),
        ("down", 5, 31, lambda lane: lane + 5 if lane < 27 else lane),
        ("idx", 2, 31, lambda lane: 2),
        # Among eight neighbours.
        ("idx", 2, 24 << 8 | 31, lambda lane: lane // 8 * 8 + 2),
        ("down", 2, 24 << 8 | 31, lambda lane: lane + 2 if lane % 8 < 6 else lane),
    ],
)
def test_shuffles(
    mode: str, distance: int, limits: int, source: Callable[[int], int]
) -> None:
    shuffle = f"shfl.sync.{mode}.b32 %r10, %r3, {distance}, {limits}, -1;"
    x, y = run(shuffle + "st.global.b32 [%rd5], %r10;")
    from_ = [t // 32 * 32 + source(t % 32) for t in range(64)]
    np.testing.assert_array_equal(y, x[from_])


def test_divergent_loops() -> None:
    body = """mov.b32 %r10, 0f00000000; mov.b32 %r11, 0; mov.b64 %rd7, %rd2;
    $L1: setp.ge.u32 %p1, %r11, %r1; @%p1 bra $L2;
    ld.global.b32 %r12, [%rd7]; add.rn.f32 %r10, %r10, %r12;
    add.s32 %r11, %r11, 1; add.s64 %rd7, %rd7, 4; bra.uni $L1;
    $L2: st.global.b32 [%rd5], %r10;"""
    x, y = run(body)
    np.testing.assert_array_equal(y, np.cumsum(x) - x)


def test_unknown_instructions_are_named() -> None:
    atom = "atom.global.add.f32 %r10, [%rd5], %r3"
    refused(rf"kernel `k`: `{atom[:15]}.*unsupported instruction", atom + ";")
    refused(r"`add.f128 .*unsupported: `\.f128`", "add.f128 %r10, %r3, %r3;")
    refused(r"unsupported: `\.sat`", "addc.sat.s32 %r10, %r3, %r3;")
    refused(
        r"`\.nc` is supported for global memory only", "ld.shared.nc.b32 %r10, [%rd1];"
    )
    refused("unsupported", "mov.u32 %r10, %clock;")
    refused("which nothing declares", "mov.u32 %r10, other;")
    refused("no label `\\$L9`", "bra $L9;")


def test_calls_are_inlined() -> None:
    doubled = """.func (.param .b32 func_retval0) doubled(.param .b32 doubled_param_0)
    { .reg .b32 %r<4>; .reg .pred %p<2>;
      ld.param.b32 %r1, [doubled_param_0];
      setp.gt.f32 %p1, %r1, 0f41000000; @%p1 bra $L1;
      add.rn.f32 %r2, %r1, %r1; st.param.b32 [func_retval0], %r2; ret;
      $L1: st.param.b32 [func_retval0], %r1; ret; }"""
    body = """{ // callseq 0, 0
    .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r3;
    call.uni (retval0), doubled, (param0);
    ld.param.b32 %r10, [retval0]; }
    st.global.b32 [%rd5], %r10;"""
    x, y = run(body, globals_=doubled)
    np.testing.assert_array_equal(y, np.where(x > 8, x, 2 * x))
    again = doubled.replace("ret; }", "call.uni doubled, (doubled_param_0); ret; }")
    refused("unsupported function `doubled`", body, globals_=again)
    refused("unsupported function `other`", "call.uni other, ();")


def test_programs_are_read_as_a_whole() -> None:
    _, y = run(
        """.loc 1 2 3
    mov.u32 %r10, big; mov.u32 %r11, after; sub.s32 %r12, %r11, %r10;
    mov.b64 %rd7, seven; ld.global.b32 %r13, [%rd7]; add.s32 %r14, %r12, %r13;
    cvt.rn.f32.u32 %r15, %r14; st.global.b32 [%rd5], %r15;""",
        globals_=""".global .align 4 .u32 seven = 7;
    .shared .align 4 .f32 big[2][16]; .shared .align 4 .b8 after[4];""",
    )
    np.testing.assert_array_equal(y, 2 * 16 * 4 + 7)
    refused("unsupported: `.texref", "", globals_=".texref other;")
    refused("constant variable of the module", "mov.b64 %rd7, z; st.global.b32 [%rd7], 0;",
            globals_=".global .align 4 .b8 z[4];")  # fmt: skip
    for text in (
        "ld;",
        "[%rd4]",
        "mov.u32 %r10, 0x;",
        "add.s32 %r10;",
        "@%r1 bra $L1;",
    ):
        with pytest.raises(EmulationError):
            run(text)
    with pytest.raises(EmulationError, match="predicated calls"):
        run("@%p1 call.uni g, ();", globals_=".func g() { ret; }")


def test_tables_and_variables_of_threads() -> None:
    table = ".global .align 4 .b8 table[8] = {0, 0, 128, 63, 0, 0, 0, 64};"
    body = """.local .align 8 .b8 depot[8];
    mov.b64 %rd7, table; and.b32 %r10, %r1, 1; mul.wide.u32 %rd8, %r10, 4;
    add.s64 %rd9, %rd7, %rd8; ld.global.nc.b32 %r11, [%rd9];
    mov.b64 %rd10, depot; cvta.local.u64 %rd11, %rd10; add.s64 %rd12, %rd11, %rd8;
    st.b32 [%rd12], %r11; ld.local.b32 %r12, [depot]; ld.local.b32 %r13, [depot+4];
    setp.eq.u32 %p1, %r10, 0;
    selp.b32 %r14, %r12, %r13, %p1; st.global.b32 [%rd5], %r14;"""
    _, y = run(body, globals_=table)
    np.testing.assert_array_equal(y, np.tile([1, 2], 32))


def test_generic_addresses_tell_their_space() -> None:
    body = """cvt.u64.u32 %rd7, %r5; cvta.shared.u64 %rd8, %rd7; st.b32 [%rd8], %r3;
    ld.b32 %r10, [%rd8]; cvta.to.shared.u64 %rd9, %rd8; cvt.u32.u64 %r11, %rd9;
    ld.shared.b32 %r12, [%r11]; add.rn.f32 %r13, %r10, %r12; st.b32 [%rd5], %r13;"""
    x, y = run(body)
    np.testing.assert_array_equal(y, 2 * x)
    mixed = body + "selp.b64 %rd8, %rd8, %rd5, %p1; ld.b32 %r14, [%rd8];"
    first = "setp.eq.u32 %p1, %r1, 0; "
    refused("of several spaces at once", first + mixed)


def test_dynamic_shared_memory_follows_static() -> None:
    """The offset is aligned as by ptxas."""
    body = """.shared .align 4 .b8 flag[4];
    mov.b32 %r10, dynamic; cvt.rn.f32.u32 %r11, %r10; st.global.b32 [%rd5], %r11;"""
    dynamic = ".extern .shared .align 1024 .b8 dynamic[];"
    _, y = run(body, globals_=dynamic, shared_bytes=64)
    np.testing.assert_array_equal(y, 2048)
    full = "ld.shared.b32 %r10, [dynamic+64];"
    refused("outside of 2112 bytes", body + full, globals_=dynamic, shared_bytes=64)
    refused("232449 bytes of a block's memory", "", shared_bytes=232449 - 1024)


def test_launches_must_fit() -> None:
    refused("320 threads: expected up to 256", "", 320)
    program = parse(_KERNEL.format(body="", globals=""))
    with pytest.raises(EmulationError, match="no kernel `other`"):
        launch(program, "other", (1, 1, 1), (1, 1, 1), 0, b"", DeviceMemory())
    with pytest.raises(EmulationError, match="0 bytes of parameters: expected 256"):
        launch(program, "k", (1, 1, 1), (1, 1, 1), 0, b"", DeviceMemory())


# Copies that go on by themselves

_COPIED = """cp.async.ca.shared.global [%r5], [%rd4], 4{read};
    {commit} {wait} ld.shared.b32 %r10, [%r5]; st.global.b32 [%rd5], %r10;"""
_COMMIT, _WAIT = "cp.async.commit_group;", "cp.async.wait_group 0;"


def test_copies_arrive_when_they_are_waited_for() -> None:
    x, y = run(_COPIED.format(read="", commit=_COMMIT, wait=_WAIT))
    np.testing.assert_array_equal(y, x)
    _, y = run(_COPIED.format(read="", commit="", wait="cp.async.wait_all;"))
    np.testing.assert_array_equal(y, x)
    _, y = run(_COPIED.format(read=", 0", commit=_COMMIT, wait=_WAIT))
    assert not y.any()
    for commit, wait in (
        (_COMMIT, ""),
        ("", _WAIT),
        (_COMMIT, "cp.async.wait_group 1;"),
    ):
        _, y = run(_COPIED.format(read="", commit=commit, wait=wait))
        assert np.isnan(y).all()


_BOX = """.shared .align 8 .b8 full[8]; .extern .shared .align 1024 .b8 dynamic[];
    mov.b64 %rd7, k_param_2; cvta.param.u64 %rd8, %rd7; mov.b32 %r12, 0;
    setp.ne.b32 %p1, %r1, 0; mov.b32 %r10, {column}; mov.b32 %r11, 3;
    @%p1 bra $L1; mbarrier.init.shared.b64 [full], 1;
    $L1: {made} @%p1 bra $L2;
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [full], {bytes};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [s], [%rd8, {{%r10, %r11}}], [full];
    $L2: {wait}
    ld.shared.b32 %r13, [%r5]; st.global.b32 [%rd5], %r13;"""
_UNTIL = """{ .reg .pred P1;
    AGAIN: mbarrier.try_wait.parity.shared.b64 P1, [full], %r12, 999;
    @P1 bra.uni DONE; bra.uni AGAIN; DONE: }"""
_GIVEN = {"made": "bar.sync 0;", "bytes": "64", "wait": _UNTIL, "column": "-4"}


def boxed(changed: dict[str, str] | None = None, seed: int = 0) -> np.ndarray:
    """A TMA box of two rows of eight at (-4, 3) in a 4 x 8 tensor."""
    tensor = Descriptor(1 << 20, 7, (8, 4), (32,), (8, 2), (1, 1), 0)
    body = _BOX.format(**{**_GIVEN, **(changed or {})})
    body = body.replace(".extern .shared .align 1024 .b8 dynamic[];", "")
    _, y = run(body, 32, map_=tensor.encoded(), seed=seed)
    return y


def test_tma_boxes() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    expected = np.zeros((2, 8), np.float32)
    expected[0, 4:] = x[3, :4]
    for seed in range(4):
        np.testing.assert_array_equal(boxed(seed=seed)[:16], expected.reshape(-1))


@pytest.mark.parametrize("column", [-1, 1, 2, 6])
def test_tma_boxes_are_16_byte_aligned(column: int) -> None:
    """As on an H200, where it is an illegal instruction."""
    with pytest.raises(EmulationError, match=f"a box starts at element {column} of"):
        boxed({"column": str(column)})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"wait": ""}, "race: an asynchronous copy to it is in flight"),
        ({"bytes": "65"}, "deadlock"),
        ({"wait": _UNTIL.replace("%r12", "%r11")}, "race: an asynchronous copy"),
    ],
)
def test_tma_copies_must_be_waited_for(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(EmulationError, match=reason):
        boxed(changed)


def test_mbarriers_own_their_memory() -> None:
    wait = _UNTIL + "st.shared.b32 [full], %r1;"
    with pytest.raises(EmulationError, match="an mbarrier is there"):
        boxed({"wait": wait})
    with pytest.raises(EmulationError, match="no thread has waited for"):
        boxed({"wait": "ret;"})


def test_invalid_tensor_maps() -> None:
    refused(
        "expected a tensor map", _BOX.format(**_GIVEN).replace("%rd8, {", "%rd1, {")
    )


# Barriers by number


def meet(first: str, second: str) -> None:
    """A kernel with different code for two warpgroups."""
    body = f"""setp.lt.u32 %p1, %r1, 128; @%p1 bra $L1; {second} bra $L2;
    $L1: {first} $L2: wgmma.fence.sync.aligned;"""
    run(body, 256)


_MEET, _COME = "bar.sync 1, 256;", "bar.arrive 1, 256;"


def test_named_barriers() -> None:
    meet(_COME, _MEET)
    meet(_MEET, _MEET)
    meet(_MEET + _MEET, _MEET + _COME)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (_MEET, "", "deadlock"),
        (_COME, "", "a barrier that never completes"),
        (_MEET.replace("1,", "16,"), "", "barrier 16: expected 0 to 15"),
        (_COME, _MEET.replace("256", "128"), "threads elsewhere"),
        (_COME + _COME + _COME, "", "twice in a phase"),
        (_MEET.replace("256", "100"), "", "expected whole warps"),
    ],
)
def test_misused_named_barriers(first: str, second: str, reason: str) -> None:
    with pytest.raises(EmulationError, match=reason):
        meet(first, second)


# Products of warpgroups


def multiplied(*parts: str) -> None:
    """A wgmma with four accumulator registers, between other instructions."""
    product = """wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32
        {%r10, %r11, %r12, %r13}, %rd7, %rd8, %p1, 1, 1;"""
    first = """mov.b64 %rd7, 4611686293305294912; mov.b64 %rd8, %rd7;
    setp.ne.b32 %p1, %r1, %r1;"""
    body = " ".join(product if part == "product" else part for part in parts)
    run(first + body, 128, shared_bytes=16384)


_FENCE, _CLOSE = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
_DONE = "wgmma.wait_group.sync.aligned 0;"
_USE = "add.rn.f32 %r14, %r10, %r10;"


def test_wgmma_is_waited_for() -> None:
    multiplied(_FENCE, "product", "product", _CLOSE, _DONE, _USE)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (("product",), "without a fence"),
        ((_FENCE, "product", _CLOSE, _USE), "result of a pending wgmma"),
        ((_FENCE, "product", _DONE, _USE), "result of a pending wgmma"),
        (
            (_FENCE, "product", _CLOSE, _DONE.replace("0", "1"), _USE),
            "result of a pending wgmma",
        ),
        ((_FENCE, "product", "mov.b32 %r11, 0;"), "still uses the register"),
        (
            (_FENCE, "product", "st.shared.b32 [%r5+1024], %r3;"),
            "wgmma still reads it",
        ),
    ],
)
def test_missing_wgmma_waits(parts: Sequence[str], reason: str) -> None:
    with pytest.raises(EmulationError, match=reason):
        multiplied(*parts)


def test_may_write_analysis() -> None:
    # x[t] by a pointer to y: an address that goes astray.
    body = "sub.s64 %rd7, %rd3, %rd2;\n\tsub.s64 %rd8, %rd5, %rd7;\n\tst.global.b32 [%rd8], %r3;"
    run(body)  # computed from both: both may be written

    with pytest.raises(EmulationError, match="an array of another parameter"):
        run("st.global.b32 [%rd5+-4352], %r3;", threads=64)
