"""Imported torch models agree with torch."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, of its imports
    torch = pytest.importorskip("torch", reason="torch is not installed")

import relax_mlir
from relax_mlir.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ModelError,
    UnsupportedError,
)
from relax_mlir.frontends.torch import from_exported
from relax_mlir.tvm.relax.frontend import detach_params
from relax_mlir.tvm.relax.frontend.torch import from_exported_program

nn = torch.nn
F = torch.nn.functional
pytree = torch.utils._pytree

# Torch warns of its own ways while it exports recurrent networks and masks.
pytestmark = pytest.mark.filterwarnings("ignore")

BATCH = torch.export.Dim("batch", min=1, max=64)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def exported(model: Any, *inputs: Any, dynamic_shapes: Any = None) -> Any:
    """A model as torch exports it."""
    return torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic_shapes)


def assert_same(
    actual: Sequence[np.ndarray], expected: Any, tolerance: float = 1e-5
) -> None:
    """Equal shapes and types, and numbers that differ by little more than rounding."""
    leaves = pytree.tree_leaves(expected)
    assert len(actual) == len(leaves)
    for ours, theirs in zip(actual, leaves, strict=True):
        wanted = theirs.detach().numpy()
        assert ours.dtype == wanted.dtype
        np.testing.assert_allclose(ours, wanted, rtol=tolerance, atol=tolerance)


class ResNetBlock(nn.Module):
    """A residual block of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.around = nn.Conv2d(3, 8, 1, stride=2)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Any) -> Any:
        inner = self.second(F.relu(self.norm(self.first(x))))
        pooled = F.max_pool2d(F.relu(inner + self.around(x)), 3, 2, 1)
        return F.adaptive_avg_pool2d(pooled, 1).flatten(1)


class DecoderBlock(nn.Module):
    """A Llama-like decoder block: grouped-query attention with RoPE, and a gated MLP."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        each = width // heads
        self.each = each
        self.query = nn.Linear(width, heads * each, bias=False)
        self.key = nn.Linear(width, groups * each, bias=False)
        self.value = nn.Linear(width, groups * each, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 24, bias=False) for _ in range(2))
        self.down = nn.Linear(24, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-6) for _ in range(2))
        steps = 10000 ** (-torch.arange(0, each, 2) / each)
        self.register_buffer("steps", steps, persistent=False)

    def rotated(self, x: Any, angles: Any) -> Any:
        first, second = x.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        return x * angles.cos() + turned * angles.sin()

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        angles = torch.outer(torch.arange(length), self.steps).repeat(1, 2)
        inner = self.norms[0](x)
        query, key, value = (
            layer(inner).view(batch, length, -1, self.each).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        found = F.scaled_dot_product_attention(
            self.rotated(query, angles),
            self.rotated(key, angles),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, -1))
        inner = self.norms[1](x)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


class Tagger(nn.Module):
    """A tagger with two bidirectional recurrent layers."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.cells = kind(6, 5, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(10, 3)

    def forward(self, words: Any) -> Any:
        found, last = self.cells(self.words(words))
        return self.tags(found), last


@pytest.mark.slow
def test_resnet_block_at_several_batch_sizes() -> None:
    model = ResNetBlock()
    program = exported(model, torch.randn(2, 3, 12, 12), dynamic_shapes=({0: BATCH},))
    compiled = relax_mlir.compile(from_exported(program))

    for batch in (1, 2, 5):
        x = torch.randn(batch, 3, 12, 12)
        assert_same(compiled(x), model(x))


@pytest.mark.slow
def test_decoder_block_at_several_lengths() -> None:
    model = DecoderBlock()
    open_sizes = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},)
    program = exported(model, torch.randn(2, 7, 16), dynamic_shapes=open_sizes)
    compiled = relax_mlir.compile(from_exported(program))

    for batch, length in ((2, 7), (1, 3), (3, 17)):
        x = torch.randn(batch, length, 16)
        assert_same(compiled(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=["lstm", "gru", "rnn"])
def test_recurrent_tagger_stays_one_operator_per_layer(kind: Any) -> None:
    model = Tagger(kind)
    words = torch.randint(0, 20, (2, 7))
    program = exported(model, words, dynamic_shapes=({0: BATCH},))
    module = from_exported(program)

    assert module.script().count(f"R.nn.{kind.__name__.lower()}(") == 2
    words = torch.randint(0, 20, (3, 7))
    assert_same(relax_mlir.compile(module)(words), model(words))


@pytest.mark.slow
def test_arguments_are_flattened_and_mutated_buffers_come_first() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Any, more: Mapping[str, Any]) -> Any:
            self.calls += 1
            return {"sum": x + more["y"], "twice": (x * 2, None)}

    x, y = torch.randn(3), torch.randn(3)
    module = from_exported(exported(Counter(), x, {"y": y}))

    calls, total, twice = relax_mlir.compile(module)(x, y)

    assert_same([calls, total, twice], [torch.ones(1), x + y, x * 2])


@pytest.mark.slow
def test_weights_are_views_of_torchs_memory() -> None:
    model = nn.Linear(64, 64, bias=False)
    module = from_exported(exported(model, torch.randn(2, 64)))
    (weight,) = module.constants.values()

    assert np.shares_memory(weight, model.weight.detach().numpy())


