"""Why a filter found nothing: which option no row passes, and what there is instead.

--name '*gemn*'    no name matches '*gemn*'     gemm, gemm_splitk
--device 4         no row is on device 4        the devices 0, 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ktrace.errors import InputError
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.times import time_text
from ktrace.naming.near import near

if TYPE_CHECKING:
    from ktrace.stages.select.filter import Filter

#: How many names are remembered, and how many of them a message lists.
_REMEMBERED, _SHOWN = 20_000, 8


class Unmatched:
    """Remembers what there is for each option that no row has passed yet."""

    def __init__(self, wanted: Filter) -> None:
        self._wanted = wanted
        self._passed: set[str] = set()
        self._there: dict[str, dict[str | int, None]] = {}

    def look(self, batch: Batch, failed: Mapping[str, Bools]) -> None:
        """Looks at the rows of a batch and at those that fail each option."""
        for option, mask in failed.items():
            if option in self._passed:
                continue
            if not mask.all():
                self._passed.add(option)
                self._there.pop(option, None)
                continue
            there = self._there.setdefault(option, {})
            for column in _COLUMNS.get(option, ()):
                if batch.has(column) and len(there) < _REMEMBERED:
                    unique = decoded(batch.column(column).drop_null().unique())
                    there.update(dict.fromkeys(unique.to_pylist()))
            if option == "--min-dur" and (longest := pc.max(batch.column("dur")).as_py()) is not None:
                self._there[option] = {max(longest, *map(int, there)) if there else longest: None}

    def error(self) -> InputError:
        """The error for a filter that no row passes."""
        alone = [option for option in self._there if option not in self._passed]
        if not alone:
            both = " and ".join(sorted(self._passed)) or "the filter"
            return InputError(f"no row passes {both} together", remedy="leave out one of them")
        option = alone[0]
        there = list(self._there[option])
        what, expected = _WORDS[option](self._wanted, [*there])
        return InputError(what, expected=expected, remedy=_REMEDIES.get(option))


_Words = Callable[["Filter", list[str | int]], tuple[str, str | None]]

_COLUMNS = {
    "--name": ("name", "short_name"),
    "--kind": ("kind",),
    "--device": ("device",),
    "--stream": ("stream",),
}

_REMEDIES = {"--name": "use the whole name, or a pattern such as '*part of it*'"}


def _named(wanted: Filter, there: list[str | int]) -> tuple[str, str | None]:
    names = [str(name) for name in there]
    alike = list(dict.fromkeys(name for pattern in wanted.names for name in near(pattern, names)))
    shown = (alike or names)[:_SHOWN]
    expected = f"one of {len(names):,} names, such as {', '.join(shown)}" if shown else None
    return f"no name matches {' or '.join(repr(pattern) for pattern in wanted.names)}", expected


def _kinds(wanted: Filter, there: list[str | int]) -> tuple[str, str | None]:
    return f"there is no row of kind {' or '.join(wanted.kinds)}", _listed("kinds", sorted(map(str, there)))


def _numbers(word: str, field: str) -> _Words:
    def words(wanted: Filter, there: list[str | int]) -> tuple[str, str | None]:
        asked = " or ".join(map(str, getattr(wanted, field)))
        return f"no row is on {word} {asked}", _listed(f"{word}s", sorted(map(int, there)))

    return words


def _listed(word: str, there: list[str] | list[int]) -> str | None:
    more = ", ..." if len(there) > _SHOWN else ""
    return f"one of the {word} {', '.join(map(str, there[:_SHOWN]))}{more}" if there else f"an input with {word}"


def _short(wanted: Filter, there: list[str | int]) -> tuple[str, str | None]:
    least = wanted.min_dur if isinstance(wanted.min_dur, int) else 0
    longest = f"at most {time_text(int(there[0]))}, the longest slice" if there else None
    return f"no row lasts {time_text(least)} (--min-dur)", longest


_WORDS: dict[str, _Words] = {
    "--name": _named,
    "--kind": _kinds,
    "--device": _numbers("device", "devices"),
    "--stream": _numbers("stream", "streams"),
    "--min-dur": _short,
    "--only-gpu": lambda wanted, there: ("no row is on a device (--only-gpu)", None),
    "--rank": lambda wanted, there: ("the wanted ranks have no rows", None),
}
