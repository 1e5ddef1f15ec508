"""Pathfinder: classes checked by following drawn paths, the sheet's parameters, and pictures by their index alone."""

import itertools
import math

import numpy as np
import pytest
from pydantic import ValidationError

from zeta_core.errors import DataMissing, OptionError
from zeta_core.tasks.generated import words_of
from zeta_core.tasks.pathfinder import PathfinderConfig, PathXConfig
from zeta_core.tasks.pathfinder_draw import Picture, picture

HARD, LARGE = PathfinderConfig(), PathXConfig()
FINE = 4
"""Cells a pixel of the raster that paths are followed on."""


def drawn(config, number: int, key: int = 3) -> list[Picture]:
    return [picture(config.style, words_of(key, index)) for index in range(number)]


@pytest.fixture(scope="module")
def hard() -> list[Picture]:
    return drawn(HARD, 120)


@pytest.fixture(scope="module")
def large() -> list[Picture]:
    return drawn(LARGE, 12)


def all_dashes(one: Picture):
    return [dash.tips for snake in (*one.snakes, *one.distractors) for dash in snake]


def line_cells(a, b, scale):
    """The cells, of `scale` a pixel, that a line passes."""
    steps = max(2, math.ceil(4 * scale * math.dist(a, b)))
    return {
        (round(scale * (a[0] + (b[0] - a[0]) * i / steps)), round(scale * (a[1] + (b[1] - a[1]) * i / steps)))
        for i in range(steps + 1)
    }


def flood(cells, start):
    """The cells connected to a cell."""
    found, waiting = {start}, [start]
    while waiting:
        y, x = waiting.pop()
        for near in itertools.product((y - 1, y, y + 1), (x - 1, x, x + 1)):
            if near in cells and near not in found:
                found.add(near)
                waiting.append(near)
    return found


def connected(one: Picture, scale: int) -> bool:
    """Whether the discs' cells are connected by all paths, drawn as unbroken lines on a fine raster."""
    cells = set()
    for path in (*one.snakes, *one.distractors):
        points = [tip for dash in path for tip in dash.tips]
        for a, b in itertools.pairwise(points):
            cells |= line_cells(a, b, scale)
    first, second = ((round(scale * y), round(scale * x)) for y, x in one.discs)
    return second in flood(cells, first)


def followed(one: Picture, reach: float) -> bool:
    """Whether one comes from disc to disc by going to the nearest unused dash, knowing nothing of snakes."""
    dashes, (tip, goal) = all_dashes(one), one.discs
    while True:
        ends = [(math.dist(tip, end), dash, 1 - i) for dash in dashes for i, end in enumerate(dash)]
        distance, dash, other = min(ends, default=(math.inf, None, 0))
        if distance > reach:
            return False
        dashes.remove(dash)
        tip = dash[other]
        if math.dist(tip, goal) < 1e-9:
            return True


def test_discs_are_connected_where_the_class_says_so(hard, large):
    assert all(connected(one, FINE) == one.label for one in hard)
    assert all(connected(one, 1) == one.label for one in large)


def test_the_eye_would_agree(hard, large):
    """Following the nearest dash, blind to which snake it is of, gives the class in nearly all pictures."""
    for pictures, reach, share in ((hard, 3.2, 0.85), (large, 12.5, 0.7)):
        assert np.mean([followed(one, reach) == one.label for one in pictures]) > share


def distance_of(a, b) -> float:
    """The smallest distance between points along two dashes."""
    share = np.linspace(0, 1, 15)[:, None]
    p, q = (np.array(d[0]) + share * (np.array(d[1]) - np.array(d[0])) for d in (a, b))
    return float(np.linalg.norm(p[:, None] - q[None], axis=-1).min())


def test_dashes_keep_apart(hard):
    """Dashes that do not follow each other: two zones of 1.25 pixels, up to the diagonal of half-pixel cells."""
    for one in hard[:25]:
        paths = [[dash.tips for dash in path] for path in (*one.snakes, *one.distractors)]
        places = [(i, j) for i, path in enumerate(paths) for j in range(len(path))]
        for (i, j), (k, m) in itertools.combinations(places, 2):
            if i != k or abs(j - m) > 1:
                assert distance_of(paths[i][j], paths[k][m]) > 2.5 - 2 * math.sqrt(0.125) - 0.05


