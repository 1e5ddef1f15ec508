"""Cells and Morton codes against Python ints of any length."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ops import brute_force
from ops.cases import FEW, POINTS, points

from zeta_core.errors import OptionError, ShapeError
from zeta_core.ops.zorder import curve_orders, grid_cells, zorder_codes

DIMENSIONS = [1, 2, 3, 4, 5, 6, 7, 16, 128]


def as_ints(codes: torch.Tensor, total_bits: int) -> list[int]:
    """Codes [..., words] put together again: 62 bits a word, the last word holding what is left."""
    widths = [62] * (total_bits // 62) + ([total_bits % 62] if total_bits % 62 else [])
    assert codes.shape[-1] == len(widths)
    numbers = []
    for words in codes.flatten(0, -2).tolist():
        number = 0
        for word, width in zip(words, widths, strict=True):
            assert 0 <= word < 2**width
            number = (number << width) | word
        numbers.append(number)
    return numbers


def expected_codes(coords: torch.Tensor, num_bits: int = 12) -> list[int]:
    cells = [[brute_force.cell(x, num_bits) for x in point] for point in coords.double().flatten(0, -2).tolist()]
    return [brute_force.morton_code(point, num_bits) for point in cells]


@pytest.mark.parametrize("d_k", DIMENSIONS)
@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.parametrize("number", [9, 200], ids=["few", "by a table"])
def test_codes_are_the_interleaved_bits(d_k, kind, number):
    coords = points(kind, (1, 2, number, d_k), seed=d_k)
    assert as_ints(zorder_codes(coords), 12 * d_k) == expected_codes(coords)


@given(num_bits=st.integers(1, 16), d_k=st.integers(1, 9), seed=st.integers(0, 999))
@FEW
def test_codes_take_any_number_of_bits(num_bits, d_k, seed):
    coords = points("outside", (1, 1, 5, d_k), seed)
    assert as_ints(zorder_codes(coords, num_bits=num_bits), num_bits * d_k) == expected_codes(coords, num_bits)


@pytest.mark.parametrize("d_k", [2, 5, 6, 16])
def test_words_compare_like_the_whole_code(d_k):
    coords = points("tied", (1, 1, 40, d_k), seed=3)
    codes = zorder_codes(coords)[0, 0].tolist()
    whole = expected_codes(coords)
    assert sorted(range(40), key=lambda i: codes[i]) == sorted(range(40), key=lambda i: whole[i])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_cells_are_exact_in_every_dtype(dtype):
    coords = points("outside", (500,), seed=0, dtype=dtype)
    assert grid_cells(coords).tolist() == [brute_force.cell(x) for x in coords.double().tolist()]


def test_cells_at_borders_and_beyond():
    given_and_cell = {
        0.0: 0,
        -1e-30: 0,
        1 / 4096: 1,
        math.nextafter(1 / 4096, 0): 0,
        math.nextafter(1.0, 0): 4095,
        1.0: 4095,
        7.5: 4095,
        -3.0: 0,
        1e300: 4095,
        math.inf: 4095,
        -math.inf: 0,
        math.nan: 4095,
    }
    coords = torch.tensor(list(given_and_cell), dtype=torch.float64)
    assert grid_cells(coords).tolist() == list(given_and_cell.values())


def test_codes_leave_their_input_alone():
    coords = points("outside", (1, 1, 6, 3), seed=1)
    before = coords.clone()
    zorder_codes(coords)
    assert torch.equal(coords, before)


@pytest.mark.parametrize("curves", [1, 3, 6])
def test_curve_orders_are_the_identity_the_shifts_and_all_permutations(curves):
    assert list(curve_orders(curves, 3)) == brute_force.dimension_orders(curves, 3)


@pytest.mark.parametrize(
    ("curves", "d_k", "message"),
    [(2, 3, "curves=2 is not one of 1, 3, 6"), (3, 2, "curves=3 needs d_k=3, not d_k=2"), (6, 4, "needs d_k=3")],
)
def test_other_curves_are_refused(curves, d_k, message):
    with pytest.raises(OptionError, match=message):
        curve_orders(curves, d_k)


@pytest.mark.parametrize(
    ("coords", "num_bits", "error", "message"),
    [
        (torch.zeros(3, 4), 12, ShapeError, r"coords has shape \[3, 4\]; expected \[batch, heads, seq_len, d_K\]"),
        (torch.zeros(1, 1, 2, 3, dtype=torch.int64), 12, ShapeError, "dtype torch.int64; expected a floating"),
        (torch.zeros(1, 1, 2, 129), 12, ShapeError, "d_K=129 is outside 1..128"),
        (torch.zeros(1, 1, 2, 0), 12, ShapeError, "d_K=0 is outside 1..128"),
        (torch.zeros(1, 1, 2, 3), 0, OptionError, "num_bits=0 is outside 1..16"),
        (torch.zeros(1, 1, 2, 3), 17, OptionError, "num_bits=17 is outside 1..16"),
    ],
)
def test_bad_coordinates_are_refused(coords, num_bits, error, message):
    with pytest.raises(error, match=message):
        zorder_codes(coords, num_bits=num_bits)
