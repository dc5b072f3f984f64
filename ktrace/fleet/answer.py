"""What a fleet did in sentences, tables, and a map for a terminal.

64 ranks on 8 hosts · NVIDIA H100 80GB HBM3 · 2 stages · 6 steps, median 4.95 ms

Rank 3 (node0) is slow throughout: the slowest of 32 peers in 6 of 6 steps, and 290 us (5.8%) a step beyond ...

own time beyond the median of peers, in parts of a step     · 2%  ░ 5%  ▒ 10%  ▓ 20%  █ more
rank 0-3   ····▒·
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np

from ktrace.fleet.reduced import COMPUTED, IDLE, SPAN, RankTable
from ktrace.fleet.together import (
    CHANCE,
    CHRONIC,
    FEWEST_PEERS,
    FEWEST_STEPS,
    SLOW,
    Fleet,
    LinkUse,
    Straggler,
    best_bubble,
    medians,
    unjudged,
)
from ktrace.model.arrays import Float64, Int64
from ktrace.report import counted
from ktrace.tables import Cell, Column, Table, brief, cut, escape_controls, size
from ktrace.tables.text import BOLD, DIM, as_text, styled

#: The lines and columns of the map on a terminal, the rows of each table there, the ranks that a sentence names.
_LINES, _COLUMNS, _ROWS, _NAMED = 24, 60, 6, 4

#: From which part of a step on a cell has which sign; below the first it is blank.
_SIGNS = ((0.01, "·"), (0.02, "░"), (0.05, "▒"), (0.1, "▓"), (0.2, "█"))

#: An exchange in which the busiest rank gets at most this many times the mean is balanced.
_BALANCED = 1.02

#: A slow rank with the busiest experts is told on its own from so many times the time of the other busiest on.
_ALIKE = 1.25

#: Computing differs between stages from this factor on.
_UNEQUAL = 1.05

#: Waiting and steps are worth a sentence from this part on.
_WORTH = 0.01


#: What a finding costs a step, ns (-1 for what stands last), and its sentence.
_Told = tuple[float, str]


def name_of(table: RankTable) -> str:
    """The name of a rank: its number, else its file."""
    return f"rank {table.rank}" if table.rank is not None else table.label


def sentences(fleet: Fleet) -> list[str]:
    """The answer in sentences, what costs a step most first."""
    parts = (_chronic, _passing, _pipeline, _experts, _links, _waiting)
    ranked = [one for part in parts for one in part(fleet)]
    return [sentence for _, sentence in sorted(ranked, key=lambda one: -one[0])]


def notes(fleet: Fleet) -> list[str]:
    """What the recording lacks, and what the figures mean."""
    return [*_missing(fleet), *_steps_that_differ(fleet), *_unmatched(fleet)]


def head(fleet: Fleet) -> str:
    """A line that says what this is."""
    hosts = {one.host for one in fleet.ranks if one.host}
    on = f" on {counted(len(hosts), 'host')}" if hosts else ""
    models = Counter(one.model for one in fleet.ranks if one.model)
    parts = [f"{counted(len(fleet.ranks), 'rank')}{on}", *(model for model, _ in models.most_common(2))]
    parts += [counted(len(fleet.stages), "stage")] if fleet.stages else []
    steps = counted(len(fleet.steps), "step") + ", median " if fleet.steps else "no steps, median recording "
    return " · ".join([*parts, f"{steps}{brief(fleet.step)}", counted(sum(one.events for one in fleet.ranks), "event")])


def _chronic(fleet: Fleet) -> Iterator[_Told]:
    """The ranks that are slow throughout; those of one host together, where all of its ranks are."""
    busiest = dict(_busiest(fleet))
    usual = float(np.median([*busiest.values()])) if busiest else 0.0
    left = [one for one in fleet.chronic if one.place not in busiest or one.excess > _ALIKE * usual]
    for host, many in Counter(one.host for one in fleet.ranks if one.host).items():
        of_host = [one for one in left if fleet.ranks[one.place].host == host]
        if 1 < len(of_host) == many < len(fleet.ranks):
            left = [one for one in left if one not in of_host]
            median = float(np.median([one.excess for one in of_host]))
            numbers = _ranges(sorted(rank for one in of_host if (rank := fleet.ranks[one.place].rank) is not None))
            yield (
                median,
                f"All {many} ranks of {host} ({numbers}) are slow throughout: their own work takes {brief(median)} "
                f"({100 * median / fleet.step:.1f}%) a step beyond the median of their peers.",
            )
    for one in left[:_NAMED]:
        how = (
            f"the slowest of {one.peers:,} peers in {one.last:,} of {one.of:,} steps"
            if one.last * 2 > one.of
            else f"among the slowest sixteenth of {one.peers:,} peers in {len(one.steps):,} of {one.of:,} steps"
        )
        yield (
            one.excess,
            f"{_subject(fleet, one)} is slow throughout: {how}, by {brief(one.excess)} ({one.share:.1f}%) a step "
            f"beyond their median.",
        )
    if (more := len(left) - _NAMED) > 0:
        yield left[_NAMED].excess, f"{counted(more, 'more rank')} {_are(more)} slow throughout."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _busiest(fleet: Fleet) -> list[tuple[int, float]]:
    """The ranks with the busiest experts, where these are out of balance, and their time beyond their peers."""
    tables = [use.busiest for use in fleet.experts if use.factor > _BALANCED]
    beyond = _means(fleet.beyond())
    return [(at, float(beyond[at])) for at, one in enumerate(fleet.ranks) if any(one is table for table in tables)]


def _passing(fleet: Fleet) -> Iterator[_Told]:
    for one in fleet.passing[:_NAMED]:
        numbers = [str(fleet.steps[at]) for at in one.steps]
        steps = ", ".join(numbers[:_NAMED]) + (" and more" if len(numbers) > _NAMED else "")
        yield (
            one.excess * len(one.steps) / one.of,
            f"{_subject(fleet, one)} is slow for a while: in step{'s' * (len(numbers) > 1)} {steps} of {one.of:,} its "
            f"own work takes {brief(one.excess)} ({one.share:.1f}% of a step) longer than usual beside its peers.",
        )
    if (more := len(fleet.passing) - _NAMED) > 0:
        yield 0.0, f"{counted(more, 'more rank')} {_are(more)} slow for a while."
    if fleet.chronic or fleet.passing or unjudged(fleet) == len(fleet.ranks):
        return
    long = int(np.count_nonzero(medians(fleet.beyond().T) >= CHRONIC * fleet.step))
    doubtful = (
        f"{counted(long, 'rank')} {'takes' if long == 1 else 'take'} {100 * CHRONIC:.0f}% of a step and more beyond "
        "the peers, but steps are too few, or ranks too many alike, to tell that from chance."
    )
    yield 0.0, doubtful if long else "No rank stands out: none is slow throughout or for a while."


def _pipeline(fleet: Fleet) -> Iterator[_Told]:
    stages = fleet.stages
    if len(stages) < 2:
        return
    least, most = (of(stages, key=lambda one: one.bubble) for of in (min, max))
    line = (
        f"Pipeline bubbles are {least.bubble:.1f}% (stage {least.stage}) to {most.bubble:.1f}% (stage {most.stage}) "
        "of a step"
    )
    bound, over = best_bubble(fleet), most.bubble
    if bound:
        deep, micro, best = bound
        line += f"; {deep} stages and {micro} micro-batches have at least {best:.1f}% without interleaving"
        over -= best
    yield over * fleet.step / 100, f"{line}."
    computed = {one.stage: one.compute * one.step / 100 for one in stages}
    median = float(np.median([*computed.values()]))
    slowest = max(computed, key=lambda stage: computed[stage])
    if computed[slowest] >= _UNEQUAL * median:
        yield (
            computed[slowest] - median,
            f"Stages aren't equal: stage {slowest} computes {brief(computed[slowest])} a step, the median stage "
            f"{brief(median)}.",
        )


def _experts(fleet: Fleet) -> Iterator[_Told]:
    if not fleet.experts:
        return
    worst = fleet.experts[0]
    if worst.factor <= _BALANCED:
        yield 0.0, f"All-to-all is balanced: no rank gets more than {worst.factor:.2f} times the mean of its group."
        return
    median = float(np.median([one.factor for one in fleet.experts]))
    groups = f" (median of {len(fleet.experts):,} groups {median:.2f})" if len(fleet.experts) > 1 else ""
    yield (
        max(float(np.nanmedian([excess for _, excess in _busiest(fleet)])), 0.0),
        f"Experts are out of balance: the busiest rank of group {worst.group} gets {worst.factor:.2f} times the mean "
        f"of an exchange{groups}; most goes to {name_of(worst.busiest)}, {worst.share:.1f}% where {worst.even:.1f}% "
        "would be even.",
    )


def slow_links(fleet: Fleet) -> list[LinkUse]:
    """The groups and pairs that are slower than others alike beyond chance."""
    return [one for one in fleet.links if one.q is not None and one.q <= CHANCE and one.bandwidth < SLOW * one.usual]


def _links(fleet: Fleet) -> Iterator[_Told]:
    slow = sorted(slow_links(fleet), key=lambda one: -one.lost)
    steps = max(len(fleet.steps), 1)
    for one in slow[:_NAMED]:
        hosts = f" ({one.hosts})" if one.hosts else ""
        yield (
            one.lost / steps,
            f"The link of ranks {_short(one.members)}{hosts} is slow: {one.operation} of {size(one.size)} moves "
            f"{size(int(one.bandwidth))}/s, {100 * one.bandwidth / one.usual:.0f}% of the median of {one.alike:,} "
            f"alike, and takes {brief(one.lost / steps)} a {'step' if fleet.steps else 'recording'} longer.",
        )
    if (more := len(slow) - _NAMED) > 0:
        yield 0.0, f"{counted(more, 'more link')} {_are(more)} slow."


def _waiting(fleet: Fleet) -> Iterator[_Told]:
    part = float(np.nansum(fleet.waited) / np.nansum(fleet.times[SPAN])) if fleet.joined else 0.0
    if part >= _WORTH:
        yield (
            -1.0,
            f"Ranks wait for others in collectives for {100 * part:.1f}% of their "
            f"{'steps' if fleet.steps else 'recordings'}, with nothing else to do.",
        )


def _missing(fleet: Fleet) -> Iterator[str]:
    if fleet.report.failed:
        failed = len(fleet.report.failed)
        yield f"{counted(failed, 'input')} couldn't be read, and {_are(failed)} left out."
    there = Counter(one.rank for one in fleet.ranks if one.rank is not None)
    world = max((one.world for one in fleet.ranks if one.world is not None), default=0)
    missing = [rank for rank in range(world) if rank not in there]
    if missing:
        yield f"{len(missing):,} of {world:,} ranks {_are(len(missing))} missing: {_ranges(missing)}."
    if twice := [rank for rank, often in there.items() if often > 1]:
        occur = "occurs" if len(twice) == 1 else "occur"
        yield f"{counted(len(twice), 'rank')} {occur} more than once, each time on its own: {_ranges(sorted(twice))}."
    if unknown := sum(one.rank is None for one in fleet.ranks):
        yield f"The rank of {counted(unknown, 'recording')} isn't known; they have the names of their files."
    if cut_off := sum("cut" in one.issues for one in fleet.ranks):
        yield f"{counted(cut_off, 'recording')} {_are(cut_off)} cut off: the last steps may be missing."


def _steps_that_differ(fleet: Fleet) -> Iterator[str]:
    if not fleet.steps:
        yield "There are no steps: each recording counts as one, and who is slow throughout or for a while isn't known."
        return
    lacking = np.isnan(fleet.times[SPAN])
    without = [one for one in fleet.ranks if one.steps is None]
    if without:
        which = "has no steps, and is" if len(without) == 1 else "have no steps, and are"
        yield f"{counted(len(without), 'rank')} {which} left out of what is said of steps."
    some = lacking.any(axis=1) & ~lacking.all(axis=1)
    if some.any():
        common = int((~lacking.any(axis=0)).sum())
        lack = f"{counted(int(some.sum()), 'rank')} {'lacks' if some.sum() == 1 else 'lack'}"
        yield f"{lack} some of {len(fleet.steps):,} steps; {common:,} are on all ranks."
    if len(fleet.steps) < FEWEST_STEPS:
        few = len(fleet.steps)
        yield f"{counted(few, 'step')} {_are(few)} too few to tell who is slow throughout from who is for a while."
    elif lone := unjudged(fleet):
        yield (
            f"Whether {counted(lone, 'rank')} {_are(lone)} slow isn't known: it takes {FEWEST_PEERS} ranks with the "
            f"same work, and {FEWEST_STEPS} steps that they have in common."
        )


def _unmatched(fleet: Fleet) -> Iterator[str]:
    if fleet.incomplete:
        yield (
            f"{fleet.incomplete:,} of {fleet.joined:,} collectives lack some of their ranks: waiting there is at least "
            "what is said."
        )
    if fleet.alone:
        has = "has" if fleet.alone == 1 else "have"
        yield f"{counted(fleet.alone, 'collective')} {has} no counterpart on another rank."
    if fleet.unnamed:
        yield f"Not matched: {counted(fleet.unnamed, 'collective')} without a group, or with neither number nor step."
    hosts = {one.host for one in fleet.ranks}
    if fleet.joined and len(hosts) > 1:
        yield "No clocks are compared: a collective ends on all ranks at once; waiting is what it takes longer there."


def tables(fleet: Fleet, top: int | None = None) -> list[Table]:
    """Stragglers, stages, experts, links, and all ranks, the slowest first; at most `top` rows of each."""
    made = [_stragglers(fleet), _of_stages(fleet), _of_experts(fleet), _of_links(fleet), _of_ranks(fleet)]
    return [cut(one, top) for one in made if one.rows]


def _stragglers(fleet: Fleet) -> Table:
    columns = (
        *(Column("rank"), Column("host"), Column("slow"), Column("steps", "count"), Column("of", "count")),
        *(Column("slowest in", "count"), Column("own time beyond", "ns", title="beyond peers")),
        *(Column("own time beyond", "%", title="of a step"), Column("q", "exact"), Column("open")),
    )
    rows: list[tuple[Cell, ...]] = []
    for word, some in (("throughout", fleet.chronic), ("for a while", fleet.passing)):
        for one in some:
            table = fleet.ranks[one.place]
            figures = (len(one.steps), one.of, one.last, one.excess, one.share, float(f"{one.q:.2g}"))
            rows.append((_rank(table), table.host, word, *figures, _view(table)))
    return Table("stragglers", "slow ranks", columns, rows)


def _of_stages(fleet: Fleet) -> Table:
    shares = (Column(one, "%") for one in ("compute", "bubble", "least", "most", "collectives"))
    columns = (Column("stage", "count"), Column("ranks", "count"), Column("step", "ns"), *shares)
    return Table("stages", "stages of the pipeline", columns, [tuple(one) for one in fleet.stages])


def _of_experts(fleet: Fleet) -> Table:
    columns = (
        *(Column("group"), Column("ranks"), Column("exchanges", "count"), Column("moved", "B")),
        *(Column("busiest to mean", "x"), Column("busiest"), Column("share", "%"), Column("even", "%")),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in fleet.experts:
        figures = one.exchanges, one.moved, float(one.factor), _rank(one.busiest), one.share, one.even
        rows.append((one.group, _short(one.members), *figures))
    return Table("experts", "balance of experts", columns, rows)


def _of_links(fleet: Fleet) -> Table:
    columns = (
        *(Column("collective"), Column("ranks"), Column("hosts"), Column("size", "B"), Column("busbw", "B/s")),
        *(Column("usual", "B/s"), Column("of usual", "%"), Column("transfers", "count"), Column("alike", "count")),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in fleet.links:
        rate = one.bandwidth, one.usual, 100 * one.bandwidth / one.usual
        rows.append((one.operation, _short(one.members), one.hosts, one.size, *rate, one.transfers, one.alike))
    return Table("links", "links, the slowest beside others alike first", columns, rows)


def _of_ranks(fleet: Fleet) -> Table:
    names = ("step", "own", "beyond peers", "compute", "idle", "waited")
    times = (Column(name, "ns") for name in names)
    columns = (Column("rank"), Column("host"), Column("stage", "count"), *times, Column("open"))
    beyond = fleet.beyond()
    parts = (fleet.times[SPAN], fleet.own, beyond, fleet.times[COMPUTED], fleet.times[IDLE], fleet.waited)
    means = [_means(values) for values in parts]
    rows: list[tuple[Cell, ...]] = []
    for at in np.argsort(-np.nan_to_num(means[2], nan=-np.inf), kind="stable").tolist():
        one = fleet.ranks[at]
        figures = [None if np.isnan(values[at]) else float(values[at]) for values in means]
        stage = one.stage.number if one.stage else None
        rows.append((_rank(one), one.host, stage, *figures, _view(one)))
    return Table("ranks", "ranks, the slowest first: means of a step", columns, rows)


def _means(values: Float64) -> Float64:
    there = ~np.isnan(values)
    means: Float64 = np.where(there.any(axis=1), np.nansum(values, axis=1) / np.maximum(there.sum(axis=1), 1), np.nan)
    return means


def document(fleet: Fleet) -> dict[str, Any]:
    """The answer for programs: sentences, notes, and all tables."""
    rows = {
        one.key: [dict(zip((column.key for column in one.columns), row, strict=True)) for row in one.rows]
        for one in tables(fleet)
    }
    return {"verdict": sentences(fleet), "notes": fleet.notes, "steps": fleet.steps, "tables": rows}


def screen(fleet: Fleet, *, width: int | None = None, colour: bool = False) -> str:
    """The answer for a terminal, in less than 100 lines."""
    from textwrap import wrap

    wide = width or 100
    lines = [*(styled(line, BOLD, colour) for line in wrap(escape_controls(head(fleet)), wide)), ""]
    listed = [line for one in sentences(fleet) for line in wrap(escape_controls(one), wide, break_on_hyphens=False)]
    lines += [*listed, ""] if listed else []
    lines += map_lines(fleet, wide) if fleet.steps else []
    slow = slow_links(fleet)
    shown = [one for one in tables(fleet, _ROWS) if one.name != "ranks" and (one.name != "links" or slow)]
    if shown and shown[0].name == "stragglers":  # without the commands, which stand below
        rows = [row[:-1] for row in shown[0].rows]
        shown[0] = replace(shown[0], columns=shown[0].columns[:-1], rows=rows)
    text = as_text(shown, width=wide, colour=colour)
    opened = [fleet.ranks[one.place] for one in (*fleet.chronic, *fleet.passing)][:_NAMED]
    ends = [_view(one) for one in opened]
    ends += [styled(line, DIM, colour) for note in fleet.notes for line in wrap(escape_controls(note), wide)]
    parts = ["\n".join(lines).rstrip("\n") + "\n", text, "".join(f"{line}\n" for line in ends)]
    return "\n".join(part for part in parts if part)


def lines_of(fleet: Fleet, most: int) -> list[Int64]:
    """The places of the ranks of each line of a map that has at most so many."""
    places = np.arange(len(fleet.ranks))
    size_of_line = -(-len(places) // most)
    return [places[first : first + size_of_line] for first in range(0, len(places), size_of_line)]


def cells_of(values: Float64, lines: Sequence[Int64], most: int) -> Float64:
    """The most of the ranks and steps of each cell, (line, column); at most `most` columns. 0 of what isn't known."""
    values = np.nan_to_num(values)
    columns = np.array_split(np.arange(values.shape[1]), min(most, values.shape[1]))
    return np.array([[values[np.ix_(line, steps)].max() for steps in columns] for line in lines])


