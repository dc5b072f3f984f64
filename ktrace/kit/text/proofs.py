"""What the figures of a table prove of its columns, where no heading says it.

3.82%  365.56ms  452  808.77us  613.98us  1.1781ms  gemm     the time is the count times the mean,
3.23%  309.42ms    3  103.14ms  102.48ms  104.10ms  fft      which is between the two others

gemm   10 us  500 us  510 us        a time that is what is between the two others, which go up: an event

Total Execution Time: 12.5 s        the shares in the cells are those of the total:
10.0 ( 80.0%)  lower                its unit is that of the column
 2.5 ( 20.0%)  parse

type  time  share  region
ALL   10.0  100.0  ALL              a row that is called as its group is the sum of those that are in it
USR    8.0   80.0  USR
USR    6.0   60.0  solve
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import pairwise, permutations
from math import prod
from typing import NamedTuple

from .headings import TIME_WORDS, Heading, as_int64, figure, is_time, is_total, share_in
from .layouts import LONGEST_HEADER, Words, label_of
from .numbers import Quantity, nanoseconds

#: Figures of a row, at least, and rows that prove what they are, one more with the fewest; rows that are looked at.
_FEWEST_FIGURES, _FEWEST_ROWS, _MOST_ROWS = 3, 2, 64
_MOST_COLUMNS = 16

#: The times of an event; the fewest events that show which is which.
_SPAN, _FEWEST_EVENTS = ("dur", "start", "end"), 3

#: Figures of one kind agree to so much of the greater one, as programs round them.
_ROUNDED = Decimal("0.005")

_TIME = re.compile(rf"(?<![\w.])\d[\d.,]{{0,40}} ?(?:{TIME_WORDS})(?!\w)", re.IGNORECASE)
_STATED = re.compile(
    rf"\btotal (?:[a-z]{{2,12}} ){{0,2}}(?:time|duration)\s?[:=]\s?(\d[\d.,]{{0,30}})\s?({TIME_WORDS})\b", re.IGNORECASE
)
#: Names of rows one of which is compared with the others.
_COMPARED = re.compile(
    r"(?i)(?:ours|theirs|baseline|this (?:pr|branch|work|patch|change)|(?:before|after)(?= this| the|[,:]|$))(?!\w)"
)
_WHOLE = (Decimal("99.95"), Decimal("100.05"))
_MOST_SHARES = Decimal("101")

#: Rows of which one may be the sum of all others, at least; so many times what is rounded it is.
_FEWEST_PARTS, _LEAST_DIGITS = 4, 25

#: Names of rows that may be the sums of some others.
_SUBTOTAL = re.compile(r"(?i)(?<![a-z])(?:sub)?-?totals?(?![a-z])|(?<![a-z])sum(?![a-z])|合计|小计|总计")

_DIGITS = re.compile(r"\d{1,9}")

#: Wholes of which shares are, that are so many times as large as others, are different ones.
_APART = Decimal("1.5")


class BareTable(NamedTuple):
    """Rows without headings: their layout, headings in the words of what is proven, and field -> index."""

    layout: Words
    headings: tuple[Heading, ...]
    fields: dict[str, int]


def may_be_bare(text: str) -> bool:
    """Whether a line may be a row whose figures prove what they are: it has two times and other figures."""
    return len(text) <= LONGEST_HEADER and len(_TIME.findall(text)) > 1 and text.count(" ") >= _FEWEST_FIGURES


def bare_table(text: str, peek: Callable[[int], str | None]) -> BareTable | None:
    """The table of which a line is the first row, if it and those below prove which figure is which; else None.

    They do if one time is another one times a whole number in all rows, and no other pair of columns is.
    """
    if not may_be_bare(text):
        return None
    label = label_of(text)
    for count in range(_FEWEST_FIGURES + 1, _MOST_COLUMNS):
        layout = Words(count, labelled=bool(label))
        if (pieces := layout.split(text)) and _are_apart(pieces):
            return _proven(layout, _rows(layout, text, peek), label or "name")
    return None


def _are_apart(pieces: Sequence[str]) -> bool:
    """Whether the name, the first or the last piece, has no cells of others: no figure beside it."""
    first, last = pieces[0].split()[-1], pieces[-1].split()[0]
    return (figure(pieces[0]) is None and figure(first) is None) or (
        figure(pieces[-1]) is None and figure(last) is None
    )


def _rows(layout: Words, text: str, peek: Callable[[int], str | None]) -> list[list[str]]:
    rows: list[list[str]] = []
    line: str | None = text
    while line is not None and len(rows) < _MOST_ROWS and (pieces := layout.split(line)):
        rows.append([piece.strip() for piece in pieces])
        line = peek(len(rows))
    return rows


def _proven(layout: Words, rows: Sequence[Sequence[str]], name: str) -> BareTable | None:
    columns = [[figure(row[index]) for row in rows] for index in range(layout.columns)]
    names = [index for index in (0, layout.columns - 1) if not any(columns[index])]
    if len(rows) < _FEWEST_ROWS + (layout.columns == _FEWEST_FIGURES + 1) or len(names) != 1:
        return None
    times = {index: parsed for index, column in enumerate(columns) if (parsed := _as_times(column))}
    counts = {index: parsed for index, column in enumerate(columns) if (parsed := _as_counts(column))}
    if timeline := _timeline(columns, times, names[0]):
        words = {index: name if field == "name" else field for field, index in timeline.items()}
        return BareTable(layout, _unit_free(words, layout.columns), timeline)
    if len({row[names[0]] for row in rows}) * 4 < len(rows) * 3:  # the word that a loop logs
        return None
    proofs = [
        (total, mean, count)
        for total, mean in permutations(times, 2)
        for count in counts
        if max(counts[count]) > 1
        and all(
            _agree(one * often, every)
            for one, often, every in zip(times[mean], counts[count], times[total], strict=True)
        )
    ]
    if len(proofs) != 1:
        return None
    total, mean, count = proofs[0]
    fields = {"name": names[0], "total": total, "avg": mean, "count": count}
    others = [index for index in times if index not in (total, mean)]
    for field, low, high in (("min", None, mean), ("max", mean, None)):
        bounds = [
            index
            for index in others
            if all(
                below <= above * (1 + _ROUNDED)
                for below, above in zip(
                    times[index if low is None else low], times[index if high is None else high], strict=True
                )
            )
        ]
        if len(bounds) == 1:
            fields[field] = bounds[0]
    shares = [index for index, column in enumerate(columns) if all(read and read.unit == "%" for read in column)]
    if len(shares) == 1:
        fields["percent"] = shares[0]
    words = {index: name if field == "name" else field for field, index in fields.items()}
    return BareTable(layout, _unit_free(words, layout.columns), fields)


def _unit_free(words: dict[int, str], count: int) -> tuple[Heading, ...]:
    """Headings without units, in the words of what is proven."""
    texts = (words.get(index, f"column {index + 1}") for index in range(count))
    return tuple(Heading(text, text, "") for text in texts)


def _timeline(
    columns: Sequence[Sequence[Quantity | None]], times: dict[int, list[Decimal]], name: int
) -> dict[str, int] | None:
    """The fields of events: one of three times is what is between the two others, which go up, in all rows."""
    if len(times) != len(_SPAN) or len(columns[name]) < _FEWEST_EVENTS:
        return None
    exact = {index: max(_digit(read) for read in columns[index] if read) for index in times}
    for places in permutations(times):
        length, start, end = (times[place] for place in places)
        close = sum(exact[place] for place in places)
        fits = all(abs(stop - begin - dur) <= close for dur, begin, stop in zip(length, start, end, strict=True))
        if fits and all(a <= b for a, b in pairwise(start)) and start[0] < start[-1] and max(length) > 0:
            return {"name": name} | dict(zip(_SPAN, places, strict=True))
    return None


def _digit(read: Quantity) -> Decimal:
    """The last digit of a time, in ns."""
    return nanoseconds(_last_digit(read.number), read.unit) or Decimal(0)


def _as_times(column: Iterable[Quantity | None]) -> list[Decimal]:
    """The times of a column in ns, [] if it has others."""
    times = [nanoseconds(read.number, read.unit) if read and is_time(read.unit) else None for read in column]
    return [time for time in times if time is not None] if None not in times else []


def _as_counts(column: Sequence[Quantity | None]) -> list[Decimal]:
    """The whole numbers of a column, [] if it has others."""
    are_whole = all(read and not read.unit and (as_int64(read.number) or 0) > 0 for read in column)
    return [read.number for read in column if read] if are_whole else []


def _agree(one: Decimal, other: Decimal) -> bool:
    return abs(one - other) <= max(one, other) * _ROUNDED


def unit_of_shares(
    texts: Iterable[str], headings: Sequence[Heading], rows: Iterable[Sequence[str]]
) -> tuple[str, list[int]]:
    """The unit of a total that a text above states, and the columns whose cells have shares of it; "" for none.

    Of the columns without a unit those are meant in which each figure is its share of the total, as it is rounded.
    The rows are looked at only where a text states a total.
    """
    for text in texts:
        stated = _STATED.search(text) if "total" in text.lower() else None  # a tenth of the time, for most lines
        read = figure(f"{stated[1]} {stated[2]}") if stated else None
        if not read or read.number <= 0:
            continue
        examined = list(rows)
        columns = [
            index
            for index, head in enumerate(headings)
            if not head.unit and _are_of(read.number, [row[index] for row in examined if index < len(row)])
        ]
        if columns:
            return read.unit, columns
    return "", []


def _are_of(total: Decimal, cells: Sequence[str]) -> bool:
    """Whether figures with shares behind them are these shares of a total: some of at least 1 %."""
    largest = Decimal(0)
    for cell in filter(None, cells):
        read, share = figure(cell), share_in(cell)
        if read is None or read.unit or share is None:
            return False
        part, places = Decimal(str(share)), -min(int(read.number.as_tuple().exponent), 0)
        largest = max(largest, part)
        if abs(read.number - total * part / 100) > total * Decimal("0.001") + Decimal(10) ** -places:
            return False
    return len(cells) >= _FEWEST_ROWS and largest >= 1


def sums_of(
    headings: Sequence[Heading], fields: dict[str, int], rows: Sequence[Sequence[str]]
) -> tuple[frozenset[str], frozenset[str]]:
    """The names of rows that are sums of others: those of wholes, and those of a few rows beside them.

    By their shares, where all are more than 100 % and without those they aren't: rows that are called as the group that
    others are in, and one of 100 %. By its time: the first or the last row, if it is what all others take together, and
    a row that is called a total, if it is what those right above or below take.
    """
    name, time = fields.get("name"), fields.get("total", fields.get("value"))
    whole = [row for row in rows if len(row) == len(headings) and name is not None and not is_total(row[name])]
    if name is None or len(whole) < _FEWEST_ROWS:
        return frozenset(), frozenset()
    shares = _shares(whole, name, fields.get("percent"), time)
    groups = set(range(len(headings))) - set(fields.values())
    named = {(row[name], index) for row in whole for index in groups if row[index] == row[name]}
    are_groups = any((row[index], index) in named and row[index] != row[name] for row in whole for index in groups)
    sums = {word for word, _ in named} if are_groups else set()
    full = {word for word, share in shares if _WHOLE[0] <= share <= _WHOLE[1]}
    sums |= full if len(full) == 1 else set()
    times = [(row[name], figure(row[time])) for row in whole] if time is not None else []
    if subtotals := _subtotals(times):
        return frozenset(), subtotals
    rest, every = (sum(share for word, share in shares if word not in out) for out in (sums, set()))
    if 0 < rest <= _MOST_SHARES < every:
        return frozenset(sums), frozenset()
    if not times or (len(shares) == len(whole) and every <= _MOST_SHARES):  # a sum would make them more
        return frozenset(), frozenset()
    return _of_all_others(times), frozenset()


def _subtotals(rows: Sequence[tuple[str, Quantity | None]]) -> frozenset[str]:
    """The names of rows that are called a total and take what some rows right above or below take together."""
    subtotals = set()
    for place, (name, read) in enumerate(rows):
        if read and _SUBTOTAL.search(name):
            sides = [[one for _, one in side] for side in (rows[:place][::-1], rows[place + 1 :])]
            subtotals |= {name} if any(1 < _count_of(read, side) < len(rows) - 1 for side in sides) else set()
    return frozenset(subtotals)


def _count_of(whole: Quantity, parts: Sequence[Quantity | None]) -> int:
    """How many of the first parts a figure is the sum of, to the last digit of any of them; 0 if it isn't one."""
    rest, digit = whole.number, _last_digit(whole.number)
    for count, part in enumerate(parts, 1):
        if part is None or part.unit != whole.unit or not part.number.is_finite() or part.number <= 0:
            return 0
        rest -= part.number
        if abs(rest) <= max(digit, _last_digit(part.number) * count):
            return count
    return 0