@pytest.mark.slow
def test_weights_as_parameters_can_be_detached() -> None:
    model = nn.Linear(3, 4)
    x = torch.randn(2, 3)
    module = from_exported_program(exported(model, x), keep_params_as_input=True)

    module, params = detach_params(module)

    compiled = relax_mlir.compile(module)
    assert compiled.input_names == ("input", "p_weight", "p_bias")
    assert module["main"].attrs["num_input"] == 1
    assert_same(compiled(x, *params["main"]), model(x))


@pytest.mark.slow
def test_ranges_of_sizes_are_checked() -> None:
    size = torch.export.Dim("size", min=3, max=9)
    module = from_exported(
        exported(nn.ReLU(), torch.randn(4), dynamic_shapes=({0: size},))
    )
    compiled = relax_mlir.compile(module)

    assert compiled(np.ones(3, np.float32))[0].shape == (3,)
    for wrong in (2, 10):
        with pytest.raises(ValueError, match="sizes do not fit"):
            compiled(np.ones(wrong, np.float32))


@pytest.mark.slow
def test_bfloat16_weights_and_results() -> None:
    model = nn.Linear(4, 3).bfloat16()
    x = torch.randn(2, 4).bfloat16()
    (found,) = relax_mlir.compile(from_exported(exported(model, x)))(x)

    assert found.dtype.name == "bfloat16"
    wanted = model(x).detach().float().numpy()
    # One rounding to 8 bits of a sum that torch rounds once as well.
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=2e-2, atol=2e-2)


class Applied(nn.Module):
    """A function as a model."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.slow
def test_inputs_and_weights_can_be_results() -> None:
    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: Any) -> Any:
            y = x + 1
            return x, self.weight, y, y

    model, x = Returning(), torch.randn(3)

    assert_same(relax_mlir.compile(from_exported(exported(model, x)))(x), model(x))


def test_complex_inputs_are_rejected() -> None:
    program = exported(Applied(torch.abs), torch.ones(2, dtype=torch.complex64))

    with pytest.raises(UnsupportedError, match=r"input `.*`: element type `complex64`"):
        from_exported(program)


@pytest.mark.slow
def test_all_operators_without_a_rule_are_named() -> None:
    model = Applied(lambda x: torch.special.bessel_j0(x) + torch.linalg.svdvals(x)[0])
    program = exported(model, torch.eye(2))

    with pytest.raises(UnsupportedError, match="2 operators without a rule") as caught:
        from_exported(program)

    for name in ("aten.special_bessel_j0.default", "aten._linalg_svd.default"):
        assert f"`{name}`: 1 node" in str(caught.value)


@pytest.mark.slow
def test_data_dependent_sizes_are_rejected_with_the_source_line() -> None:
    program = exported(Applied(lambda x: x[x > 0]), torch.randn(4))

    with pytest.raises(
        UnsupportedError, match=r"without a rule|depends on the values|mask"
    ):
        from_exported(program)


@pytest.mark.slow
def test_rejected_call_names_node_and_line() -> None:
    def masked(x: Any) -> Any:
        return torch.scatter_reduce(x, 0, torch.tensor([0]), x, "mean")

    program = exported(Applied(masked), torch.randn(4))

    with pytest.raises(
        UnsupportedError, match=r"`scatter_reduce` .*test_importer.py.*mean"
    ):
        from_exported(program)


def test_non_program_is_rejected() -> None:
    with pytest.raises(
        ModelError, match=r"expected a `torch.export.ExportedProgram`, got Linear"
    ):
        from_exported(nn.Linear(1, 1))


@pytest.mark.slow
def test_user_defined_rules() -> None:
    def shifted(node: Any, importer: Any) -> Any:
        x = importer.retrieve_args(node.args[0])
        one = relax_mlir.tvm.relax.const(1.0, "float32")
        return importer.block_builder.emit(relax_mlir.tvm.relax.op.add(x, one))

    program = exported(Applied(torch.special.bessel_j0), torch.zeros(3))
    rules = {"special_bessel_j0.default": shifted}

    (found,) = relax_mlir.compile(from_exported(program, custom_convert_map=rules))(
        np.zeros(3, np.float32)
    )

    assert found.tolist() == [1, 1, 1]


def test_compile_takes_programs_and_modules() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    x = torch.randn(2, 4)
    with torch.no_grad():
        expected = network(x).numpy()
    batch = torch.export.Dim("batch")
    program = torch.export.export(network, (x,), dynamic_shapes=({0: batch},))

    for model in (
        relax_mlir.compile(network, example_inputs=(x,)),
        relax_mlir.compile(program),
    ):
        np.testing.assert_allclose(model(x.numpy())[0], expected, rtol=1e-5, atol=1e-6)
    assert relax_mlir.compile(program)(torch.randn(5, 4))[0].shape == (5, 3)


def test_compile_explains_what_modules_need() -> None:
    network = torch.nn.Linear(4, 3)
    x = torch.randn(2, 4)
    with pytest.raises(ArgumentTypeError, match=r"expected `example_inputs`.*Hint"):
        relax_mlir.compile(network)
    with pytest.raises(ArgumentValueError, match=r"Hint: `model\.eval\(\)`"):
        relax_mlir.compile(network, example_inputs=(x,))
    with pytest.raises(ArgumentTypeError, match="`shapes`: expected an ONNX model"):
        relax_mlir.compile(network.eval(), shapes={"x": [1, 4]})
    with pytest.raises(UnsupportedError, match="torch cannot export it"):
        relax_mlir.compile(network.eval(), example_inputs=(x, x))
    program = torch.export.export(network.eval(), (x,))
    with pytest.raises(ArgumentTypeError, match="which has them already"):
        relax_mlir.compile(program, example_inputs=(x,))
