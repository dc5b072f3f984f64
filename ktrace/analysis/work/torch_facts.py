"""What operators of PyTorch state of themselves, for checks: of collectives what they move, of backward operators which
forward operator they belong to.

    record_param_comms                                 Collective name, dtype, In msg nelems, ...
    autograd::engine::evaluate_function: MmBackward0   Sequence number 43
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.masks import NameTest, truth, words_in

#: The operator around a collective, and what it states (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
_COLLECTIVE = "record_param_comms"
_STATED = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size")

#: What the name of a backward operator of the autograd engine begins with, and the number of its forward operator.
_ENGINE = "autograd::engine::evaluate_function: "
_NUMBERS = ("Sequence number", "seq_num")

#: How many numbers are remembered.
_REMEMBERED = 1 << 20


class TorchFacts:
    """`collectives` counts the operators around collectives, `undescribed` those that lack what others state."""

    def __init__(self) -> None:
        self.collectives = self.undescribed = 0
        self.lacking: Counter[str] = Counter()
        self._names: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._shared: defaultdict[str, dict[int, set[str]]] = defaultdict(dict)
        self._is_collective = NameTest(_COLLECTIVE.__eq__)
        self._is_backward = NameTest(lambda name: name.startswith(_ENGINE))

    def add(self, batch: Batch, source: str) -> None:
        """Adds the operators of a batch of one source."""
        ops = words_in(batch.column("kind"), ("op",))
        if ops.any():
            self._add_collectives(batch, ops & self._is_collective(batch.column("name")))
            self._add_backward(batch, ops & self._is_backward(batch.column("name")), source)

    def _add_collectives(self, batch: Batch, which: Bools) -> None:
        if not which.any():
            return
        rows = pa.array(np.flatnonzero(which))
        there = {key: truth(batch.argument(key, rows).is_valid()) for key in _STATED}
        for key, has in there.items():
            self.lacking[key] += int(np.count_nonzero(~has))
        self.collectives += len(rows)
        self.undescribed += int(np.count_nonzero(~np.logical_and.reduce([*there.values()])))

    def _add_backward(self, batch: Batch, which: Bools, source: str) -> None:
        known = self._names[source]
        if not which.any() or len(known) >= _REMEMBERED:
            return
        rows = pa.array(np.flatnonzero(which))
        numbers = pc.coalesce(*(batch.argument(key, rows) for key in _NUMBERS)).to_pylist()
        for number, name in zip(numbers, batch.column("name").take(rows).to_pylist(), strict=True):
            if number is None or not number.isdecimal() or int(number) == 0:
                continue
            if known.setdefault(int(number), name) != name:
                self._shared[source].setdefault(int(number), {known[int(number)]}).add(name)

    @property
    def numbers(self) -> int:
        """How many numbers backward operators have."""
        return sum(map(len, self._names.values()))

    @property
    def shared(self) -> list[tuple[str, int, list[str]]]:
        """The numbers that different backward operators share: source, number, names."""
        return [
            (source, number, sorted(name.removeprefix(_ENGINE) for name in names))
            for source, found in self._shared.items()
            for number, names in found.items()
        ]
