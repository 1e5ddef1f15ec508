"""The overlap against plain loops, and against the figures computed for uniform points."""

import pytest
import torch
from studies.locality import slow

from zeta_core.errors import OptionError
from zeta_core.studies.locality.overlap import among, curve_neighbours, nearest_points, shares
from zeta_core.studies.locality.points import POINTS, draw

COMPUTED = {1: (96, 95), 2: (61, 56), 3: (54, 46), 32: (19, 9), 128: (16, 5)}
"""Per cent, for uniform points, at 512 and 2,048: computed before this was written, by another program."""


def overlap(cloud, number, curves=1, bits=12):
    found = curve_neighbours(cloud.coords, number, curves=curves, num_bits=bits)
    return float(among(nearest_points(cloud.space, number), found).double().mean())


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize(
    ("d_k", "curves", "bits", "number"),
    [(1, 1, 12, 6), (2, 1, 3, 5), (3, 1, 12, 7), (3, 3, 12, 8), (3, 6, 12, 8), (3, 6, 2, 13), (7, 1, 12, 1)],
)
def test_overlap_agrees_with_plain_loops(points, d_k, curves, bits, number):
    cloud = draw(points, 40, d_k, seed=1)
    expected = slow.overlap(cloud.space.double().tolist(), cloud.coords.tolist(), number, curves, bits)
    assert overlap(cloud, number, curves, bits) == pytest.approx(expected, abs=1e-12)


def test_the_sets_agree_with_plain_loops_where_points_are_equal():
    coords = (torch.randint(0, 3, (50, 3), generator=torch.Generator().manual_seed(0)) / 4).float()
    places = coords.tolist()
    nearest = nearest_points(coords, 9).tolist()
    assert [set(row) for row in nearest] == slow.true_neighbours(places, 9)
    found = curve_neighbours(coords, 9, curves=3, num_bits=12).tolist()
    assert [set(row) for row in found] == slow.curve_neighbours(places, 9, 3, 12)


@pytest.mark.parametrize("d_k", [1, 2, 3])
def test_uniform_points_have_the_computed_overlap(d_k):
    for seq_len, expected in zip((512, 2048), COMPUTED[d_k], strict=True):
        seeds = range(4 if seq_len == 512 else 1)
        measured = [100 * overlap(draw("uniform", seq_len, d_k, seed), 64) for seed in seeds]
        assert abs(sum(measured) / len(measured) - expected) < 2, (seq_len, measured)


@pytest.mark.parametrize("d_k", [32, 128])
def test_uniform_points_of_many_dimensions_have_the_computed_overlap(d_k):
    assert abs(100 * overlap(draw("uniform", 512, d_k, seed=0), 64) - COMPUTED[d_k][0]) < 2


@pytest.mark.parametrize("points", ["uniform", "projected"])
def test_blocks_do_not_change_the_neighbours(points):
    space = draw(points, 333, 3, seed=2).space
    whole = nearest_points(space, 20)
    assert torch.equal(whole, nearest_points(space, 20, block_bytes=1))
    assert torch.equal(whole, nearest_points(space, 20, block_bytes=2_000_000))


def test_blocks_bound_memory(monkeypatch):
    from zeta_core.studies.locality import overlap as module

    compared = []

    def distances(q, k):
        compared.append(len(q))
        return torch.cdist(q, k)

    monkeypatch.setattr(module, "squared_distances", distances)
    nearest_points(torch.rand(1000, 2), 4, block_bytes=64 * 1000 * module.PAIR_BYTES)
    assert max(compared) == 64 and sum(compared) == 1000


def test_a_curve_gives_a_point_as_many_others_as_were_asked_for():
    coords = torch.rand(70, 3)
    found = curve_neighbours(coords, 64, curves=1, num_bits=12)
    assert all(len(set(row)) == 64 and place not in row for place, row in enumerate(found.tolist()))
    several = curve_neighbours(coords, 64, curves=6, num_bits=12).tolist()
    assert all(len(row) == 64 > len(set(row)) and place not in row for place, row in enumerate(several))


def test_curves_share_the_neighbours():
    assert shares(64, 1) == [64] and shares(64, 3) == [22, 21, 21] and shares(64, 6) == [11, 11, 11, 11, 10, 10]
    with pytest.raises(OptionError, match="needs d_k=3"):
        curve_neighbours(torch.rand(20, 2), 6, curves=3, num_bits=12)


def test_among():
    wanted = torch.tensor([[3, 5, -1], [0, 2, 9]])
    found = torch.tensor([[5, -1, 5, 7], [2, 9, 0, 0]])
    assert among(wanted, found).tolist() == [[False, True, False], [True, True, True]]
