"""Embedding, blocks and head: a decoder that labels tokens, or an encoder that classifies sequences."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from zeta_core.attention import AttentionConfig
from zeta_core.config import Config
from zeta_core.errors import OptionError, ShapeError
from zeta_core.ops.impl import Impl

from .block import Block

POSITION_STD = 0.02


class ModelConfig(Config):
    """The network around the mixers."""

    d_model: PositiveInt = 64
    num_layers: PositiveInt = 2
    num_heads: PositiveInt = 2
    d_mlp: PositiveInt | None = None
    """Width of the MLP; None: 4 d_model."""
    short_conv: NonNegativeInt = 3
    """Width of the convolution on the mixer's input; 0: none."""
    positions: Literal["learned", "none"] = "learned"
    form: Literal["decoder", "encoder"] = "decoder"
    """decoder: causal. encoder: every token sees every other."""
    pooling: Literal["mean", "cls"] = "mean"
    """How a classifier sums up a sequence."""
    dropout: float = Field(default=0.0, ge=0, lt=1)

    def build(
        self,
        attention: AttentionConfig,
        *,
        vocab_size: int,
        max_len: int,
        num_classes: int | None = None,
        impl: Impl = "auto",
    ) -> Network:
        """The network for tokens 0..vocab_size-1 and sequences of up to max_len.

        num_classes None: token logits over the vocabulary; else one set of class logits a sequence.
        Raises: OptionError if num_heads does not divide d_model."""
        return Network(self, attention, vocab_size=vocab_size, max_len=max_len, num_classes=num_classes, impl=impl)


class Network(nn.Module):
    """Pre-norm blocks between an embedding and a head.

    Token logits use the embedding's own weights (tied) and are computed at labelled positions only."""

    def __init__(
        self,
        config: ModelConfig,
        attention: AttentionConfig,
        *,
        vocab_size: int,
        max_len: int,
        num_classes: int | None = None,
        impl: Impl = "auto",
    ) -> None:
        super().__init__()
        d_model, causal = config.d_model, config.form == "decoder"
        if d_model % config.num_heads:
            raise OptionError(
                f"d_model={d_model} is not divisible by num_heads={config.num_heads}; choose one that is"
            )
        self.config = config
        self.has_cls = num_classes is not None and config.pooling == "cls"
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.max_len = max_len + self.has_cls
        self.positions = nn.Embedding(self.max_len, d_model) if config.positions == "learned" else None
        self.cls = nn.Parameter(torch.randn(d_model) * POSITION_STD) if self.has_cls else None
        self.blocks = nn.ModuleList(
            Block(
                d_model,
                attention.build(d_model, config.num_heads, causal=causal, impl=impl),
                d_mlp=config.d_mlp or 4 * d_model,
                short_conv=config.short_conv,
                dropout=config.dropout,
            )
            for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.classifier = None if num_classes is None else nn.Linear(d_model, num_classes)
        # Tied logits start with unit variance, and a token weighs more than its position: with both as small as
        # positions, recall is learned far later.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=POSITION_STD)

    def forward(
        self, tokens: Tensor, labelled: Tensor | None = None, key_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Logits: of the classes, [batch, num_classes], or of tokens, [labelled positions, vocab_size].

        tokens: [batch, seq_len] int64. labelled: [batch, seq_len] bool, where token logits are wanted (None:
        everywhere). key_padding_mask: [batch, seq_len] bool, True = ignore.
        Raises: ShapeError if the sequence is longer than max_len."""
        hidden = self.hidden(tokens, key_padding_mask)
        if self.classifier is not None:
            logits: Tensor = self.classifier(self.pooled(hidden, key_padding_mask))
            return logits
        hidden = hidden.flatten(0, 1) if labelled is None else hidden[labelled]
        return nn.functional.linear(hidden, self.embedding.weight)

    def hidden(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """The last hidden states, normed: [batch, seq_len, d_model]; one more with a CLS token."""
        hidden, mask = self.embed(tokens, key_padding_mask)
        for block in self.blocks:
            hidden = block(hidden, mask)
        normed: Tensor = self.norm(hidden)
        return normed

    def embed(self, tokens: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The first block's input and padding mask. CLS comes last, so that it sees all in the causal form too."""
        hidden: Tensor = self.embedding(tokens)
        if self.cls is not None:
            here = torch.arange(tokens.shape[1] + 1, device=tokens.device) == cls_place(tokens, key_padding_mask)
            hidden = torch.where(here[..., None], self.cls, nn.functional.pad(hidden, (0, 0, 0, 1)))
            if key_padding_mask is not None:
                key_padding_mask = nn.functional.pad(key_padding_mask, (0, 1), value=True) & ~here
        seq_len = hidden.shape[1]
        if self.positions is not None:
            if seq_len > self.max_len:
                raise ShapeError(f"{seq_len} tokens, but the model has learned positions for {self.max_len}")
            hidden = hidden + self.positions.weight[:seq_len]
        return hidden, key_padding_mask

    def pooled(self, hidden: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """[batch, d_model]: CLS, or the mean over the tokens that are not padded."""
        if self.has_cls:
            place = cls_place(hidden[:, 1:], key_padding_mask)
            return hidden.take_along_dim(place[..., None], dim=1)[:, 0]
        if key_padding_mask is None:
            return hidden.mean(1)
        keep = (~key_padding_mask)[..., None].to(hidden.dtype)
        return (hidden * keep).sum(1) / keep.sum(1).clamp(min=1)

    @torch.no_grad()
    def statistics(self, tokens: Tensor) -> dict[str, float]:
        """Each layer's statistics as `layer0.gamma`, `layer0.entropy`, ...: look at a few sequences only."""
        hidden, _ = self.embed(tokens, None)
        found = {}
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            inputs = block.mixer_input(hidden)
            found.update({f"layer{layer}.{name}": value for name, value in block.mixer.statistics(inputs).items()})
            hidden = block(hidden)
        return found

    def num_parameters(self, *, embeddings: bool = False) -> int:
        """Trained parameters, without those of the embeddings unless asked for."""
        tables = {id(t.weight) for t in (self.embedding, self.positions) if t is not None}
        return sum(p.numel() for p in self.parameters() if p.requires_grad and (embeddings or id(p) not in tables))


def cls_place(tokens: Tensor, key_padding_mask: Tensor | None) -> Tensor:
    """Where CLS stands: [batch, 1] int64, behind the last token that is not padded, whatever the padding's length."""
    end = torch.full((len(tokens), 1), tokens.shape[1], device=tokens.device)
    if key_padding_mask is None:
        return end
    return end - (~key_padding_mask).flip(-1).to(torch.uint8).argmax(-1, keepdim=True)
