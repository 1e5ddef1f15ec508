"""Which keys each query sees, against sorted lists and bisection."""

import pytest
import torch
from hypothesis import example, given
from ops import brute_force
from ops.cases import FEW, POINTS, Case, make, padding, plan_cases, points

from zeta_core.errors import OptionError, ShapeError
from zeta_core.ops import blocks, zeta_plan
from zeta_core.ops.windows import chunk_length, plan_windows, reference


def case(kind="tied", seed=0, seq_len=24, d_k=3, batch=2, **options) -> Case:
    q, k, v = make(seed, batch=batch, seq_len=seq_len, d_k=d_k, kind=kind)
    return Case(q, k, v, 0.5, plan_options={"chunk_size": 5, "top_k": 6, **options})


def on_a_line(q: list[float], k: list[float], **options) -> list[list[int]]:
    """The positions that queries find, with one coordinate and the first queries in the first chunk."""
    shape = (1, 1, -1, 1)
    found = zeta_plan(torch.tensor(q).view(shape), torch.tensor(k).view(shape), **options).indices()
    return found[0, 0].tolist()


@given(case=plan_cases())
@example(case=case(curves=6, refine=3, key_padding_mask=padding(2, 24, 1)))
@example(case=case("spread", seq_len=1))
@example(case=case(d_k=128, refine=2))
@FEW
def test_indices_equal_brute_force(case):
    found = zeta_plan(*case.codes, **case.plan_options).indices()
    assert found.dtype == torch.int64
    assert torch.equal(found, brute_force.select(*case.codes, **case.plan_options))


