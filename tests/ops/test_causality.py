"""No output depends on the future, not even in its last bit, and a prefix has the output of the prefix."""

import pytest
import torch
from ops.cases import (
    SCORES,
    make,
    one_thread,  # noqa: F401 (an automatic fixture)
    padding,
)

from zeta_core.ops import zeta_attention, zeta_plan

SEQ_LEN = 80  # more than one block of 64, in which the history mean is summed
OPTIONS = {
    "plain": {},
    "without history": {"history_mean": False},
    "three curves": {"curves": 3},
    "six curves, refined": {"curves": 6, "refine": 2},
    "refined": {"refine": 3},
    "local window": {"local_window": 5},
    "local window, refined, no history": {"local_window": 5, "refine": 2, "history_mean": False},
    "everything": {"curves": 3, "refine": 2, "local_window": 4, "key_padding_mask": padding(3, SEQ_LEN, 1)[:2]},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
every_score = pytest.mark.parametrize("score", SCORES)


def future(seed: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys and queries that crowd around those of the past, and huge values."""
    q, k, v = make(seed, seq_len=SEQ_LEN, dtype=dtype)
    return 1 - k, q, v * 1e6


@every_option
@every_score
@pytest.mark.parametrize("changed", ["q", "k", "v", "qkv"])
def test_earlier_rows_do_not_depend_on_the_future(score, options, changed):
    given = dict(zip("qkv", make(1, seq_len=SEQ_LEN, dtype=torch.float32), strict=True))
    other = dict(zip("qkv", future(1, torch.float32), strict=True))
    options = {"gamma": 0.2, "chunk_size": 9, "top_k": 6, "score": score, **options}
    before = zeta_attention(**given, **options)
    for first in (1, 40, 71):
        altered = {name: tensor.clone() for name, tensor in given.items()}
        for name in changed:
            altered[name][:, :, first:] = other[name][:, :, first:]
        after = zeta_attention(**altered, **options)
        assert torch.equal(after[:, :, :first], before[:, :, :first])
        assert not torch.equal(after[:, :, first:], before[:, :, first:])


@every_option
def test_the_selection_does_not_depend_on_the_future(options):
    options = {name: value for name, value in options.items() if name not in ("history_mean", "local_window")}
    q, k, _ = make(1, seq_len=SEQ_LEN)
    new_q, new_k, _ = future(1, torch.float64)
    options = {"chunk_size": 9, "top_k": 6, **options}
    before = zeta_plan(q, k, **options).indices()
    for first in (1, 40, 71):
        after = zeta_plan(
            *(torch.cat((a[:, :, :first], b[:, :, first:]), 2) for a, b in ((q, new_q), (k, new_k))), **options
        )
        assert torch.equal(after.indices()[:, :, :first], before[:, :, :first])


def test_the_selection_depends_on_the_past():
    q, k, _ = make(1, seq_len=SEQ_LEN)
    options = {"chunk_size": 9, "top_k": 4}
    before = zeta_plan(q, k, **options).indices()
    assert not torch.equal(zeta_plan(q, 1 - k, **options).indices(), before)
    assert not torch.equal(zeta_plan(1 - q, k, **options).indices(), before)


@every_option
@every_score
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_a_fixed_chunk_size_a_prefix_of_the_output_is_the_output_of_the_prefix(score, options, dtype):
    q, k, v = make(1, seq_len=SEQ_LEN, dtype=dtype)
    options = {"gamma": 0.2, "chunk_size": 9, "top_k": 6, "score": score, **options}
    whole = zeta_attention(q, k, v, **options)
    mask = options.pop("key_padding_mask", None)
    for length in (1, 10, 64, 71):
        cut = {} if mask is None else {"key_padding_mask": mask[:, :length]}
        prefix = zeta_attention(*(t[:, :, :length] for t in (q, k, v)), **options, **cut)
        assert torch.equal(prefix, whole[:, :, :length])


def test_with_num_chunks_a_prefix_of_the_output_is_not_the_output_of_the_prefix():
    q, k, v = make(1, seq_len=SEQ_LEN)
    options = {"gamma": 0.2, "num_chunks": 4, "top_k": 6, "history_mean": False}
    whole = zeta_attention(q, k, v, **options)
    prefix = zeta_attention(*(t[:, :, :40] for t in (q, k, v)), **options)
    # Of 80 tokens the first 20 see nothing; of 40 the first 10.
    assert (whole[:, :, 10:20] == 0).all() and (prefix[:, :, 10:20] != 0).all()


def test_num_chunks_is_the_chunk_size_that_it_stands_for():
    q, k, v = make(1, seq_len=21)
    assert torch.equal(
        zeta_attention(q, k, v, gamma=0.2, num_chunks=4), zeta_attention(q, k, v, gamma=0.2, chunk_size=6)
    )
