"""``torch.compile(model, backend="relax_mlir")``."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, of its imports
    torch = pytest.importorskip("torch", reason="torch is not installed")

import relax_mlir.frontends.torch  # noqa: F401  it tells torch of the backend
from relax_mlir.errors import UnsupportedError

nn = torch.nn

# Torch warns of its own ways while it traces; dynamo takes a second for any model.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def block() -> Any:
    """A small network with a convolution."""
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(144, 2)).eval()


def assert_close(actual: Any, expected: Any) -> None:
    """Numbers that differ by little more than rounding."""
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_one_compilation_serves_other_batch_sizes() -> None:
    model = block()
    compiled = torch.compile(model, backend="relax_mlir", dynamic=True, fullgraph=True)
    counters = torch._dynamo.utils.counters["stats"]

    with torch.no_grad():
        for batch in (2, 3, 7):
            x = torch.randn(batch, 3, 6, 6)
            assert_close(compiled(x), model(x))

    assert counters["unique_graphs"] == 1


@pytest.mark.parametrize("freeze", [False, True])
def test_recurrent_network_with_a_mutated_buffer(freeze: bool) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(4, 5)
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            found, (hidden, _) = self.cells(x * self.calls[0])
            return {"found": found, "hidden": hidden, "size": x.shape[0]}

    model = Counting().eval()
    compiled = torch.compile(model, backend="relax_mlir", options={"freeze": freeze})
    x = torch.randn(3, 2, 4)

    with torch.no_grad():
        compiled(x)
        found = compiled(x)
        assert model.calls.tolist() == [2, 2]
        model.calls.fill_(1)
        expected = model(x)

    assert_close(found["found"], expected["found"])
    assert_close(found["hidden"], expected["hidden"])
    assert found["size"] == 3


@pytest.mark.parametrize("norm_first", [False, True])
def test_fused_encoder_layer(norm_first: bool) -> None:
    options = {"dropout": 0.0, "norm_first": norm_first, "batch_first": True}
    model = nn.TransformerEncoderLayer(16, 4, 24, **options).eval()
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    compiled = torch.compile(model, backend="relax_mlir", fullgraph=True)
    x = torch.randn(2, 5, 16)

    with torch.no_grad():
        assert_close(compiled(x), model(x))
        seen = ~hidden
        found = compiled(x, src_key_padding_mask=hidden)
        assert_close(found[seen], model(x, src_key_padding_mask=hidden)[seen])


@pytest.mark.parametrize("averaged", [False, True])
def test_fused_attention(averaged: bool) -> None:
    model = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    options = {"need_weights": True, "average_attn_weights": averaged}
    compiled = torch.compile(model, backend="relax_mlir", fullgraph=True)
    x = torch.randn(2, 5, 16)

    with torch.no_grad():
        found, expected = (call(x, x, x, **options) for call in (compiled, model))

    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs)


def test_weights_can_change_unless_frozen() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    plain = torch.compile(model, backend="relax_mlir")
    with torch.no_grad():
        plain(x)
        model.weight.zero_()
        assert_close(plain(x), model.bias.expand(4, 2))

    torch._dynamo.reset()
    frozen = torch.compile(model, backend="relax_mlir", options={"freeze": True})
    with torch.no_grad():
        assert_close(frozen(x), model(x))


def test_views_of_non_row_major_results() -> None:
    def turned(x: Any) -> Any:
        y = x.t() + 1
        return y[0], y[:, 1:], y

    compiled, x = torch.compile(turned, backend="relax_mlir"), torch.randn(3, 4)

    for ours, theirs in zip(compiled(x), turned(x), strict=True):
        assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


def test_training() -> None:
    model = block().train()
    same = copy.deepcopy(model)
    x, labels = torch.randn(4, 3, 6, 6), torch.tensor([0, 1, 1, 0])
    losses: list[list[float]] = []
    for trained, call in (
        (model, torch.compile(model, backend="relax_mlir")),
        (same, same),
    ):
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        losses.append([])
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(call(x), labels)
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss.detach()))

    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]
    for ours, theirs in zip(model.parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_gradients_of_frozen_models_are_rejected() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    options = {"freeze": True}
    result = torch.compile(model, backend="relax_mlir", options=options)(x)

    assert_close(result, model(x))
    with pytest.raises(
        UnsupportedError, match="expected inference, since weights are constants"
    ):
        result.sum().backward()


def mixed(x: Any, w: Any) -> Any:
    """Operators with rules before, between and after two that have none."""
    a = torch.relu(x @ w)
    b = torch.special.bessel_j0(a) * 2 + a.sum(1, keepdim=True)
    return torch.softmax(torch.linalg.eigvalsh(b @ b.T), 0), b.split(2, 1), a


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_has_no_rule_stays_in_torch(
    dynamic: bool, caplog: pytest.LogCaptureFixture
) -> None:
    compiled = torch.compile(mixed, backend="relax_mlir", dynamic=dynamic)
    w = torch.randn(4, 6)

    for rows in (5, 7) if dynamic else (5,):
        x = torch.randn(rows, 4)
        eigenvalues, parts, a = compiled(x, w)
        expected = mixed(x, w)
        torch.testing.assert_close(eigenvalues, expected[0], rtol=1e-3, atol=1e-4)
        assert_close((*parts, a), (*expected[1], expected[2]))

    records = [r for r in caplog.records if r.name == "relax_mlir.torch"]
    (record,) = records
    assert record.getMessage() == (
        "torch.compile: left to torch: `aten._linalg_eigh.default`, "
        "`aten.special_bessel_j0.default`"
    )


def test_what_a_rule_refuses_stays_in_torch(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Any) -> Any:
        return torch.view_as_real(torch.fft.fft(x * 2)) + 1

    compiled = torch.compile(function, backend="relax_mlir")
    x = torch.randn(3, 8)

    assert_close(compiled(x), function(x))
    assert "left to torch" in caplog.text


def test_weights_are_frozen_in_parts_of_a_graph() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            return self.second(torch.special.bessel_j0(self.first(x)))

    model = Model().eval()
    compiled = torch.compile(model, backend="relax_mlir", options={"freeze": True})
    x = torch.randn(3, 4)

    with torch.no_grad():
        expected = model(x)
        assert_close(compiled(x), expected)
        model.second.weight.zero_()
        assert_close(compiled(x), expected)


def test_full_compilation_may_be_required() -> None:
    options = {"require_full_compilation": True}
    compiled = torch.compile(
        torch.special.bessel_j0, backend="relax_mlir", options=options
    )

    with pytest.raises(Exception, match=r"`aten.special_bessel_j0.default`: 1 node"):
        compiled(torch.ones(3))


def test_unknown_options_are_rejected() -> None:
    compiled = torch.compile(nn.ReLU(), backend="relax_mlir", options={"thread": 2})

    with pytest.raises(Exception, match=r"options: expected .*threads, .*got thread"):
        compiled(torch.ones(3))


def test_sizes_as_numbers() -> None:
    def scaled(x: Any, count: int) -> Any:
        return x * count, x.new_zeros(count)

    compiled = torch.compile(scaled, backend="relax_mlir", dynamic=True)

    for count in (3, 5):
        assert_close(compiled(torch.ones(2), count), scaled(torch.ones(2), count))
