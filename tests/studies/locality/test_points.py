"""The four distributions are what their names say."""

import pytest
import torch

from zeta_core.studies.locality.points import CLUSTER_SPREAD, POINTS, draw


@pytest.mark.parametrize("points", POINTS)
def test_a_cloud_depends_on_its_arguments_alone(points):
    cloud = draw(points, 100, 3, seed=4)
    torch.manual_seed(5)
    assert all(torch.equal(*pair) for pair in zip(cloud[:2], draw(points, 100, 3, seed=4)[:2], strict=True))
    assert not torch.equal(cloud.coords, draw(points, 100, 3, seed=5).coords)
    assert not torch.equal(cloud.coords, draw(points, 200, 3, seed=4).coords[:100])
    assert cloud.coords.shape == (100, 3) and cloud.coords.min() >= 0 and cloud.coords.max() <= 1


def test_uniform_and_gaussian():
    uniform, gaussian = draw("uniform", 20_000, 2, 0), draw("gaussian", 20_000, 2, 0)
    assert uniform.squash == "none" and gaussian.squash == "sigmoid"
    assert abs(uniform.coords.var() - 1 / 12) < 2e-3
    raw = gaussian.coords.logit()
    assert abs(raw.mean()) < 0.02 and abs(raw.std() - 1) < 0.02 and gaussian.space is gaussian.coords


def test_clustered_points_are_close_to_one_of_sixteen_centres():
    raw = draw("clustered", 4000, 8, 0).coords.logit()
    far = torch.cdist(raw, raw).fill_diagonal_(torch.inf)
    # Squared distances inside a cluster are 2 * 8 * spread^2 on average, and between centres a hundred times that.
    near = far < 10 * CLUSTER_SPREAD
    assert 12 <= len({tuple(row) for row in near.fill_diagonal_(True).tolist()}) <= 16
    assert abs(near.double().mean() - 1 / 16) < 0.03


def test_projected_points_keep_their_neighbours_in_128_dimensions():
    one, eight = draw("projected", 300, 1, 0), draw("projected", 300, 8, 0)
    assert one.space.shape == (300, 128) and torch.equal(one.space, eight.space)
    raw = eight.coords.logit()
    assert abs(raw.std() - 1) < 0.1
    # A linear map: the raw coordinates are what 128 numbers a dimension make of the hidden ones.
    fitted = torch.linalg.lstsq(eight.space.double(), raw.double()).solution
    assert fitted.shape == (128, 8) and abs(fitted.std() - 128**-0.5) < 0.01
    assert torch.allclose(eight.space.double() @ fitted, raw.double(), atol=1e-3)
