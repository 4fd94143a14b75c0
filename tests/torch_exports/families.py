"""Eleven families of networks in tiny configurations with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import transformers
from diffusers import UNet2DConditionModel
from torch import Tensor, nn

__all__ = ["FAMILIES", "Family"]

_WORDS = 200
_HEADS, _HEAD = 4, 16  # attention heads, and their size
_WIDE = _HEADS * _HEAD

_TRANSFORMER = {
    "hidden_size": _WIDE,
    "num_hidden_layers": 2,
    "num_attention_heads": _HEADS,
    "intermediate_size": 2 * _WIDE,
}


@dataclass(frozen=True)
class Family:
    """A network and what to feed it.

    Attributes:
        build: makes the network; its parameters have the names of the inputs.
        inputs: from one of ``sizes`` to tensors by name.
        sizes: of the dynamic dimensions; the first is exported.
        dynamic: names of dimensions, by input and axis.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[..., dict[str, Tensor]]
    sizes: Sequence[Sequence[int]]
    dynamic: Mapping[str, Mapping[int, str]]


def _ids(*shape: int) -> Tensor:
    return torch.randint(3, _WORDS, shape)


def _mask(batch: int, length: int) -> Tensor:
    """1 where there is a word: the row k has k less at its end."""
    kept = torch.clamp(length - torch.arange(batch), min=1)
    return (torch.arange(length) < kept[:, None]).long()


class _Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = transformers.BertConfig(
            vocab_size=_WORDS, max_position_embeddings=64, **_TRANSFORMER
        )
        self.model = transformers.BertModel(config)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        made = self.model(input_ids=ids, attention_mask=mask)
        return made.last_hidden_state, made.pooler_output


class _Gpt2(nn.Module):
    """Reads words after others, whose keys and values are given."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.GPT2Config(
            n_embd=_WIDE, n_layer=2, n_head=_HEADS, vocab_size=_WORDS, n_positions=64
        )
        self.model = transformers.GPT2LMHeadModel(config)

    def forward(
        self, ids: Tensor, key0: Tensor, value0: Tensor, key1: Tensor, value1: Tensor
    ) -> tuple[Tensor, ...]:
        cache = transformers.DynamicCache()
        cache.update(key0, value0, 0)
        cache.update(key1, value1, 1)
        made = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        layers = made.past_key_values.layers
        return made.logits, *(t for layer in layers for t in (layer.keys, layer.values))


def _gpt2_inputs(batch: int, past: int, new: int) -> dict[str, Tensor]:
    names = ("key0", "value0", "key1", "value1")
    return {
        "ids": _ids(batch, new),
        **{name: torch.randn(batch, _HEADS, past, _HEAD) for name in names},
    }


class _Llama(nn.Module):
    """Two heads of keys and values for four of queries."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.LlamaConfig(
            num_key_value_heads=2,
            vocab_size=_WORDS,
            max_position_embeddings=64,
            **_TRANSFORMER,
        )
        self.model = transformers.LlamaForCausalLM(config)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits


class _Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = transformers.ViTConfig(image_size=32, patch_size=8, **_TRANSFORMER)
        self.model = transformers.ViTModel(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).last_hidden_state


class _Whisper(nn.Module):
    """An encoder of sound, and a decoder that reads it."""

    def __init__(self) -> None:
        super().__init__()
        sides = {
            f"{side}_{name}": number
            for side in ("encoder", "decoder")
            for name, number in (
                ("layers", 2),
                ("attention_heads", _HEADS),
                ("ffn_dim", 2 * _WIDE),
            )
        }
        config = transformers.WhisperConfig(
            d_model=_WIDE,
            vocab_size=_WORDS,
            num_mel_bins=16,
            max_source_positions=50,
            max_target_positions=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=[],
            begin_suppress_tokens=[],
            **sides,
        )
        self.model = transformers.WhisperForConditionalGeneration(config)

    def forward(self, x: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        return self.model(
            input_features=x,
            decoder_input_ids=ids,
            decoder_attention_mask=mask,
            use_cache=False,
        ).logits


def _whisper_inputs(batch: int, length: int) -> dict[str, Tensor]:
    return {
        "x": torch.randn(batch, 16, 100),
        "ids": _ids(batch, length),
        "mask": _mask(batch, length),
    }


class _ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = transformers.ConvNextConfig(
            hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], image_size=64
        )
        self.model = transformers.ConvNextModel(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).last_hidden_state


class _Unet(nn.Module):
    """Takes noise out of latent pictures, as a text says."""

    def __init__(self) -> None:
        super().__init__()
        self.model = UNet2DConditionModel(
            sample_size=16,
            in_channels=4,
            out_channels=4,
            layers_per_block=1,
            block_out_channels=(32, 64),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=32,
            attention_head_dim=8,
            norm_num_groups=8,
        )

    def forward(self, x: Tensor, step: Tensor, text: Tensor) -> Tensor:
        made = self.model(x, step, encoder_hidden_states=text, return_dict=False)
        return made[0]


