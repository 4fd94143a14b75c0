"""Models with bodies and sequences, for mutants."""

from functools import cache

from tests.frontends.onnx.node_cases import NodeCase, text_models

__all__ = ["flow_bases"]

_TEXTS = {
    "Loop": """(int64 n, bool c, float[3] a, float[3] w) => (z, v) {
        z, v = Loop (n, c, a) <body = b
            (int64 i, bool k, float[p] s) => (bool l, float[p] t, float[p] y) {
            t = Add (s, w)
            largest = ReduceMax <keepdims = 0> (t)
            top = Constant <value = float {20.0}> ()
            l = Less (largest, top)
            f = Cast <to = 1> (i)
            y = Mul (t, f)
        }> }""",
    "Grow": """(int64 n, float[2,3] a) => (z) {
        z = Loop (n, , a) <body = b
            (int64 i, bool k, float[p, q] s) => (bool l, float[r, q] t) {
            l = Identity (k)
            t = Concat <axis = 0> (s, a)
        }> }""",
    "Cut": """(int64 n, bool c, float[5] a) => (z) {
        z = Loop (n, c) <body = b (int64 i, bool k) => (bool l, float[m] t) {
            l = Identity (k)
            one = Constant <value = int64[1] {1}> ()
            begin = Reshape (i, one)
            end = Add (begin, one)
            t = Slice (a, begin, end)
        }> }""",
    "Collect": """(int64 n, bool c, float[2] a) => (z) {
        e = SequenceEmpty ()
        s = Loop (n, c, e) <body = b
            (int64 i, bool k, seq(float[p]) s) => (bool l, seq(float[p]) t) {
            l = Identity (k)
            f = Cast <to = 1> (i)
            x = Add (a, f)
            t = SequenceInsert (s, x)
        }>
        z = ConcatFromSequence <axis = 0> (s) }""",
    "Scan": """(float[2] a, float[2,4] x, float[4,3] w) => (z, y, v) {
        z, y, v = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0],
            scan_input_directions = [0, 1], scan_output_axes = [-1, 0],
            scan_output_directions = [1, 0],
            body = b (float[p] s, float[p] e, float[q] f)
                => (float[p] r, float[p] o, float[q] u) {
                r = Add (s, e)
                o = Mul (r, e)
                u = Neg (f)
            }> (a, x, w) }""",
    "If": """(bool c, float[2,3] x, float[3] w) => (y) {
        y = If (c) <then_branch = t () => (float[a, b] p) { p = Add (x, w) },
            else_branch = f () => (float[d] q) { q = Neg (w) }> }""",
    "Nested": """(bool c, int64 n, float[3] x) => (y) {
        y = If (c) <then_branch = t () => (float[a] p) {
                k = Constant <value = bool {1}> ()
                p = Loop (n, k, x) <body = b
                    (int64 i, bool h, float[r] s) => (bool l, float[r] u) {
                    l = Identity (h)
                    u = Mul (s, x)
                }>
            },
            else_branch = f () => (float[d] q) { q = Neg (x) }> }""",
    "SequenceMap": """(float[2,3] x, float[3] w) => (y) {
        s = SequenceConstruct (x, x)
        m = SequenceMap (s, w) <body = b (float[a, d] e, float[d] o) => (float[a, d] f)
            { f = Add (e, o) }>
        y = ConcatFromSequence <axis = 1> (m) }""",
    "Optional": """(float[2,3] x) => (y, h) {
        o = Optional (x)
        h = OptionalHasElement (o)
        y = OptionalGetElement (o) }""",
    "Split": """(float[5,3] x, int64 split) => (y) {
        s = SplitToSequence <axis = 0> (x, split)
        m = SequenceMap (s) <body = b (float[a, d] e) => (float[a, d] f)
            { f = Relu (e) }>
        y = ConcatFromSequence <axis = 0> (m) }""",
}


@cache
def flow_bases() -> tuple[NodeCase, ...]:
    """Models of loops, branches and sequences; a case for every node of each."""
    return tuple(text_models(_TEXTS))
