"""The C that launches a program: what it hands to a driver, seen by one that only writes it down."""

import ctypes
from array import array
from types import SimpleNamespace as Simple

import pytest
import torch

from zeta_core.ops.kernel_launch import Launch, Part, Program, places, runner

POINTER = ctypes.c_void_p
DRIVER = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[ctypes.c_uint] * 7, POINTER, ctypes.POINTER(POINTER), POINTER)


class Driver:
    """Stands in for cuLaunchKernel; parameters: how many 64-bit numbers each launch has."""

    def __init__(self, parameters: int, status: int = 0) -> None:
        self.seen: list[tuple] = []

        def launch(function, x, y, z, threads, _y, _z, shared, stream, given, extra):
            values = [ctypes.cast(given[i], ctypes.POINTER(ctypes.c_int64))[0] for i in range(parameters)]
            self.seen.append((function, (x, y, z), threads, shared, stream, values, extra))
            return status

        self.callback = DRIVER(launch)
        self.address = ctypes.cast(self.callback, POINTER).value


def words(*steps: tuple[int, ...]) -> bytes:
    return array("q", [word for step in steps for word in step]).tobytes()


def test_every_launch_gets_its_addresses_and_numbers():
    driver = Driver(3)
    program = words((77, 5, 128, 2048, 3, 1, 16, -1, -4, 0, 0), (78, 6, 32, 0, 3, -1, 2**40, 0, 8, 1, 0))
    assert runner()(driver.address, program, 9, 1600, 3200) is True
    first, second = driver.seen
    assert first == (77, (5, 1, 1), 128, 2048, 9, [3216, -4, 1600], None)
    assert second == (78, (6, 1, 1), 32, 0, 9, [2**40, 1608, 3200], None)


def test_nothing_is_launched_on_tensors_that_are_not_aligned():
    driver = Driver(1)
    assert runner()(driver.address, words((77, 5, 128, 0, 1, 0, 0)), 9, 1608) is False
    assert driver.seen == []


def test_an_error_of_the_driver_ends_the_program_and_is_raised():
    driver = Driver(1, status=700)
    with pytest.raises(RuntimeError, match="700"):
        runner()(driver.address, words(*[(77, 5, 128, 0, 1, 0, 0)] * 2), 9, 1600)
    assert len(driver.seen) == 1


def test_a_thread_without_a_context_is_left_to_triton():
    driver = Driver(1, status=201)
    assert runner()(driver.address, words((77, 5, 128, 0, 1, 0, 0)), 9, 1600) is False


def test_a_program_of_something_else_is_refused():
    with pytest.raises(TypeError, match="in bytes"):
        runner()(1, [1], 9)


def test_words_leave_out_what_triton_compiled_into_the_kernel():
    signature = {"x": "*fp32", "y": "*i64", "n": "i32", "one": "constexpr", "BLOCK": "constexpr"}
    run = Simple(global_scratch_size=0, profile_scratch_size=0, launch_cooperative_grid=False, launch_pdl=False)
    kernel = Simple(
        arg_names=list(signature), run=run, function=77, packed_metadata=(4, 1, 512), src=Simple(signature=signature)
    )
    empty = Launch(kernel, 0, 1)
    program = Program((empty, (0,)), (Launch(kernel, 3, 100, 1, BLOCK=16), (1, Part(0, 6, torch.int64))))
    tensors = (torch.zeros(64, dtype=torch.int32), torch.zeros(4))
    found = array("q", program.words([kernel], tensors))
    # Two addresses of scratch memory that Triton's kernels take last are none.
    assert found.tolist() == [77, 3, 128, 512, 5, 1, 0, 0, 48, -1, 100, -1, 0, -1, 0]
    assert program.steps[0][1][1].view(tensors).shape == (26,)
    run.launch_pdl = True
    assert program.words([kernel], tensors) is None


def test_arrays_in_one_allocation_are_aligned():
    assert places([1, 64, 65, 0, 3]) == ([0, 64, 128, 256, 256], 320)
