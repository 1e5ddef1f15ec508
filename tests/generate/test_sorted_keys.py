"""Sorted lists against Python's own sort, with few different codes so that most are equal."""

import pytest
import torch

from zeta_core.generate.buffer import Buffer
from zeta_core.generate.sorted_keys import SortedKeys


def drawn(count: int, words: int, seed: int) -> torch.Tensor:
    return torch.randint(3, (2, count, words), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("words", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 1, 20])
def test_keys_stay_in_order_of_code_and_position(words, first):
    codes = drawn(first + 35, words, seed=first)
    keys = SortedKeys(codes[:, :first])
    for start in range(first, first + 35, 7):
        keys.add(codes[:, start : start + 7])
    for row in range(2):
        every = [(code, position) for position, code in enumerate(codes[row].tolist())]
        assert keys.order[row].tolist() == [position for _, position in sorted(every)]
        assert torch.stack(keys.words, -1)[row].tolist() == [code for code, _ in sorted(every)]
        asked = drawn(50, words, seed=99)
        smaller, up_to = keys.places(asked), keys.places(asked, after_equal=True)
        for i, code in enumerate(asked[row].tolist()):
            assert smaller[row, i] == sum(other < code for other, _ in every)
            assert up_to[row, i] == sum(other <= code for other, _ in every)


def test_an_empty_list_has_every_place_at_its_start():
    keys = SortedKeys(drawn(0, 2, seed=0))
    assert len(keys) == 0 and not keys.places(drawn(3, 2, seed=1)).any()


def test_a_buffer_grows_without_copying_each_time():
    start = torch.rand(2, 3, 4)
    buffer, parts, copies = Buffer(start), [start], 0
    for step in range(1000):
        more, before = torch.rand(2, 1 + step % 2, 4), buffer.whole
        buffer.append(more)
        parts.append(more)
        copies += buffer.whole is not before
    assert torch.equal(buffer.filled, torch.cat(parts, 1)) and copies < 12
    assert buffer.whole.is_contiguous() and not buffer.whole[:, buffer.length :].any()
