"""Rows of random points, what they say together, and the picture of them."""

import csv

import pytest
from matplotlib.figure import Figure
from studies.locality import slow

from zeta_core.errors import RequestError
from zeta_core.studies import paper
from zeta_core.studies.locality.config import make_locality
from zeta_core.studies.locality.plot import plot
from zeta_core.studies.locality.points import draw
from zeta_core.studies.locality.study import run_locality
from zeta_core.studies.locality.summary import overlaps

SMALL = {
    "seq_lens": (80, 40), "d_ks": (1, 3), "num_neighbours": 12, "seeds": (0, 1), "bits": (4, 12), "device": "cpu",
}  # fmt: skip


class Counting:
    def __init__(self):
        self.total, self.groups, self.said = 0, [], []

    def begin(self, total, device):
        self.total = total

    def done(self, rows):
        self.groups.append(rows)

    def say(self, text):
        self.said.append(text)


def measure(out, **changes):
    monitor = Counting()
    flags = {f"--{name}": (name, value) for name, value in {**SMALL, **changes}.items()}
    return run_locality(make_locality(flags=flags), out=out, monitor=monitor), monitor


def test_a_row_a_seed_for_every_setting(tmp_path):
    result, monitor = measure(tmp_path)
    settings = [(row.points, row.seq_len, row.seed, row.d_k, row.curves, row.bits) for row in result.rows]
    assert len(set(settings)) == len(settings) == 4 * 2 * 2 * (1 + 3) * 2
    assert len(monitor.groups) == monitor.total == 4 * 2 * 2
    assert len({row.run_id for row in result.rows}) == len(result.rows)
    assert {row.status for row in result.rows} == {"ok"} and {row.squash for row in result.rows} == {
        "none",
        "sigmoid",
    }
    with result.table.open() as file:
        written = list(csv.DictReader(file))
    assert [row["run_id"] for row in written] == [row.run_id for row in result.rows]
    assert [float(row["overlap"]) for row in written] == [row.overlap for row in result.rows]
    assert {row["layer"] for row in written} == {""} == {row["recall"] for row in written}


def test_every_row_is_of_the_cloud_that_it_names(tmp_path):
    result, _ = measure(tmp_path, seq_lens=(40,), seeds=(3,))
    for row in result.rows:
        cloud = draw(row.points, row.seq_len, row.d_k, row.seed)
        expected = slow.overlap(cloud.space.double().tolist(), cloud.coords.tolist(), 12, row.curves, row.bits)
        assert row.overlap == pytest.approx(expected), (row.points, row.d_k, row.curves, row.bits)


def test_measured_again_the_rows_are_the_same_and_there_once(tmp_path):
    first, _ = measure(tmp_path, points=("projected",))
    again, _ = measure(tmp_path, points=("projected",), d_ks=(3,))
    expected = [(row.run_id, row.overlap) for row in first.rows if row.d_k == 3]
    assert [(row.run_id, row.overlap) for row in again.rows] == expected
    with again.table.open() as file:
        assert len(list(csv.DictReader(file))) == len(first.rows)


def test_mean_and_spread_over_seeds(tmp_path):
    result, _ = measure(tmp_path, points=("uniform",), bits=(12,), d_ks=(1,), seq_lens=(40,))
    (found,) = overlaps(result.rows)
    a, b = (row.overlap for row in result.rows)
    assert found.mean == pytest.approx((a + b) / 2) and found.spread == pytest.approx(abs(a - b) / 2**0.5)
    assert found.seeds == 2 and found.paper is None
    (single,) = overlaps(result.rows[:1])
    assert single.spread is None


def test_the_paper_s_range_stands_beside_its_own_sizes_alone(tmp_path):
    result, _ = measure(
        tmp_path, points=("uniform",), bits=(12,), d_ks=(3, 8), seq_lens=(512, 300), num_neighbours=64, seeds=(0,)
    )
    at = {(found.d_k, found.curves, found.seq_len): found.paper for found in overlaps(result.rows)}
    assert at[3, 1, 512] == at[3, 6, 512] == paper.LOCALITY_OVERLAP[3][512]
    assert at[3, 1, 300] is None and at[8, 1, 512] is None


@pytest.mark.parametrize("changes", [{}, {"points": ("gaussian",), "curves": (3, 6), "d_ks": (3,), "seeds": (0,)}])
def test_the_picture_is_drawn(tmp_path, changes):
    result, _ = measure(tmp_path, **changes)
    picture = tmp_path / "figures" / "locality.png"
    plot(result.rows, picture)
    assert picture.read_bytes()[1:4] == b"PNG" and [path.name for path in picture.parent.iterdir()] == [picture.name]


def test_a_narrow_picture_s_title_is_not_cut(tmp_path, monkeypatch):
    result, _ = measure(tmp_path, seq_lens=(40,), points=("uniform",))
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: (drawn.append(figure), path.touch()))
    plot(result.rows, tmp_path / "locality.png")
    (figure,) = drawn
    title = next(text for text in figure.texts if "neighbours" in text.get_text()).get_window_extent()
    assert 0 <= title.x0 < title.x1 <= figure.bbox.width


def test_another_table_in_its_place_is_refused(tmp_path):
    (tmp_path / "results").mkdir()
    table = tmp_path / "results" / "locality.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(RequestError, match="no column run_id"):
        measure(tmp_path)
    assert table.read_text() == "a,b\n1,2\n"
