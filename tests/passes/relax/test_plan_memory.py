"""The arena of whole networks is hardly larger than what lives in it at once."""

import pytest

import relax_mlir
from benchmarks.networks import network

_MOST = 1.1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        *("mlp_b64", "resnet50", "mobilenet_v2", "squeezenet", "densenet121"),
        *("minilm", "lstm", "unet", "shufflenet"),
    ],
)
def test_the_arena_is_within_a_tenth_of_what_lives_at_once(name: str) -> None:
    module = relax_mlir.import_onnx(network(name).entry.build())
    planned = relax_mlir.lower(module, to="planned")
    (main,) = (f for f in planned.func_ops() if f.name.value == "main")
    arena, alive = (
        int(main.attributes[f"relax.{n}_bytes"].value) for n in ("arena", "live")
    )
    assert 0 < alive <= arena <= _MOST * alive
