"""Which examples each step trains on: a function of the seed and the step alone, so that any step can be resumed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zeta_core.tasks import Part


class BatchOrder:
    """Epochs of shuffled batches; a batch comes from one part, and an epoch's last, short batches are left out.

    parts: of the training split. batch_size: examples a batch. seed: of the order."""

    def __init__(self, parts: Sequence[Part], batch_size: int, seed: int) -> None:
        self.parts, self.batch_size, self.seed = parts, batch_size, seed
        counts = [max(1, len(part) // batch_size) for part in parts]
        self.slots = [(part, slot) for part, count in enumerate(counts) for slot in range(count)]
        self.epoch = -1
        self.order: list[np.ndarray] = []
        self.slot_order = np.arange(0)

    def at(self, step: int) -> tuple[Part, np.ndarray]:
        """The part and the indices of the examples that step 0, 1, ... trains on."""
        epoch, place = divmod(step, len(self.slots))
        if epoch != self.epoch:
            bits = np.random.default_rng([self.seed, epoch])
            self.order = [bits.permutation(len(part)) for part in self.parts]
            self.slot_order = bits.permutation(len(self.slots))
            self.epoch = epoch
        part, slot = self.slots[self.slot_order[place]]
        return self.parts[part], self.order[part][slot * self.batch_size : (slot + 1) * self.batch_size]
