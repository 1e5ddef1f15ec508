"""Time per new token after texts of several lengths: python -m zeta_core.generate.benchmark --seq 4096,65536

A decoder with random weights; a whole chunk of new tokens is timed at each length, so that the merge of a chunk is
among them. `prompt` is one forward over the text and making the state from it."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from zeta_core.attention import AttentionConfig, SoftmaxConfig, ZetaConfig
from zeta_core.errors import DeviceError, OptionError, RequestError
from zeta_core.model import ModelConfig

from .state import decoding_state

VOCAB = 257
WARM_UP, TURN = 8, 32
"""Tokens that are not timed, and tokens behind one length before it is the next one's turn."""


@dataclass(frozen=True)
class Timing:
    """Of new tokens after seq_len others; each in ms, but for the prompt in seconds."""

    seq_len: int
    prompt_s: float
    steps_ms: list[float]

    def line(self, name: str) -> str:
        """As a line of the table: median, 20th and 80th percentile, mean, slowest."""
        fifths = statistics.quantiles(self.steps_ms, n=5)
        times = (statistics.median(self.steps_ms), fifths[0], fifths[3], statistics.mean(self.steps_ms))
        shown = "".join(f"{value:10.3f}" for value in (*times, max(self.steps_ms)))
        return f"{name:<10}{self.seq_len:>9,}{shown}{self.prompt_s:10.2f}"


HEADER = (
    f"{'':<10}{'tokens':>9}{'median ms':>10}{'20 %':>10}{'80 %':>10}{'mean ms':>10}{'slowest':>10}{'prompt s':>10}"
)


def growth(name: str, short: Timing, long: Timing) -> str:
    """One line on how much longer a token takes behind the longer text."""
    median, mean = (of(long.steps_ms) / of(short.steps_ms) for of in (statistics.median, statistics.mean))
    return (
        f"{name}: a token behind {long.seq_len:,} others takes {median:.2f} times as long as behind "
        f"{short.seq_len:,} (median; {mean:.2f} times in the mean)"
    )


def measure(
    attention: AttentionConfig, model: ModelConfig, seq_lens: Sequence[int], steps: int, device: torch.device
) -> list[Timing]:
    """Time a prompt of each length and `steps` tokens behind each, one sequence.

    The lengths take turns, so that whatever else the machine does meets them all."""
    torch.manual_seed(0)
    network = model.build(attention, vocab_size=VOCAB, max_len=1).to(device).eval()
    states = [decoding_state(network) for _ in seq_lens]
    found = []
    for state, seq_len in zip(states, seq_lens, strict=True):
        prompt = torch.randint(VOCAB, (1, seq_len), device=device)
        found.append(Timing(seq_len, timed(partial(state.prefill, prompt), device), []))
    for done in range(0, WARM_UP + steps, TURN):
        tokens = torch.randint(VOCAB, (min(TURN, WARM_UP + steps - done), 1), device=device)
        for state, timing in zip(states, found, strict=True):
            timing.steps_ms.extend(timed(partial(state.step, token), device) * 1000 for token in tokens)
    return [Timing(one.seq_len, one.prompt_s, one.steps_ms[WARM_UP:]) for one in found]


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds that a call took, a GPU's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0")
    return int(text)


def numbers(text: str) -> list[int]:
    """`4096,65536` as numbers, ascending. Raises: OptionError."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise OptionError(f"--seq {text!r}: must be whole numbers above 0 by commas, like 4096,65536")
    return sorted({int(word) for word in words})


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seq", default="4096,65536", help="lengths of the text before, by commas")
    parser.add_argument("--attention", choices=("zeta", "softmax", "both"), default="both")
    parser.add_argument("--chunk", type=positive, default=512, help="attention.chunk_size of ZETA (default: 512)")
    parser.add_argument("--steps", type=positive, help="new tokens that are timed (default: a chunk)")
    parser.add_argument("--d-model", type=positive, default=128)
    parser.add_argument("--layers", type=positive, default=2)
    parser.add_argument("--heads", type=positive, default=4)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args(argv)
    try:
        shape = {"d_model": given.d_model, "num_layers": given.layers, "num_heads": given.heads}
        model = ModelConfig.model_validate({**shape, "positions": "none"})
        mixers: dict[str, AttentionConfig] = {"zeta": ZetaConfig(chunk_size=given.chunk), "softmax": SoftmaxConfig()}
        lengths, device = numbers(given.seq), torch.device(given.device)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError("--device cuda: this machine has no CUDA GPU; use cpu")
        wanted = [name for name in mixers if given.attention in (name, "both")]
        print(
            f"{given.device}, {torch.get_num_threads()} threads, torch {torch.__version__}; {given.layers} layers of "
            f"{given.d_model}, {given.heads} heads; ZETA with chunks of {given.chunk}; one sequence, fp32"
        )
        print(HEADER)
        for name in wanted:
            found = measure(mixers[name], model, lengths, given.steps or given.chunk, device)
            for timing in found:
                print(timing.line(name), flush=True)
            if len(found) > 1:
                print(growth(name, found[0], found[-1]))
    except RequestError as error:
        print(f"zeta: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