def _of_all_others(rows: Sequence[tuple[str, Quantity | None]]) -> frozenset[str]:
    """The name of the first or the last row, if its time is the sum of all others, as they are rounded."""
    figures = [(name, read) for name, read in rows if read and read.number.is_finite() and read.number > 0]
    if len(figures) < _FEWEST_PARTS or len({read.unit for _, read in figures}) > 1:
        return frozenset()
    exact = sum((_last_digit(read.number) for _, read in figures), Decimal(0)) / 2
    for name, read in (figures[-1], figures[0]):
        rest = sum((other.number for _, other in figures), -read.number)
        if abs(read.number - rest) <= exact and exact * _LEAST_DIGITS < read.number:
            return frozenset((name,))
    return frozenset()


def _last_digit(number: Decimal) -> Decimal:
    return Decimal(1).scaleb(min(int(number.as_tuple().exponent), 0))


def add_up(
    headings: Sequence[Heading], fields: dict[str, int], rows: Sequence[Sequence[str]], sums: frozenset[str]
) -> bool | None:
    """Whether rows show that they add up, with one for their sum, or that they don't; None if they show neither.

    They don't if their shares are of several wholes; nor if a row is called `ours`, which others are compared with, or
    if plain times are those of one work in several ways or of several sizes. Shares of one whole that are more than
    100 % are of rows within others.
    """
    name, percent = fields.get("name"), fields.get("percent")
    if name is None or not rows:
        return None
    whole = [row for row in rows if len(row) == len(headings) and row[name] not in sums and not is_total(row[name])]
    if any(_COMPARED.match(row[name].strip("*` ")) for row in whole):
        return False
    shares = [share for _, share in _shares(whole, name, percent, None)] if percent is not None else []
    is_more = sum(shares) > _MOST_SHARES + len(shares) / Decimal(2)
    if is_more and percent is not None and _differ(_wholes(headings, fields, whole, percent)):
        return False
    if _are_of_several(headings, fields, whole) or _are_alternatives(headings, fields, whole):
        return False
    return True if sums or len(whole) < len(rows) else None