@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("d_k", [1, 2, 3, 4, 5, 6, 7, 16, 128])
def test_indices_equal_brute_force_in_every_dimension(d_k, kind):
    one = case(kind, d_k=d_k, refine=2, batch=1)
    assert torch.equal(
        zeta_plan(*one.codes, **one.plan_options).indices(), brute_force.select(*one.codes, **one.plan_options)
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("curves", [1, 3, 6])
@pytest.mark.parametrize("refine", [1, 2, 5])
@pytest.mark.parametrize("padded", [False, True])
def test_indices_equal_brute_force_with_ties(curves, refine, padded, causal):
    mask = padding(2, 24, 7) if padded else None
    one = case(curves=curves, refine=refine, causal=causal, key_padding_mask=mask)
    assert torch.equal(
        zeta_plan(*one.codes, **one.plan_options).indices(), brute_force.select(*one.codes, **one.plan_options)
    )


def test_the_window_starts_half_of_k_before_the_query():
    keys = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    late = [0.0] * 8 + [0.45, 0.0, 1.0, 0.21, 0.79, 0.45, 0.45, 0.45]
    found = on_a_line(late, keys + [0.0] * 8, chunk_size=8, top_k=3)
    assert found[8:13] == [[3, 4, 5], [0, 1, 2], [5, 6, 7], [1, 2, 3], [5, 6, 7]]
    assert on_a_line(late, keys + [0.0] * 8, chunk_size=8, top_k=4)[8] == [2, 3, 4, 5]
    assert on_a_line(late, keys + [0.0] * 8, chunk_size=8, top_k=1)[8] == [4]


def test_equal_codes_are_inserted_on_the_left_and_ordered_by_position():
    found = on_a_line([0.5] * 8, [0.9, 0.5, 0.5, 0.1, 0.5, 0.5, 0.5, 0.5], chunk_size=7, top_k=2)
    assert found[7] == [3, 1]
    assert on_a_line([0.5] * 8, [0.9, 0.5, 0.5, 0.1, 0.5, 0.5, 0.5, 0.5], chunk_size=7, top_k=1)[7] == [1]


def test_all_keys_are_taken_if_there_are_fewer_than_k():
    found = on_a_line([0.5, 0.5, 0.5], [0.9, 0.1, 0.5], chunk_size=1, top_k=4)
    assert found == [[-1] * 4, [0, -1, -1, -1], [1, 0, -1, -1]]


def test_the_own_chunk_and_later_ones_are_not_seen():
    one = case("spread", top_k=24)
    found = zeta_plan(*one.codes, **one.plan_options).indices()
    chunk = torch.arange(24) // 5
    seen = found.clamp(min=0)
    assert ((chunk[seen] < chunk[:, None]) | (found < 0)).all()
    assert ((found >= 0).sum(-1) == (chunk * 5)).all()


def test_every_key_is_seen_by_every_query_if_not_causal():
    one = case("spread", top_k=24, causal=False)
    found = zeta_plan(*one.codes, **one.plan_options).indices()
    assert torch.equal(found.sort(-1).values, torch.arange(24).expand(2, 2, 24, 24))


def test_a_key_found_by_several_curves_counts_once():
    one = case("spread", curves=6, top_k=12, causal=False)
    found = zeta_plan(*one.codes, **one.plan_options).indices()
    repeated = 0
    for row in found.flatten(0, -2).tolist():
        kept = [position for position in row if position >= 0]
        assert len(kept) == len(set(kept))
        assert -1 not in row[:2]
        repeated += row.count(-1)
    assert repeated > 0


def test_refine_keeps_the_nearest_in_curve_order_and_of_equals_the_first():
    # The four keys are 3, 1, 1 and 2 cells from the query; the two nearest are equally near.
    cells = torch.tensor([100 - 3, 100 - 1, 100 + 1, 100 + 2, 100])
    coords = ((cells + 0.5) / 4096).tolist()
    found = on_a_line([0.0] * 4 + coords[4:], coords, chunk_size=4, top_k=1, refine=4)
    assert found[4] == [1]
    assert on_a_line([0.0] * 4 + coords[4:], coords, chunk_size=4, top_k=2, refine=2)[4] == [1, 2]
    assert on_a_line([0.0] * 4 + coords[4:], coords, chunk_size=4, top_k=3, refine=2)[4] == [1, 2, 3]


def test_refine_is_exact_where_floats_would_round():
    # In 128 dimensions squared distances reach 2^31; here they differ by 3, less than float32 resolves.
    cells = torch.full((3, 128), 4095)
    cells[:, 5] = torch.tensor([1, 2, 0])
    query = torch.zeros(3, 128, dtype=torch.int64)
    query[:, 5] = 3
    code_q, code_k = (((t + 0.5) / 4096).view(1, 1, 3, 128) for t in (query, cells))
    found = zeta_plan(code_q, code_k, chunk_size=2, top_k=1, refine=2).indices()
    assert found[0, 0, 2].tolist() == [1]


def test_padded_keys_are_not_searched():
    mask = padding(2, 24, 3)
    one = case(curves=3, key_padding_mask=mask)
    found = zeta_plan(*one.codes, **one.plan_options).indices()
    for b in range(2):
        ignored = set(mask[b].nonzero().flatten().tolist())
        assert not ignored & set(found[b].flatten().tolist())
    assert (found[1] == -1).all()


def test_a_query_at_a_padded_place_searches_like_any_other():
    mask = torch.zeros(2, 24, dtype=torch.bool)
    mask[:, 20:] = True
    with_mask, without = case(key_padding_mask=mask), case()
    # In the last chunk the keys that are seen, 0..19, are not padded.
    a, b = (zeta_plan(*one.codes, **one.plan_options).indices() for one in (with_mask, without))
    assert torch.equal(a, b)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("options", [{"curves": 6, "refine": 2}, {"curves": 1}, {"causal": False, "curves": 3}])
def test_small_blocks_find_the_same_keys(monkeypatch, options, padded):
    one = case("tied", seq_len=200, chunk_size=90, **options)
    if padded:
        one.plan_options["key_padding_mask"] = padding(2, 200, 1)
    whole = zeta_plan(*one.codes, **one.plan_options).indices()
    monkeypatch.setattr(reference, "query_blocks", one_at_a_time)
    assert torch.equal(zeta_plan(*one.codes, **one.plan_options).indices(), whole)


def one_at_a_time(start: int, stop: int, bytes_per_query: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(start, stop)]


def test_query_blocks_cover_every_query_once():
    cut = blocks.query_blocks(3, 400, bytes_per_query=10, budget=1300)
    assert cut == [(3, 131), (131, 259), (259, 387), (387, 400)]
    assert blocks.query_blocks(0, 5, bytes_per_query=10**12) == [(0, 5)]
    assert blocks.query_blocks(4, 4, bytes_per_query=1) == []


@pytest.mark.parametrize(
    ("seq_len", "options", "length"),
    [
        (64, {"num_chunks": 8, "chunk_size": None}, 8),
        (65, {"num_chunks": 8, "chunk_size": None}, 9),
        (5, {"num_chunks": 100, "chunk_size": None}, 1),
        (0, {"num_chunks": 8, "chunk_size": None}, 1),
        (64, {"num_chunks": 8, "chunk_size": 17}, 17),
    ],
)
def test_chunk_length_is_given_or_rounded_up(seq_len, options, length):
    assert chunk_length(seq_len, **options) == length


def codes(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@pytest.mark.parametrize(
    ("q_codes", "k_codes", "options", "error", "message"),
    [
        (codes(1, 1, 4, 1), codes(1, 1, 4, 1), {}, ShapeError, "must both be"),
        (codes(1, 1, 1, 4, 1), codes(1, 1, 1, 5, 1), {}, ShapeError, r"k_codes \[1, 1, 1, 5, 1\] must both be"),
        (
            codes(3, 1, 1, 4, 1),
            codes(3, 1, 1, 4, 1),
            {"top_k": 4},
            OptionError,
            "top_k=4 is not divisible by curves=3",
        ),
        (codes(1, 1, 1, 4, 1), codes(1, 1, 1, 4, 1), {"refine": 0}, OptionError, "refine=0"),
        (codes(1, 1, 1, 4, 1), codes(1, 1, 1, 4, 1), {"chunk_size": 0}, OptionError, "chunk_size=0"),
        (codes(1, 1, 1, 4, 1), codes(1, 1, 1, 4, 1), {"refine": 2}, OptionError, "needs q_cells and k_cells"),
    ],
)
def test_bad_codes_and_options_are_refused(q_codes, k_codes, options, error, message):
    with pytest.raises(error, match=message):
        plan_windows(q_codes, k_codes, **{"top_k": 3, "chunk_size": 2, **options})


def test_codes_of_several_words_may_be_planned_directly():
    words = torch.tensor([[0, 5], [0, 3], [1, 0], [0, 3], [0, 4]]).view(1, 1, 1, 5, 2)
    found = plan_windows(words, words, top_k=3, chunk_size=4).indices()
    # The keys in order are 1, 3, 0, 2; two of them are below the query's (0, 4).
    assert found[0, 0, 4].tolist() == [3, 0, 2]


def test_points_of_the_same_cell_share_a_window():
    same = points("edges", (1, 1, 20, 3), seed=2)
    same[0, 0, 10:] = same[0, 0, 10] + torch.arange(10)[:, None] * 1e-6
    found = zeta_plan(same, same, chunk_size=10, top_k=4).indices()[0, 0, 10:]
    assert (found == found[0]).all()
