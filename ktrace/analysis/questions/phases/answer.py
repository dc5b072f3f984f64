"""The answer of `ktrace summary --by phase` and `--by batch`: figures of the steps of each phase, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from ktrace.analysis.work.groups import Spread
from ktrace.model.arrays import Int64
from ktrace.tables import Cell, Column, Table, percent


@dataclass(frozen=True)
class PhaseUse:
    """The steps of a phase, or those with one batch size.

    `time` adds up the `times` of the steps (rising): from where the devices come to a step to the end of its work, or
    of its annotation; `span` and `busy` add up that of each device, and the part of it in which it does work of the
    step. `kernels` counts the kernels. `context` and `generation` are requests whose prompts are read, and that
    generate; `context_tokens` and `generation_tokens` are those that are computed for them; None if a step doesn't say.
    `per_token` is how long a request that generates waits for each token: from the start of a step that generates to
    that of the next one on its thread, whatever runs in between; None where steps yield several tokens, or none.
    `elapsed` adds up how long it takes from the start of a step to that of the next step of any phase on its thread.
    """

    phase: str
    batch: int | None
    time: int
    times: Int64 = field(repr=False, compare=False)
    span: int
    busy: int
    kernels: int
    step: Spread
    elapsed: int
    per_token: Spread | None = None
    context: int | None = None
    context_tokens: int | None = None
    generation: int | None = None
    generation_tokens: int | None = None
    tokens: int | None = None

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.times)

    @property
    def idle(self) -> int:
        """The time of all devices in steps without work of the step."""
        return self.span - self.busy

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens that are computed in a second, of the time from these steps to the next ones."""
        return None if self.tokens is None or not self.elapsed else self.tokens / self.elapsed * 1e9


_Figure = Callable[[PhaseUse, int], Cell]

#: The columns, and the figure of each; those that are brief are shown in a terminal.
_COMMON: tuple[tuple[Column, _Figure], ...] = (
    (Column("steps", "count"), lambda use, _: use.steps),
    (Column("time", "ns"), lambda use, _: use.time),
    (Column("share", "%"), lambda use, whole: percent(use.time, whole)),
    (Column("busy", "%"), lambda use, _: percent(use.busy, use.span)),
    (Column("kernels", "count"), lambda use, _: use.kernels),
    (Column("tokens", "count"), lambda use, _: use.tokens),
    (Column("tokens per s", "count"), lambda use, _: _rounded(use.tokens_per_s)),
    (Column("step median", "ns"), lambda use, _: use.step.median),
    (Column("step p95", "ns"), lambda use, _: use.step.p95),
    (Column("step max", "ns"), lambda use, _: use.step.max),
    (Column("per token", "ns"), lambda use, _: use.per_token.median if use.per_token else None),
    (Column("per token p95", "ns"), lambda use, _: use.per_token.p95 if use.per_token else None),
    (Column("idle", "ns"), lambda use, _: use.idle),
    (Column("context requests", "count"), lambda use, _: use.context),
    (Column("context tokens", "count"), lambda use, _: use.context_tokens),
    (Column("generation requests", "count"), lambda use, _: use.generation),
    (Column("generation tokens", "count"), lambda use, _: use.generation_tokens),
)
_BRIEF = ("steps", "time", "share", "busy", "kernels", "tokens per s", "step median", "per token")
_BRIEF_BATCHES = ("steps", "step median", "step p95", "tokens per s", "per token", "per token p95")


class PhasesAnswer(msgspec.Struct):
    """Where the time of the phases of inference went: by `phases`, and by `batches` within each phase.

    `by` is what was asked for: "phase", or "batch" for the batches alone.
    """

    by: str
    phases: list[PhaseUse]
    batches: list[PhaseUse]
    notes: list[str] = msgspec.field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The table of phases, or that of batches with at most `top` rows."""
        names: Sequence[str] = _BRIEF if brief else [column.name for column, _ in _COMMON]
        if self.by == "batch":
            names = _BRIEF_BATCHES if brief else names
            return [self._table("batch", "batches", ("batch",), names, self.batches, top, self.notes)]
        return [self._table("phase", "phases", (), names, self.phases, None, self.notes)]

    def _table(
        self,
        name: str,
        title: str,
        keys: Sequence[str],
        names: Sequence[str],
        uses: Sequence[PhaseUse],
        top: int | None,
        notes: list[str],
    ) -> Table:
        if not uses:
            return Table(name, title, (), [], notes)
        whole = sum(use.time for use in uses)
        columns = [one for one in _COMMON if one[0].name in names]
        heads = (Column("phase"), *(Column(key, "count") for key in keys), *(column for column, _ in columns))
        rows: list[tuple[Cell, ...]] = [
            (use.phase, *(getattr(use, key) for key in keys), *(figure(use, whole) for _, figure in columns))
            for use in uses[:top]
        ]
        return Table(name, title, heads, rows, notes, len(uses) - len(rows))


def _rounded(figure: float | None) -> float | None:
    """A rate with as many digits as it deserves."""
    return None if figure is None else round(figure) if figure >= 100 else round(figure, 2)
