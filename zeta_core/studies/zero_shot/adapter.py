"""A trained decoder as a model of lm-evaluation-harness."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from torch import Tensor

from zeta_core.generate import Sampling, decoding_state, generate
from zeta_core.generate.cache import why_rerun
from zeta_core.generate.state import blocks
from zeta_core.model import Network
from zeta_core.tasks.tokenizers import Tokenizer

BATCH_TOKENS = 16_384
Request = tuple[tuple[str, str], list[int], list[int]]


class ZetaLM(TemplateLM):  # type: ignore[misc]
    """Log likelihoods of continuations, in nats, by a network and its tokenizer.

    A text without a context follows the separator token. What is longer than `max_len` tokens loses its first ones;
    `cut` counts such texts. done: called with the number of texts scored since the last call."""

    def __init__(
        self, network: Network, tokenizer: Tokenizer, *, done: Callable[[int], None] = lambda number: None
    ) -> None:
        super().__init__()
        self.network, self.tokenizer, self.done = network.eval(), tokenizer, done
        self.cut = 0
        # Where the length decides what a token sees, as with chunks by number, padding changes what is before it.
        self.may_pad = all(why_rerun(mixer) is None for mixer in mixers(network))

    @property
    def eot_token_id(self) -> int:
        """The token between documents."""
        return self.tokenizer.separator

    @property
    def tokenizer_name(self) -> str:
        """What the harness keeps its caches apart by."""
        return self.tokenizer.identity

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """A text's tokens; none is added."""
        return [int(token) for token in self.tokenizer.encode(string)]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """As the harness has it, without its bar."""
        found: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
        return found

    @torch.no_grad()
    def _loglikelihood_tokens(self, requests: list[Request], **kwargs: Any) -> list[tuple[float, bool]]:
        """For each context and continuation: the continuation's log likelihood, and whether it is the likeliest."""
        longest = self.network.max_len + 1  # the last token is guessed, not read
        texts = []
        for _, context, continuation in requests:
            whole = [*context, *continuation]
            self.cut += len(whole) > longest
            scored = min(len(continuation), longest - 1)
            texts.append((whole[-longest:], scored))
        found: list[tuple[float, bool]] = [(0.0, True)] * len(texts)
        for batch in self._batches(texts):
            for number, score in zip(batch, self._scores([texts[number] for number in batch]), strict=True):
                found[number] = score
            self.done(len(batch))
        return found

    def _batches(self, texts: Sequence[tuple[list[int], int]]) -> Iterator[list[int]]:
        """The texts' numbers, those of like length together: of one length alone where padding would tell."""
        order = sorted((number for number in range(len(texts)) if texts[number][1]), key=lambda n: -len(texts[n][0]))
        batch: list[int] = []
        for number in order:
            first = len(texts[batch[0]][0]) if batch else 0
            other = batch and not self.may_pad and len(texts[number][0]) != first
            if other or (len(batch) + 1) * first > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def _scores(self, texts: Sequence[tuple[list[int], int]]) -> Iterator[tuple[float, bool]]:
        """The scores of texts that fit one batch; the last tokens of each, as many as its number says, are scored."""
        device = self.network.embedding.weight.device
        width = max(len(tokens) for tokens, _ in texts) - 1
        inputs = torch.full((len(texts), width), self.tokenizer.separator)
        places, answers = [], []
        for row, (tokens, scored) in enumerate(texts):
            last = len(tokens) - 1
            inputs[row, :last] = torch.tensor(tokens[:-1])
            places.append(row * width + torch.arange(last - scored, last))
            answers.append(torch.tensor(tokens[-scored:]))
        logits = self.network(inputs.to(device), torch.cat(places).to(device)).float()
        answer = torch.cat(answers).to(device)
        nats = -torch.nn.functional.cross_entropy(logits, answer, reduction="none").double()
        sizes = [len(each) for each in answers]
        likeliest = torch.split(logits.argmax(-1) == answer, sizes)
        for each, hits in zip(torch.split(nats, sizes), likeliest, strict=True):
            yield float(each.sum()), bool(hits.all())

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Log likelihoods of whole texts, in windows of max_len tokens that do not overlap."""
        found = []
        for (text,) in (request.args for request in requests):
            tokens, length = self.tok_encode(text), self.network.max_len
            windows: list[Request] = []
            for start in range(0, len(tokens), length):
                before = [tokens[start - 1]] if start else [self.eot_token_id]
                windows.append((("", ""), before, tokens[start : start + length]))
            found.append(sum(score for score, _ in self._loglikelihood_tokens(windows)))
        return found

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The likeliest continuation token by token, up to one of the texts in `until`."""
        found = []
        for context, options in (request.args for request in requests):
            until = options.get("until") or []
            room = min(int(options.get("max_gen_toks", 256)), self.network.max_len - 1)
            prompt = (self.tok_encode(context) or [self.eot_token_id])[-(self.network.max_len - room) :]
            tokens: list[int] = []
            text = ""
            greedy = Sampling(temperature=0.0)
            new = generate(decoding_state(self.network), prompt, sampling=greedy, max_tokens=room)
            for token in itertools.takewhile(lambda one: one != self.eot_token_id, new):
                tokens.append(token)
                text = self.tokenizer.decode(tokens)
                if any(end in text for end in until):
                    break
            for end in until:
                text = text.split(end)[0]
            found.append(text)
        return found


def mixers(network: Network) -> list[Any]:
    """Each layer's mixer."""
    return [block.mixer for block in blocks(network)]


def set_gamma(network: Network, gamma: str, start: float) -> None:
    """Change gamma of all layers: `reset` to where training starts it (its logit), or a number; `trained` leaves it.

    start: the logit of the start. Layers without a gamma stay as they are."""
    for mixer in mixers(network):
        if gamma == "trained" or not hasattr(mixer, "gamma_logit"):
            continue
        if gamma != "reset":
            mixer.gamma_logit = None
            mixer.config = mixer.config.model_copy(update={"gamma": float(gamma)})
        elif mixer.gamma_logit is not None:
            mixer.gamma_logit.data.fill_(start)


def gammas_of(network: Network) -> list[Tensor]:
    """gamma of each layer that has one: [heads] float32."""
    return [mixer.gamma() for mixer in mixers(network) if hasattr(mixer, "gamma_logit")]
