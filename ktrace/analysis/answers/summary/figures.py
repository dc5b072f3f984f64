"""What benchmarks printed, in a finding each, for sources that have nothing but that: figures that don't add up.

nccl-tests              figures.bandwidth     the greatest bus bandwidth, and of which size
AUTOTUNE of Inductor    figures.choice        the fastest candidate, and how much faster than the next one
benchmark.Compare       figures.comparison    the fastest row, and how much longer the slowest takes
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ktrace.analysis.work.findings import Finding
from ktrace.model.json_text import load_object
from ktrace.tables import brief

Row = dict[str, Any]

_AUTOTUNE = "AUTOTUNE "

#: The unit of nccl-tests' bandwidths, in B/s.
_GB = 1e9


def figures(rows: Iterable[Row], formats: Iterable[str]) -> list[Finding]:
    """The findings of rows of the kind metric; `formats` are those of their inputs."""
    rows, given = list(rows), set(formats)
    facts: list[Finding] = []
    if given == {"nccl-tests"}:
        facts += _bandwidth(rows)
    elif given == {"inductor"}:
        facts += _choice(rows)
    elif given == {"torch-benchmark"}:
        facts += _comparison(rows)
    return facts


def _bandwidth(rows: Sequence[Row]) -> Iterator[Finding]:
    """The greatest bus bandwidth of a collective."""
    sized = [row for row in rows if row.get("args") and row.get("bytes") is not None]
    rates: list[tuple[Any, Row]] = [(load_object(row["args"]).get("busbw"), row) for row in sized]
    measured = [(float(rate), row) for rate, row in rates if isinstance(rate, (int, float))]
    if not measured:
        return
    rate, row = max(measured, key=lambda one: one[0])
    averages = [one["value"] for one in rows if one["metric"] == "bus bandwidth"]
    average = averages[0] * _GB if len(averages) == 1 else None
    subject = {"bytes": row["bytes"], "place": "in place" if row["name"].startswith("in-") else "out of place"}
    details = {"time_ns": row["avg"], "sizes": len({one["bytes"] for _, one in measured}), "average": average}
    yield Finding("figures.bandwidth", "bus bandwidth", rate * _GB, "B/s", None, "", subject, None, details)


def _timed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["metric"] == "duration" and (row.get("avg") or 0) > 0]


def _choice(rows: Sequence[Row]) -> Iterator[Finding]:
    """The fastest candidate for the problem that takes longest."""
    problems: defaultdict[str, list[Row]] = defaultdict(list)
    for row in _timed(rows):
        scope = str((row.get("scope") or [""])[0])
        if scope.startswith(_AUTOTUNE):
            problems[scope.removeprefix(_AUTOTUNE)].append(row)
    several = {problem: sorted(same, key=lambda row: row["avg"]) for problem, same in problems.items() if len(same) > 1}
    if several:
        problem = max(several, key=lambda one: several[one][0]["avg"])
        best, after = several[problem][:2]
        subject = {"problem": problem, "name": best["name"], "next": after["name"]}
        details = {"candidates": len(several[problem]), "next_ns": after["avg"], "problems": len(several)}
        yield Finding("figures.choice", "time", best["avg"], "ns", None, "", subject, None, details)


def _comparison(rows: Sequence[Row]) -> Iterator[Finding]:
    """The row that is fastest in most columns, where it is faster than the slowest by the greatest factor."""
    columns: defaultdict[tuple[str, Any, Any], list[tuple[str, Row]]] = defaultdict(list)
    for row in _timed(rows):
        args = load_object(row["args"]) if row.get("args") else {}
        column = str(args.get("column", ""))
        name = row["name"].removesuffix(f", {column}")
        columns[str((row.get("scope") or [""])[0]), args.get("threads"), column].append((name, row))
    compared = {
        key: sorted(entries, key=lambda one: one[1]["avg"]) for key, entries in columns.items() if len(entries) > 1
    }
    if not compared:
        return
    wins: defaultdict[str, int] = defaultdict(int)
    for entries in compared.values():
        wins[entries[0][0]] += 1
    name = max(wins, key=wins.__getitem__)
    of_name = {key: entries for key, entries in compared.items() if entries[0][0] == name}
    key = max(of_name, key=lambda one: of_name[one][-1][1]["avg"] / of_name[one][0][1]["avg"])
    (_, best), (slowest, last) = of_name[key][0], of_name[key][-1]
    subject = {"benchmark": key[0], "name": name, "column": key[2], "slowest": slowest}
    details = {"slowest_ns": last["avg"], "rows": len(of_name[key]), "first_in": wins[name], "columns": len(compared)}
    yield Finding("figures.comparison", "time", best["avg"], "ns", None, "", subject, None, details)


def _rate(per_second: float) -> str:
    """A bandwidth in GB/s; a small one with two digits."""
    rate = per_second / _GB
    return f"{rate:.1f} GB/s" if rate >= 1 or not rate else f"{rate:.2g} GB/s"


def sentence(one: Finding) -> str:
    """A finding of figures in words."""
    details, about = one.details, one.subject
    if one.code == "figures.bandwidth":
        of = f", of {details['sizes']:,} sizes" if int(details["sizes"] or 1) > 1 else ""
        at = f"at {about['bytes']:,} bytes {about['place']}{of}"
        mean = details["average"]
        average = f"; on average it is {_rate(mean)}" if isinstance(mean, float) else ""
        return f"The bus bandwidth is highest {at}: {_rate(one.value)}{average}."
    if one.code == "figures.choice":
        factor = float(details["next_ns"] or 0) / one.value
        more = f", of {details['problems']:,} problems the longest" if int(details["problems"] or 1) > 1 else ""
        best = f"{about['name']} is the fastest of {details['candidates']:,} candidates for {about['problem']}{more}"
        return f"{best}: {brief(one.value)}, {factor:.2f} times as fast as the next one, {about['next']}."
    factor = float(details["slowest_ns"] or 0) / one.value
    which = f"{about['benchmark']}: " if about["benchmark"] else ""
    first = f"{about['name']} is the fastest in {details['first_in']:,} of {details['columns']:,} columns"
    where = f" for {about['column']}" if about["column"] else ""
    times = f"{brief(float(details['slowest_ns'] or 0))} for {brief(one.value)}"
    return f"{which}{first}; {about['slowest']} takes {factor:.2f} times as long{where}: {times}."
