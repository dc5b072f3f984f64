"""Adds up the device time of the passes of a training step: forward, backward, recomputation, optimizer.

thread 4242   [ nn.Module: Block [ aten::linear ] ]                            [ Optimizer.step#AdamW.step ]
                    forward                                                          optimizer
thread 4300       [ autograd::engine::evaluate_function: AddmmBackward0 ][ ...CheckpointFunctionBackward  ]
                    backward                                                   [ nn.Module: Block ]
                                                                                 recompute
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktrace.analysis.hosts.backward import Ends
from ktrace.analysis.hosts.forest import Forest, Spans
from ktrace.analysis.work.device_work import Events
from ktrace.model.arrays import Bools, Int64
from ktrace.store.joins import find
from ktrace.tables.figures import Cell, Column, Table, percent

#: The name of the question, as `--by` takes it.
PASS = "pass"

#: The passes by their numbers; the last one is work outside of all, or whose call isn't known.
PASSES = ("forward", "backward", "recompute", "optimizer", "other")
_FORWARD, _BACKWARD, _RECOMPUTE, _OPTIMIZER, _OTHER = range(len(PASSES))

#: What a span says of what is in it: nodes of autograd, modules, checkpoints of torch.utils.checkpoint (a function of
#: autograd that runs the forward pass again, or hooks that do so as soon as a saved tensor is wanted), optimizers.
_NAMES = (
    ("checkpoint", re.compile(r"(?:autograd::engine::evaluate_function: )?\w*CheckpointFunctionBackward$")),
    ("node", re.compile(r"autograd::engine::evaluate_function|[A-Za-z_]\w*Backward\d*$")),
    ("module", re.compile(r"nn\.Module: ")),
    ("hook", re.compile(r"(?:\S*/)?torch/utils/checkpoint\.py\(\d+\): (?:recompute_fn|unpack_hook)$")),
    ("optimizer", re.compile(r"Optimizer\.step#")),
)
_WORDS = ("", *(word for word, _ in _NAMES))
_CHECKPOINT, _NODE, _MODULE, _HOOK, _STEP = range(1, len(_WORDS))


@dataclass(frozen=True)
class PassCost:
    """The device work of a pass: so many pieces, `time` ns."""

    name: str
    time: int
    launched: int


@dataclass
class PassesAnswer:
    """What each pass of training takes, in the order of `PASSES`; `unlaunched` pieces of work have no known call."""

    passes: list[PassCost]
    unlaunched: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each pass that has work."""
        whole = sum(one.time for one in self.passes)
        columns = (Column("pass"), Column("time", "ns"), Column("share", "%"), Column("launched", "count"))
        rows: list[tuple[Cell, ...]] = [
            (one.name, one.time, percent(one.time, whole), one.launched) for one in self.passes
        ]
        said = f"The call of {self.unlaunched:,} pieces of work isn't known; they are among 'other'."
        return [Table(PASS, "device time by pass of training", columns, rows, [said] if self.unlaunched else [])]


class PassCosts:
    """Adds up the passes of sources."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of spans, by number."""
        self._meaning = np.array([_meaning(name) for name in names], np.int8)
        self._time, self._launched = np.zeros((2, len(PASSES)), np.int64)
        self._trains, self._unlaunched = False, 0

    def add(self, spans: Spans, mine: Bools, nests: Bools, ends: Ends, events: Events) -> None:
        """Adds the device work of a source; `mine` are the spans that aren't calls, `ends` arrows to the backward."""
        spans = spans.where(mine)
        calls, call = events.calls, events.call
        used = np.unique(call[call >= 0])
        forest = Forest.of(spans, calls["thread"][used], calls["ts"][used], nests, [])
        found = self._of_spans(spans, forest, ends)
        self._trains |= bool((found == _BACKWARD).any())
        of_call = np.full(len(calls["ts"]) + 1, _OTHER, np.int64)  # the last one is for work without a call
        of_call[used] = np.append(found, _OTHER)[forest.owner]
        self._unlaunched += int(np.count_nonzero(call < 0))
        np.add.at(self._time, of_call[call], events.dur)
        self._launched += np.bincount(of_call[call], minlength=len(PASSES))

    def _of_spans(self, spans: Spans, forest: Forest, ends: Ends) -> Int64:
        """The pass of what is directly in each span."""
        meaning = self._meaning[spans.name]
        begins = find((spans.thread, spans.begin), (ends.thread, ends.at)) >= 0
        found = np.full(len(spans), _OTHER, np.int64)
        for level in forest.levels():
            outer = np.append(found, _OTHER)[forest.parent[level]]
            mine = meaning[level]
            again = np.isin(mine, (_MODULE, _HOOK)) & (outer == _BACKWARD)
            first = ((mine == _MODULE) | begins[level]) & (outer == _OTHER)
            cases = [mine == _STEP, mine == _CHECKPOINT, mine == _NODE, again, first]
            found[level] = np.select(cases, [_OPTIMIZER, _RECOMPUTE, _BACKWARD, _RECOMPUTE, _FORWARD], outer)
        return found

    def answer(self) -> PassesAnswer | None:
        """The passes, None if there is no backward pass or no device work in any."""
        rows = zip(PASSES, self._time.tolist(), self._launched.tolist(), strict=True)
        passes = [PassCost(*row) for row in rows if row[2]]
        return PassesAnswer(passes, self._unlaunched) if self._trains and passes else None


def _meaning(name: str) -> int:
    """What the name of a span says, an index of `_WORDS`."""
    return next((place for place, (_, pattern) in enumerate(_NAMES, 1) if pattern.match(name)), 0)