def _are_alternatives(headings: Sequence[Heading], fields: dict[str, int], rows: Sequence[Sequence[str]]) -> bool:
    """Whether plain times are of one work in several ways, by a rate beside them, of several sizes or types."""
    if not fields.keys().isdisjoint(("total", "count", "percent", "start")):
        return False
    names = [row[fields["name"]] for row in rows]
    times = [_time_of(fields, headings, row) for row in rows]
    stated = [time for time in times if time]
    others = [index for index in range(len(headings)) if index not in fields.values()]
    columns = [[row[index] for row in rows] for index in others]
    numbers = [[read.number for cell in column if (read := figure(cell))] for column in columns]
    is_one = len({*names}) == 1 and any(
        len({*column}) == len(rows) > 2 and not any(map(figure, column)) for column in columns
    )
    return is_one or are_sizes(names) or (len(stated) == len(rows) and any(is_same_work(stated, it) for it in numbers))


def are_sizes(names: Sequence[str]) -> bool:
    """Whether names are one with several sizes, `mm 512`, `mm 1024`, `mm 2048`: not its parts, numbered one by one."""
    stems = {_DIGITS.sub("0", name) for name in names}
    sizes = sorted({prod(map(int, numbers)) for name in names if (numbers := _DIGITS.findall(name))})
    if len(names) < _FEWEST_EVENTS or len(stems) > 1 or len(sizes) < len(names):
        return False
    pairs = list(pairwise(sizes))
    return all(2 * b >= 3 * a for a, b in pairs) and any(b - a > 1 for a, b in pairs)


