"""What operators of PyTorch state of themselves: of collectives what they move, of backward operators which forward
operator they belong to, of products the shapes of their inputs.

    record_param_comms                                 Collective name, dtype, In msg nelems, ...
    autograd::engine::evaluate_function: MmBackward0   Sequence number 43
    aten::mm                                           Input Dims [[64, 4096], [4096, 4096]]
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.store.vocabulary import RowKeys

#: The operator around a collective, and what it states (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
_COLLECTIVE = "record_param_comms"
_STATED = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size")

#: What the name of a backward operator of the autograd engine begins with, and the number of its forward operator.
_ENGINE = "autograd::engine::evaluate_function: "
_NUMBERS = ("Sequence number", "seq_num")

#: How many numbers are remembered, and shapes.
_REMEMBERED, _SHAPES = 1 << 20, 1 << 12

#: Operators that multiply: what is computed shows in the shapes of their inputs.
_PRODUCT = re.compile(
    r"aten::(_?scaled_mm|(add|b|badd|addb)?mm|linear|addmv|_?convolution|conv[123]d|"
    r"_?scaled_dot_product_\w*attention|_flash_attention_forward|_efficient_attention_forward)",
    re.A,
)
_DIMS = ("Input Dims", "Input dims")


class TorchFacts:
    """`collectives` counts the operators around collectives, `undescribed` those that lack what others state.

    `dims` has how often each product has inputs of which shapes.
    """

    def __init__(self) -> None:
        self.collectives = self.undescribed = 0
        self.lacking: Counter[str] = Counter()
        self._names: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._shared: defaultdict[str, dict[int, set[str]]] = defaultdict(dict)
        self._is_collective = NameTest(_COLLECTIVE.__eq__)
        self._is_backward = NameTest(lambda name: name.startswith(_ENGINE))
        self._is_product = NameTest(lambda name: _PRODUCT.fullmatch(name) is not None)
        self.dims: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, batch: Batch, source: str) -> None:
        """Adds the operators of a batch of one source."""
        ops = words_in(batch.column("kind"), ("op",))
        if ops.any():
            self._add_collectives(batch, ops & self._is_collective(batch.column("name")))
            self._add_dims(batch, ops & self._is_product(batch.column("name")))
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

    def _add_dims(self, batch: Batch, which: Bools) -> None:
        key = next((key for key in _DIMS if batch.has(f"args.{key}")), None)
        if key is None or not which.any() or sum(map(len, self.dims.values())) >= _SHAPES:
            return
        shapes = RowKeys(("name", f"args.{key}"))
        numbers = shapes.number(batch, np.flatnonzero(which))
        for (name, dims), count in zip(shapes, np.bincount(numbers).tolist(), strict=True):
            if dims is not None:
                text = dims.decode() if isinstance(dims, bytes) else str(dims)
                self.dims[str(name)]["".join(text.split())] += count

    def _add_backward(self, batch: Batch, which: Bools, source: str) -> None:
        names = self._names[source]
        if not which.any() or len(names) >= _REMEMBERED:
            return
        rows = pa.array(np.flatnonzero(which))
        numbers = pc.coalesce(*(batch.argument(key, rows) for key in _NUMBERS)).to_pylist()
        for number, name in zip(numbers, batch.column("name").take(rows).to_pylist(), strict=True):
            if number is None or not number.isdecimal() or int(number) == 0:
                continue
            if names.setdefault(int(number), name) != name:
                self._shared[source].setdefault(int(number), {names[int(number)]}).add(name)

    @property
    def numbers(self) -> int:
        """How many numbers backward operators have."""
        return sum(map(len, self._names.values()))

    @property
    def shared(self) -> list[tuple[str, int, list[str]]]:
        """The numbers that different backward operators share: source, number, names."""
        return [
            (source, number, sorted(name.removeprefix(_ENGINE) for name in names))
            for source, shared_names in self._shared.items()
            for number, names in shared_names.items()
        ]
