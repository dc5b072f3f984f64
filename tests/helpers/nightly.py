"""What the default run tries some of, and the nightly run all (CONTRIBUTING.md).

@pytest.mark.parametrize("path", few(FILES, 2))  # the third and those after it are nightly
@settings(max_examples=examples(30))  # ten times as many with -m ""
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

import pytest

#: Whether tests of the nightly run are selected; conftest.py sets it before modules of tests are imported.
selected = False

_Param = type(pytest.param())


def examples(number: int) -> int:
    """How many examples hypothesis tries."""
    return 10 * number if selected else number


def few(
    values: Iterable[Any], keep: int | Callable[[Any], bool], by: Callable[[Any], Hashable] = lambda value: None
) -> list[Any]:
    """Values as parameters; those beyond the first `keep` of a group, or that `keep` doesn't choose, are nightly.

    The default run doesn't even collect what is nightly, unless all values are: thousands of tests in each process.
    """
    found, seen = [], Counter[Hashable]()
    for value in values:
        cells = value if isinstance(value, tuple) and not isinstance(value, _Param) else (value,)
        param = value if isinstance(value, _Param) else pytest.param(*cells)
        one = param.values[0] if len(param.values) == 1 else param.values
        seen[by(one)] += 1
        kept = seen[by(one)] <= keep if isinstance(keep, int) else keep(one)
        marks = param.marks if kept else [*param.marks, pytest.mark.nightly]
        found.append(pytest.param(*param.values, id=param.id, marks=marks))
    by_day = [param for param in found if not any(mark.name == "nightly" for mark in param.marks)]
    return found if selected or not by_day else by_day


def is_small(path: Path) -> bool:
    """Whether a real file is read and converted within a few tenths of a second."""
    return not path.exists() or path.stat().st_size < (60_000 if path.suffix == ".gz" else 400_000)