def map_lines(fleet: Fleet, width: int) -> list[str]:
    """The map of rank by step; a line is several ranks where there are many, and shows the slowest of them."""
    lines = lines_of(fleet, _LINES)
    names = [_line_name([fleet.ranks[at] for at in line]) for line in lines]
    label = max(map(len, names))
    cells = cells_of(fleet.beyond() / fleet.step, lines, max(1, min(_COLUMNS, width - label - 3)))
    signs = "   ".join(f"{sign} {100 * part:.0f}%" for part, sign in _SIGNS)
    made = [f"own time of a step beyond the median of the peers, in parts of a step:   {signs}"]
    first, last = fleet.steps[0], fleet.steps[-1]
    columns = f"steps {first} to {last} from left to right" if first < last else f"step {first}"
    made += [f"{columns}; the slowest rank of each line"]
    drawn = np.array([" ", *(sign for _, sign in _SIGNS)])[np.digitize(cells, [part for part, _ in _SIGNS])]
    return made + [f"{name:>{label}}  {''.join(row)}".rstrip() for name, row in zip(names, drawn, strict=True)]


def _line_name(ranks: Sequence[RankTable]) -> str:
    first, last = _rank(ranks[0]), _rank(ranks[-1])
    return first if first == last else f"{first}-{last}"


def _rank(table: RankTable) -> str:
    return str(table.rank) if table.rank is not None else escape_controls(table.label)[-16:]


def _view(table: RankTable) -> str:
    """The line that opens a rank."""
    return f"ktrace view {quote(table.path)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers in short: 0 to 7, 12, 14."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    words = [str(one[0]) if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in groups]
    return ", ".join(words[:_NAMED]) + (f" and {len(words) - _NAMED:,} more" if len(words) > _NAMED else "")


def _short(members: str) -> str:
    return members if len(members) <= 24 else f"{members[:14]} ... {members[-8:]}"


def _subject(fleet: Fleet, one: Straggler) -> str:
    """A rank at the start of a sentence, with its host."""
    table = fleet.ranks[one.place]
    name = name_of(table)
    return f"{name[:1].upper()}{name[1:]}" + (f" ({table.host})" if table.host else "")
