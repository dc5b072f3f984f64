"""Names among others: those near to one that doesn't exist, for messages, and one that is still free.

near("gemn", ["gemm", "softmax"])                  ["gemm"]
near("*gemn*", ["ampere_s16816gemm_fp16", "..."])  ["ampere_s16816gemm_fp16"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice


def unique_name(name: str, is_taken: Callable[[str], bool], separator: str = "#") -> str:
    """Returns the name, or where it is taken the name with the first free number from 2 on: run, run#2, run#3."""
    return FreeNames(is_taken, separator).free(name)


class FreeNames:
    """The same for many names, where one that is taken stays so: equal names take linear time."""

    def __init__(self, is_taken: Callable[[str], bool], separator: str = "#") -> None:
        self._is_taken = is_taken
        self._separator = separator
        self._last: dict[str, int] = {}

    def free(self, name: str) -> str:
        """Returns the name, or with the first free number."""
        number = self._last.get(name, 1)
        while self._is_taken(free := name if number == 1 else f"{name}{self._separator}{number}"):
            number += 1
        self._last[name] = number
        return free


#: How many names are compared, and how many characters of each: similarity takes quadratic time.
_COMPARED, _CHARACTERS = 2_000, 100

_WORD = re.compile(r"[a-z]{3,}")


def near(sought: str, names: Iterable[str], most: int = 5) -> list[str]:
    """Returns the names that contain the wanted one, whatever the case and without the stars of a pattern; then those
    that are spelled alike as a whole, then those with a word that is."""
    import difflib

    names = list(names)
    low = sought.strip("*").lower()[:_CHARACTERS]
    inside = [name for name in names if low and low in name.lower()]
    by_head: dict[str, str] = {}
    by_word: dict[str, str] = {}
    for name in islice(names, _COMPARED):
        by_head.setdefault(name[:_CHARACTERS].lower(), name)
        for word in _WORD.findall(name.lower()):
            by_word.setdefault(word[:_CHARACTERS], name)
    alike = [by_head[head] for head in difflib.get_close_matches(low, by_head, 3, 0.6)]
    alike += [by_word[word] for word in difflib.get_close_matches(low, islice(by_word, _COMPARED), 3, 0.75)]
    return list(dict.fromkeys([*inside[:3], *alike]))[:most]


def did_you_mean(sought: str, names: Iterable[str]) -> str | None:
    """The remedy for a name that doesn't exist: the nearest of these; None if there is none."""
    nearest = near(sought, names, 1)
    return f"did you mean {nearest[0]}?" if nearest else None
