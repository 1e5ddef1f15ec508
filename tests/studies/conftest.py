"""No W&B key of the user's, and accelerate as a new process finds it."""

from collections.abc import Iterator

import pytest
import torch
from accelerate.state import AcceleratorState, GradientState


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