def is_same_work(times: Sequence[Decimal], rates: Sequence[Decimal]) -> bool:
    """Whether times that differ are those of the same work: times the rates beside them they are equal."""
    are_rates = len(rates) == len(times) and all(rate.is_finite() and rate > 0 for rate in rates)
    if len(times) < _FEWEST_EVENTS or not are_rates or min(times) <= 0:
        return False
    work = [time * rate for time, rate in zip(times, rates, strict=True)]
    return max(times) > min(times) * Decimal("1.1") and max(work) <= min(work) * Decimal("1.03")


def _are_of_several(headings: Sequence[Heading], fields: dict[str, int], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column of shares of the time has those of several wholes, by the totals of the rows."""
    shares = [
        index
        for index, head in enumerate(headings)
        if index not in fields.values() and "time" in head.key and ("share" in head.key or head.unit == "%")
    ]
    return any(_differ(_wholes(headings, fields, rows, index)) for index in shares)


def _wholes(
    headings: Sequence[Heading], fields: dict[str, int], rows: Sequence[Sequence[str]], percent: int
) -> list[Decimal]:
    """What the shares in a column are of, by the time of each row."""
    return [
        time / share.number
        for row in rows
        if (share := figure(row[percent])) and share.number >= 1 and (time := _time_of(fields, headings, row))
    ]


def _differ(wholes: Sequence[Decimal]) -> bool:
    return len(wholes) > 1 and max(wholes) > min(wholes) * _APART


def _time_of(fields: dict[str, int], headings: Sequence[Heading], row: Sequence[str]) -> Decimal | None:
    """The time of a row in ns, or its average times its count."""
    field = next((field for field in ("total", "value", "avg") if field in fields), "")
    read = figure(row[fields[field]]) if field else None
    time = nanoseconds(read.number, read.unit or headings[fields[field]].unit) if read else None
    if field != "avg" or time is None:
        return time
    count = figure(row[fields["count"]]) if "count" in fields else None
    return time * count.number if count else None


def _shares(
    rows: Sequence[Sequence[str]], name: int, percent: int | None, time: int | None
) -> list[tuple[str, Decimal]]:
    """The names of rows and their shares, of those that have one."""
    shares = [(row[name], _share(row, percent, time)) for row in rows]
    return [(word, share) for word, share in shares if share is not None and share.is_finite()]


def _share(row: Sequence[str], percent: int | None, time: int | None) -> Decimal | None:
    """The share of a row, in a column of its own or behind its time."""
    if percent is not None:
        read = figure(row[percent])
        return read.number if read else None
    share = share_in(row[time]) if time is not None else None
    return None if share is None else Decimal(str(share))


def contradict(total: float, count: int, mean: float) -> bool:
    """Whether a total isn't near a count times its mean: then it is no sum of that many."""
    return min(total, count, mean) > 0 and not total / 2 <= mean * count <= total * 2