def _unet_inputs(batch: int, length: int) -> dict[str, Tensor]:
    return {
        "x": torch.randn(batch, 4, 16, 16),
        "step": torch.tensor([7]),
        "text": torch.randn(batch, length, 32),
    }


class _Tagger(nn.Module):
    """A class for every word, by two layers of LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_WORDS, 32)
        self.lstm = nn.LSTM(32, 24, 2, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(48, 7)

    def forward(self, ids: Tensor) -> Tensor:
        return self.classify(self.lstm(self.embed(ids))[0])


class _T5(nn.Module):
    """Reads words, and writes others; places count by how far apart they are."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.T5Config(
            vocab_size=_WORDS,
            d_model=_WIDE,
            d_kv=_HEAD,
            d_ff=2 * _WIDE,
            num_layers=2,
            num_heads=_HEADS,
            decoder_start_token_id=0,
        )
        self.model = transformers.T5ForConditionalGeneration(config)

    def forward(self, ids: Tensor, mask: Tensor, written: Tensor) -> Tensor:
        return self.model(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=written,
            use_cache=False,
        ).logits


def _t5_inputs(batch: int, length: int, written: int) -> dict[str, Tensor]:
    return {**_sentences(batch, length), "written": _ids(batch, written)}


class _Wav2Vec2(nn.Module):
    """Sound of any length, which convolutions make shorter."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.Wav2Vec2Config(
            num_feat_extract_layers=3,
            conv_dim=(16, 16, 16),
            conv_stride=(5, 2, 2),
            conv_kernel=(10, 3, 2),
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            **_TRANSFORMER,
        )
        self.model = transformers.Wav2Vec2Model(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(input_values=x).last_hidden_state


class _Segformer(nn.Module):
    """A class for every place of a picture, whose size the sequences follow."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.SegformerConfig(
            hidden_sizes=[16, 32, 48, 64],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 3, 4],
            decoder_hidden_size=32,
            num_labels=5,
        )
        self.model = transformers.SegformerForSemanticSegmentation(config)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(pixel_values=x).logits


_SENTENCES = {0: "batch", 1: "length"}
_PICTURES = {0: "batch", 2: "height", 3: "width"}
_PAST = {0: "batch", 2: "past"}


def _sentences(batch: int, length: int) -> dict[str, Tensor]:
    return {"ids": _ids(batch, length), "mask": _mask(batch, length)}


FAMILIES = (
    Family(
        "bert",
        _Bert,
        _sentences,
        ((2, 9), (1, 5), (3, 17)),
        {"ids": _SENTENCES, "mask": _SENTENCES},
    ),
    Family(
        "gpt2",
        _Gpt2,
        _gpt2_inputs,
        ((2, 5, 3), (1, 7, 2), (3, 4, 11)),
        {
            "ids": _SENTENCES,
            **dict.fromkeys(("key0", "value0", "key1", "value1"), _PAST),
        },
    ),
    Family(
        "llama",
        _Llama,
        _sentences,
        ((2, 7), (1, 3), (3, 12)),
        {"ids": _SENTENCES, "mask": _SENTENCES},
    ),
    Family(
        "vit",
        _Vit,
        lambda batch: {"x": torch.randn(batch, 3, 32, 32)},
        ((2,), (1,), (5,)),
        {"x": {0: "batch"}},
    ),
    Family(
        "whisper",
        _Whisper,
        _whisper_inputs,
        ((2, 6), (1, 3), (3, 11)),
        {"x": {0: "batch"}, "ids": _SENTENCES, "mask": _SENTENCES},
    ),
    Family(
        "convnext",
        _ConvNext,
        lambda *size: {"x": torch.randn(size[0], 3, *size[1:])},
        ((2, 64, 64), (1, 64, 96), (3, 96, 32)),
        {"x": _PICTURES},
    ),
    Family(
        "unet",
        _Unet,
        _unet_inputs,
        ((2, 5), (1, 3), (3, 9)),
        {"x": {0: "batch"}, "text": _SENTENCES},
    ),
    Family(
        "lstm_tagger",
        _Tagger,
        lambda batch, length: {"ids": _ids(batch, length)},
        ((2, 11), (1, 5), (3, 8)),
        {"ids": _SENTENCES},
    ),
    Family(
        "t5",
        _T5,
        _t5_inputs,
        ((2, 9, 4), (1, 5, 3), (3, 17, 6)),
        {
            "ids": _SENTENCES,
            "mask": _SENTENCES,
            "written": {0: "batch", 1: "written"},
        },
    ),
    Family(
        "wav2vec2",
        _Wav2Vec2,
        lambda batch, length: {"x": torch.randn(batch, length)},
        ((2, 800), (1, 1234), (3, 501)),
        {"x": _SENTENCES},
    ),
    Family(
        "segformer",
        _Segformer,
        lambda *size: {"x": torch.randn(size[0], 3, *size[1:])},
        ((2, 64, 64), (1, 64, 96), (3, 96, 32)),
        {"x": _PICTURES},
    ),
)
