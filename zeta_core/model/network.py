"""Embedding, blocks and head: a decoder that labels tokens, or an encoder that classifies sequences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, Self

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zeta_core.attention import AttentionConfig
from zeta_core.config import Config, added_later
from zeta_core.errors import OptionError, ShapeError
from zeta_core.ops.impl import Impl

from .block import Block, MlpKind, NormKind, default_width, make_norm
from .heads import AdaptiveHead, PairHead

POSITION_STD = 0.02


class ModelConfig(Config):
    """The network around the mixers."""

    d_model: PositiveInt = 64
    num_layers: PositiveInt = 2
    num_heads: PositiveInt = 2
    d_mlp: PositiveInt | None = None
    """Width of the MLP; None: 4 d_model, or 8/3 d_model of swiglu."""
    mlp: MlpKind = Field(default="gelu", json_schema_extra=added_later("gelu"))
    norm: NormKind = Field(default="layer", json_schema_extra=added_later("layer"))
    """swiglu, rms and attention.rotary with positions=none: a LLaMA-like Transformer."""
    short_conv: NonNegativeInt = 3
    """Width of the convolution on the mixer's input; 0: none."""
    positions: Literal["learned", "none"] = "learned"
    head: Literal["tied", "adaptive"] = Field(default="tied", json_schema_extra=added_later("tied"))
    """How tokens are told: by the embedding's own weights, or by adaptive softmax, for words ordered by frequency."""
    cutoffs: tuple[PositiveInt, ...] = Field(
        default=(20_000, 60_000), json_schema_extra=added_later([20_000, 60_000])
    )
    """Where the rarer words of the adaptive softmax begin."""
    form: Literal["decoder", "encoder"] = "decoder"
    """decoder: causal. encoder: every token sees every other, unless `causal` is set."""
    causal: bool = Field(default=False, json_schema_extra=added_later(False))
    """An encoder whose tokens see only earlier ones: the paper does not say which form its classifiers had. Chunks by
    number then move with a batch's padding, as with any length; those of a fixed attention.chunk_size do not."""
    pooling: Literal["mean", "cls"] = "mean"
    """How a classifier sums up a sequence."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    match_parameters: PositiveInt | None = Field(default=None, json_schema_extra=added_later(None))
    """Trained parameters without embeddings that d_mlp is chosen for, so that mixers of other sizes compare."""

    @model_validator(mode="after")
    def _form_fits(self) -> Self:
        if self.match_parameters is not None and self.d_mlp is not None:
            raise OptionError(
                f"d_mlp={self.d_mlp} and match_parameters={self.match_parameters} are both set; give one"
            )
        if self.causal and self.form == "decoder":
            raise OptionError("causal=true is for form='encoder': a decoder is causal already; leave it out")
        return self

    @property
    def is_causal(self) -> bool:
        """Whether a token sees only earlier ones."""
        return self.causal or self.form == "decoder"

    def build(
        self,
        attention: AttentionConfig,
        *,
        vocab_size: int,
        max_len: int,
        num_classes: int | None = None,
        num_documents: Literal[1, 2] = 1,
        impl: Impl = "auto",
    ) -> Network:
        """The network for tokens 0..vocab_size-1 and sequences of up to max_len.

        num_classes None: token logits over the vocabulary; else one set of class logits a sequence, or one for the
        two documents of an example. Raises: OptionError if num_heads does not divide d_model, or match_parameters is
        too few for the mixer."""
        make = partial(
            Network,
            attention=attention,
            vocab_size=vocab_size,
            max_len=max_len,
            num_classes=num_classes,
            num_documents=num_documents,
            impl=impl,
        )
        return make(self if self.match_parameters is None else matched(self, make))


def matched(config: ModelConfig, make: Callable[[ModelConfig], Network]) -> ModelConfig:
    """The configuration with the d_mlp for which the network has the most nearly match_parameters parameters.

    They grow with d_mlp by the same number each time, so two networks tell; they draw none of the run's own random
    numbers. Raises: OptionError if it has more without an MLP, or misses by 5 %."""
    wanted, values = config.match_parameters, config.model_dump(exclude={"match_parameters"})
    assert wanted is not None
    with torch.random.fork_rng(devices=[]):
        one, two = (make(ModelConfig.model_validate({**values, "d_mlp": d})).num_parameters() for d in (1, 2))
    d_mlp = max(1, round((wanted - one) / (two - one)) + 1)
    found = one + (d_mlp - 1) * (two - one)
    if abs(found - wanted) > 0.05 * wanted:
        raise OptionError(
            f"match_parameters={wanted}: the nearest that this mixer comes to is {found} (with d_mlp={d_mlp})"
        )
    return ModelConfig.model_validate({**values, "d_mlp": d_mlp})


class Network(nn.Module):
    """Pre-norm blocks between an embedding and a head.

    Token logits are computed at labelled positions only, by the embedding's own weights or an adaptive softmax."""

    def __init__(
        self,
        config: ModelConfig,
        attention: AttentionConfig,
        *,
        vocab_size: int,
        max_len: int,
        num_classes: int | None = None,
        num_documents: Literal[1, 2] = 1,
        impl: Impl = "auto",
    ) -> None:
        super().__init__()
        d_model, d_mlp = config.d_model, config.d_mlp or default_width(config.mlp, config.d_model)
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
                attention.build(d_model, config.num_heads, causal=config.is_causal, impl=impl),
                d_mlp=d_mlp,
                short_conv=config.short_conv,
                dropout=config.dropout,
                norm=config.norm,
                mlp=config.mlp,
            )
            for _ in range(config.num_layers)
        )
        self.norm = make_norm(config.norm, d_model)
        self.checkpoint_activations = False
        """Keep each block's input alone for the backward pass, and compute the rest again."""
        self.adaptive: AdaptiveHead | None = None
        if config.head == "adaptive":
            if num_classes is not None:
                raise OptionError("head=adaptive tells tokens, and this task has classes; leave it out")
            self.adaptive = AdaptiveHead(d_model, vocab_size, config.cutoffs)
        self.classifier: nn.Linear | PairHead | None = None
        if num_classes is not None:
            paired = num_documents == 2
            self.classifier = (
                PairHead(d_model, num_classes, d_mlp=d_mlp) if paired else nn.Linear(d_model, num_classes)
            )
        # Tied logits start with unit variance, and a token weighs more than its position: with both as small as
        # positions, recall is learned far later.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=POSITION_STD)

    def forward(
        self,
        tokens: Tensor,
        labelled: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        second: Tensor | None = None,
        second_padding_mask: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> Tensor:
        """Logits: of the classes, [batch, num_classes], or of tokens, [labelled positions, vocab_size].

        tokens: [batch, seq_len] int64. labelled: [labels] int64, the flat positions b * seq_len + t where token
        logits are wanted (None: everywhere). key_padding_mask: [batch, seq_len] bool, True = ignore. second,
        second_padding_mask: the other document of each example, like tokens and mask, for a model built for two.
        targets: [labels] int64, the tokens there; an adaptive softmax then gives its `scores` instead, [labels, 2].
        Raises: ShapeError if the sequence is longer than max_len, or the second document is missing or too many."""
        if isinstance(self.classifier, PairHead) or second is not None:
            return self.of_pairs(tokens, key_padding_mask, second, second_padding_mask)
        hidden = self.hidden(tokens, key_padding_mask)
        if self.classifier is not None:
            logits: Tensor = self.classifier(self.pooled(hidden, key_padding_mask))
            return logits
        hidden = hidden.flatten(0, 1)
        if labelled is not None:
            hidden = hidden.index_select(0, labelled)
        if self.adaptive is not None and targets is not None:
            return self.adaptive.scores(hidden, targets)
        return self.token_logits(hidden)

    def token_logits(self, hidden: Tensor) -> Tensor:
        """[..., d_model], normed, to [..., vocab_size]: logits, or log probabilities of an adaptive softmax."""
        if self.adaptive is None:
            return nn.functional.linear(hidden, self.embedding.weight)
        flat: Tensor = self.adaptive(hidden.flatten(0, -2))
        return flat.view(*hidden.shape[:-1], -1)

    def of_pairs(
        self, first: Tensor, first_mask: Tensor | None, second: Tensor | None, second_mask: Tensor | None
    ) -> Tensor:
        """Class logits of pairs of documents, which the encoder sees as one batch of single ones."""
        if not isinstance(self.classifier, PairHead) or second is None or first.shape != second.shape:
            shapes = f"{list(first.shape)} and {None if second is None else list(second.shape)}"
            given = "two documents" if isinstance(self.classifier, PairHead) else "one document"
            raise ShapeError(f"the model is for {given} an example, of one shape; these are {shapes}")
        mask = None
        if first_mask is not None or second_mask is not None:
            masks = (first_mask, second_mask)
            mask = torch.cat([torch.zeros_like(first, dtype=torch.bool) if m is None else m for m in masks])
        encoded = self.pooled(self.hidden(torch.cat((first, second)), mask), mask)
        logits: Tensor = self.classifier(*encoded.chunk(2))
        return logits

    def hidden(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """The last hidden states, normed: [batch, seq_len, d_model]; one more with a CLS token."""
        hidden, mask = self.embed(tokens, key_padding_mask)
        for block in self.blocks:
            if self.checkpoint_activations and self.training:
                hidden = checkpoint(block, hidden, mask, use_reentrant=False)
            else:
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
