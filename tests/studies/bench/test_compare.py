"""Two tables side by side."""

import pytest
from rows import bench_row

from zeta_core.errors import ConfigError
from zeta_core.records import append_rows
from zeta_core.studies.bench.compare import compare


@pytest.fixture
def tables(tmp_path):
    return tmp_path / "old.csv", tmp_path / "new.csv"


def timed(low, middle, high, **changes):
    return bench_row(time_ms_p20=low, time_ms=middle, time_ms_p80=high, **changes)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ((9, 10, 11), (11.5, 12, 13), "slower"),
        ((9, 10, 11), (10.9, 12, 13), "same"),  # the spreads touch
        ((9.9, 10, 10.1), (10.3, 10.4, 10.5), "same"),  # 4 % is nothing
        ((11.5, 12, 13), (9, 10, 11), "faster"),
        ((9, 10, 11), (9, 10, 11), "same"),
    ],
)
def test_slower_needs_both_a_gap_and_a_ratio(tables, old, new, verdict):
    for path, times in zip(tables, (old, new), strict=True):
        append_rows(path, [timed(*times)])
    (match,) = compare(*tables).rows
    assert match.verdict == verdict and match.worse == (verdict == "slower")
    assert match.time_ratio == pytest.approx(new[1] / old[1])


@pytest.mark.parametrize(("peak", "verdict"), [(102.1, "larger"), (101.9, "same"), (97, "smaller"), (None, "same")])
def test_memory_may_move_by_two_percent(tables, peak, verdict):
    append_rows(tables[0], [bench_row(peak_mib=100.0)])
    append_rows(tables[1], [bench_row(peak_mib=peak)])
    (match,) = compare(*tables).rows
    assert match.verdict == verdict and match.worse == (verdict == "larger")


def test_rows_match_on_every_setting_and_the_device(tables):
    append_rows(tables[0], [bench_row(), bench_row(seq_len=2048), bench_row(timing="graph"), bench_row(batch=2)])
    append_rows(tables[1], [bench_row(), bench_row(seq_len=4096), bench_row(timing="graph", status="oom")])
    found = compare(*tables)
    assert [match.verdict for match in found.rows] == ["same", "no longer ok (oom)"]
    assert (found.only_old, found.only_new) == (2, 1)
    assert found.rows[1].worse


def test_what_was_not_measured_before_is_not_compared(tables):
    append_rows(tables[0], [bench_row(status="skipped", time_ms=None)])
    append_rows(tables[1], [bench_row()])
    assert compare(*tables).rows == []


def test_nothing_in_common_says_in_what(tables):
    append_rows(tables[0], [bench_row()])
    append_rows(tables[1], [bench_row(device="Another", dtype="bf16")])
    with pytest.raises(
        ConfigError, match=r"no row in common: they differ in dtype \(fp32 and bf16\); device \(A CPU"
    ):
        compare(*tables)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        (b"", "no CSV that can be read"),
        (b"\xff\xfe\x00", "no CSV that can be read"),
        (b"a,b\n1,2\n", "lacks the columns provider, mode"),
    ],
)
def test_what_is_no_table(tables, text, message):
    append_rows(tables[0], [bench_row()])
    if text is not None:
        tables[1].write_bytes(text)
    with pytest.raises(ConfigError, match=message):
        compare(*tables)