@pytest.mark.parametrize("config", [HARD, LARGE, PathfinderConfig(contour_length=6)], ids=["hard", "large", "easy"])
def test_lengths_and_numbers(config):
    for one in drawn(config, 6):
        scale = config.size / 32
        assert [len(snake) for snake in one.snakes] == [config.contour_length] * 2
        assert len(one.distractors) <= 20 // (config.contour_length // 3)
        assert {len(snake) for snake in one.distractors} <= {config.contour_length // 3}
        for a, b in all_dashes(one):
            assert math.dist(a, b) == pytest.approx(config.dash_length)
            assert all(config.padding - 0.5 <= v <= config.size - config.padding - 0.5 for v in (*a, *b))
        (first, second) = (snake[0].tips[0] for snake in one.snakes)
        assert abs(math.dist(first, second) - config.seed_distance) <= 0.5
        assert all(2 * config.seed_distance <= v < config.size - 2 * config.seed_distance for v in first)
        for path in (*one.snakes, *one.distractors):
            for before, after in itertools.pairwise(path):
                gap = math.dist(before.tips[1], after.tips[0])
                assert gap <= 2 * config.margin + 0.75 * max(1, 1 / scale)
                turn = np.array(before.tips[1]) - before.tips[0], np.array(after.tips[1]) - after.tips[0]
                assert turn[0] @ turn[1] > 0


def test_the_sheet_s_numbers():
    style = HARD.style
    assert (style.size, style.padding, style.contour_length, style.distractor_length) == (32, 1, 14, 4)
    assert (style.num_distractors, style.dash_length, style.thickness, style.margin) == (5, 2, 0.5, 1)
    assert (style.marker_radius, style.seed_distance, style.continuity) == (1.5, 7, 1.0)
    assert (style.antialias, style.contrast) == (2, 0.75)
    assert HARD.counts == LARGE.counts == {"train": 160_000, "validation": 20_000, "test": 20_000}
    lengths = ("size", "padding", "dash_length", "thickness", "margin", "marker_radius", "seed_distance")
    assert all(getattr(LARGE.style, name) == 4 * getattr(style, name) for name in lengths)
    others = set(style._fields) - set(lengths)
    assert all(getattr(LARGE.style, name) == getattr(style, name) for name in others)


def test_statistics(hard):
    labels = [one.label for one in drawn(PathfinderConfig(contour_length=3, distractor_dashes=0), 1500)]
    assert np.mean(labels) == pytest.approx(0.5, abs=0.04)
    assert np.mean([len(one.distractors) for one in hard]) > 4.5
    same = [one.snakes[0][0].tips[0] in one.discs for one in hard]
    assert np.mean(same) == pytest.approx(0.5, abs=0.15)


def test_discs_and_dashes_are_where_they_should_be(hard):
    """Discs are full white at their centres; dashes at most 0.75 of it; all else is black."""
    for one in hard[:40]:
        y, x = np.mgrid[:32, :32]
        near = [np.hypot(y - a, x - b) for a, b in one.discs]
        assert one.image.dtype == np.uint8
        assert all(one.image[np.unravel_index(distance.argmin(), distance.shape)] == 255 for distance in near)
        away = np.minimum(*near) > 1.5 + 1
        assert one.image[away].max() <= math.ceil(0.75 * 255)
        lit = np.zeros((32, 32), dtype=bool)
        for a, b in all_dashes(one):
            share = np.linspace(0, 1, 9)[:, None, None]
            distance = np.hypot(y - (a[0] + share * (b[0] - a[0])), x - (a[1] + share * (b[1] - a[1]))).min(0)
            lit |= distance <= 1.7
            middle = round((a[0] + b[0]) / 2), round((a[1] + b[1]) / 2)
            assert one.image[max(0, middle[0] - 1) : middle[0] + 2, max(0, middle[1] - 1) : middle[1] + 2].max() > 40
        assert one.image[away & ~lit].max() == 0


def test_most_pixels_of_the_large_pictures_are_those_of_the_small_ones(hard, large):
    small, big = (np.mean([(one.image > 0).mean() for one in pictures]) for pictures in (hard, large))
    assert 0.03 < big < small < 0.6


@pytest.fixture
def few(tmp_path, monkeypatch):
    monkeypatch.setenv("ZETA_DATA", str(tmp_path))
    part = PathfinderConfig.presets["small"]["task"]
    return PathfinderConfig(**{**part, "num_train": 30, "num_validation": 10, "num_test": 20})


def test_the_task_is_what_was_drawn(few):
    with pytest.raises(DataMissing, match="zeta data make pathfinder --examples train=30"):
        few.build()
    few.make()
    data = few.build()
    batch = data.parts["train"][0].batch(np.array([7, 3]))
    assert batch.tokens.shape == (2, few.size**2) and batch.key_padding_mask is None
    whole, again = few.producer("train", 0, 30), few.producer("train", 7, 8)
    assert np.array_equal(batch.tokens[0], again.documents[0].tokens)
    assert np.array_equal(whole.documents[0].tokens[7 * few.size**2 :][: few.size**2], again.documents[0].tokens)
    assert (data.num_classes, data.vocab_size, data.max_len) == (2, 256, few.size**2)


def test_splits_seeds_and_parameters_are_other_pictures(few):
    few = few.model_validate({**few.model_dump(), "size": 24, "seed_distance": 5})

    def first(config, split="train"):
        return config.producer(split, 0, 3).documents[0].tokens.tobytes()

    changes = [
        {"padding": 2}, {"contour_length": 4}, {"dash_length": 1}, {"thickness": 1.0}, {"margin": 2},
        {"marker_radius": 2.0}, {"seed_distance": 4}, {"continuity": 1.5}, {"antialias": 3}, {"contrast": 0.5},
        {"size": 25}, {"distractor_dashes": 3}, {"data_seed": 1},
    ]  # fmt: skip
    counts = {"num_train", "num_validation", "num_test"}
    assert {name for change in changes for name in change} == set(type(few).model_fields) - {"kind"} - counts
    found = [first(few), first(few, "validation"), first(few, "test")]
    found += [first(few.model_validate({**few.model_dump(), **change})) for change in changes]
    assert len(set(found)) == len(found)
    assert first(few) == first(few.model_validate({**few.model_dump(), "num_train": 7, "num_test": 3}))


def test_bad_parameters():
    with pytest.raises(ValidationError, match="use size=29 or more, or a smaller seed_distance"):
        PathfinderConfig(size=28)
    with pytest.raises(ValidationError, match="greater than or equal to 3"):
        PathfinderConfig(contour_length=2)
    crowded = PathfinderConfig(size=13, seed_distance=3, contour_length=14)
    with pytest.raises(OptionError, match="none had room for two snakes of contour_length=14"):
        drawn(crowded, 1)


def test_commands_and_what_is_small():
    small = PathfinderConfig(**PathfinderConfig.presets["small"]["task"])
    assert small.command == "zeta data make pathfinder" and small.is_small
    assert HARD.command == "zeta data make pathfinder --preset paper" and not HARD.is_small
    assert PathXConfig(**PathXConfig.presets["small"]["task"]).is_small
