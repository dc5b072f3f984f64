"""Cost: what the time of devices costs at a price of a device-hour.

    $ ktrace summary run.json --price 2.5/h

The cost of a part of the time of steps (`ktrace.analysis.questions.breakdown`) is its time on all devices at that
price, so that the parts add up to the cost of all devices, idle or not. Where the source states the tokens of its
phases, these cost what all devices cost between the starts of one step and the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrace.analysis.answers.summary import COST, RECORDING
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.breakdown import SPOKEN_PARTS, BreakdownAnswer
from ktrace.analysis.questions.phases.answer import PhasesAnswer
from ktrace.analysis.work.question import Answer
from ktrace.errors import UsageError
from ktrace.report import counted
from ktrace.tables import Cell, Column, Table, cut, percent

#: The questions that it is made of.
NEEDS = ("breakdown", "phase")

_HOUR = 3600 * 10**9

_PRICE = re.compile(r"[^\d\s.,/-]{0,3}\s*(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(?:h|hr|hour))", re.IGNORECASE)

_MILLION = 1_000_000


def price_of(text: str) -> float:
    """The price of a device for an hour, in whatever currency: `2.5/h`.

    Raises UsageError if it isn't one.
    """
    price = _PRICE.fullmatch(text.strip())
    if price is None or not float(price[1]):
        raise UsageError(f"'{text}' isn't the price of a device", expected="a number an hour, such as 2.5/h")
    return float(price[1])


class CostAnswer(msgspec.Struct, frozen=True):
    """What the time of devices cost: `parts` (name, ns of all devices) at `price` an hour for each of `devices`.

    `steps` is their number, 0 without steps. `tokens` has each phase whose tokens are stated: name, how many, and the
    ns that they took.
    """

    price: float
    devices: int
    parts: list[tuple[str, int]]
    steps: int
    tokens: list[tuple[str, int, int]]

    def at_price(self, time: float) -> float:
        """The cost of so many ns of one device."""
        return time * self.price / _HOUR

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The parts with at most `top` rows, and what a million tokens of each phase cost."""
        whole = sum(time for _, time in self.parts)
        columns = [Column("part", spoken=SPOKEN_PARTS), Column("cost", "exact"), Column("share", "%")]
        columns += [Column("per million steps", "exact")] if self.steps else []
        rows: list[tuple[Cell, ...]] = [
            (name, self.at_price(time), percent(time, whole))
            + ((self.at_price(time) / self.steps * _MILLION,) if self.steps else ())
            for name, time in [("all", whole), *self.parts]
        ]
        title = f"cost of {counted(self.devices, 'device')} at {self.price:g} an hour each"
        tables = [cut(Table(COST, title, tuple(columns), rows), top)]
        if self.tokens:
            of_tokens = (
                Column("phase"),
                Column("tokens", "count"),
                *(Column(name, "exact") for name in ("cost", "per million tokens")),
            )
            tables.append(
                Table("cost tokens", "cost of tokens", of_tokens, [self._of_phase(*one) for one in self.tokens])
            )
        return tables

    def _of_phase(self, phase: str, tokens: int, time: int) -> tuple[Cell, ...]:
        cost = self.at_price(time) * self.devices
        return phase, tokens, cost, cost / tokens * _MILLION


def cost_of(price: float, summary: Summary) -> Mapping[str, Answer]:
    """The answer from those of `NEEDS`; a note instead of it without device work.

    Tokens are those of one source: several ranks state the same ones.
    """
    time, phases = (summary.answers.get(name) for name in NEEDS)
    if not isinstance(time, BreakdownAnswer):
        summary.notes.append(f"The cost isn't known. {RECORDING['breakdown']}")
        return {}
    uses = phases.phases if isinstance(phases, PhasesAnswer) and len(summary.sources) == 1 else []
    tokens = [(use.phase, use.tokens, use.elapsed) for use in uses if use.tokens and use.elapsed]
    parts = [(one.key, int(one.total)) for one in time.parts]
    return {COST: CostAnswer(price, len(summary.devices), parts, time.steps, tokens)}
