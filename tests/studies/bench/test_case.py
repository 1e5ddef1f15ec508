"""The points are what their names say."""

import torch
from studies.bench.shapes import shape

from zeta_core.studies.bench.case import POINTS, coordinates, vectors

CPU = torch.device("cpu")


def test_points_are_what_their_names_say():
    torch.manual_seed(0)
    found = {name: coordinates(shape(points=name, seq_len=300), CPU) for name in POINTS}
    assert all(
        side.shape == (1, 2, 300, 3) and side.dtype == torch.float32 for pair in found.values() for side in pair
    )
    assert len(found["vocabulary"][0].reshape(-1, 3).unique(dim=0)) <= 64
    assert len(torch.cat(found["equal"]).reshape(-1, 3).unique(dim=0)) == 1
    assert ((found["clusters"][0] - 0.5).abs() > 0.39).all()
    assert (found["drifting"][1][..., 150:, :].mean() - found["drifting"][1][..., :150, :].mean()) > 0.4
    assert 0.4 < found["random"][0].mean() < 0.6
    assert all(side.min() >= 0 and side.max() <= 1 for pair in found.values() for side in pair)


def test_inputs_come_from_the_seed_alone():
    torch.manual_seed(3)
    first = [*coordinates(shape(), CPU), *vectors(shape(dtype="bf16"), CPU, 2)]
    torch.manual_seed(3)
    again = [*coordinates(shape(), CPU), *vectors(shape(dtype="bf16"), CPU, 2)]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert first[2].dtype == torch.bfloat16 and first[2].shape == (1, 2, 48, 16)
