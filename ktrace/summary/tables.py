"""A summary as tables: what it is of, what each device did, and where the time went by this and that."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.rendering.table import Cell, Column, Table
from ktrace.summary.model import UNCLASSIFIED, DeviceUse, Group, Spread, Summary

#: So many sources are named.
_SOURCES = 3

#: What is counted, for people.
_WORK = {"events": "events of device work", "statistics": "statistics", "host": "what the host did"}


#: Figures of a group beside count and total; the first are those for people.
_BRIEF = ("average", "median", "p95", "max")
_FIGURES = ("average", "median", "p95", "p99", "min", "max")


def tables(
    summary: Summary, by: Sequence[str] | None = None, top: int | None = None, *, brief: bool = False
) -> list[Table]:
    """The tables `overview`, `devices`, `waits`, `steps`, and one named after each of `by`; see `Summary.tables`."""
    found = [_overview(summary)]
    if summary.devices:
        found += [_devices(summary.devices, brief), _waits(summary.devices)]
    if summary.step_use:
        found.append(_steps(summary, top))
    wanted = list(summary.groups) if by is None else [name for name in by if name in summary.groups]
    if summary.runs:
        for run, one in summary.runs.items():
            found += [_by(name, one, top, brief, run) for name in wanted if name in one.groups and name != "run"]
        wanted = [name for name in wanted if name == "run"]
    return found + [_by(name, summary, top, brief) for name in wanted]


def _overview(summary: Summary) -> Table:
    columns = (
        Column("source"),
        Column("counted"),
        Column("rows", "count"),
        Column("total", summary.unit),
        Column("span", "ns"),
    )
    span = summary.span[1] - summary.span[0] if summary.span else None
    sources = ", ".join(summary.sources[:3]) + (
        f" and {len(summary.sources) - 3:,} more" if summary.sources[3:] else ""
    )
    row = (sources, _WORK[summary.work], summary.count, summary.total, span)
    return Table("overview", "", columns, [row], list(summary.notes))


def _devices(devices: list[DeviceUse], brief: bool) -> Table:
    kinds = ("communication", "copies")
    columns = [Column("device"), Column("span", "ns"), Column("busy", "%"), Column("compute", "%")]
    columns += [Column(f"{exposed}{kind}", "%") for exposed in ("", "exposed ") for kind in kinds]
    columns += [Column("busy", "ns"), Column("idle", "ns")]
    if not brief:
        columns += [Column(f"{exposed}{kind}", "ns") for exposed in ("", "exposed ") for kind in kinds]
        columns.append(Column("compute", "ns"))
    named = any(use.name for use in devices)
    rows: list[tuple[Cell, ...]] = []
    for use in devices:
        figures = use.communication, use.copies, use.exposed_communication, use.exposed_copies
        row: list[Cell] = [use.label, use.span]
        row += [_share(time, use.span) for time in (use.busy, use.compute, *figures)]
        row += [use.busy, use.idle]
        row += [] if brief else [*figures, use.compute]
        rows.append((*row, use.name) if named else tuple(row))
    return Table("devices", "use of devices", (*columns, Column("name")) if named else tuple(columns), rows)


def _waits(devices: list[DeviceUse]) -> Table:
    columns = [Column("device"), Column("occupancy", "%")]
    for name in ("gaps", "queueing"):
        columns.append(Column(name, "count"))
        columns += [Column(f"{name} {what}", "ns") for what in ("total", "median", "p95", "max")]
    rows = [(use.label, use.occupancy, *_spread(use.gaps), *_spread(use.queueing)) for use in devices]
    return Table("waits", "gaps between work, and waits of work behind its call", tuple(columns), rows)


def _spread(times: Spread | None) -> tuple[Cell, ...]:
    if times is None:
        return (None,) * 5
    return times.count, times.total, times.median, times.p95, times.max


def _steps(summary: Summary, top: int | None) -> Table:
    names = ("wall", "busy", "compute", "communication", "copies", "exposed communication", "exposed copies")
    columns = (Column("step"), Column("times", "count"), *(Column(name, "ns") for name in names), Column("busy", "%"))
    rows: list[tuple[Cell, ...]] = []
    for use in summary.step_use[:top]:
        times = (use.wall, use.busy, use.compute, use.communication, use.copies)
        exposed = use.exposed_communication, use.exposed_copies
        rows.append((use.label, use.count, *times, *exposed, _share(use.busy, use.wall)))
    return Table("steps", "steps", columns, rows, more=max(len(summary.step_use) - len(rows), 0))


def _by(name: str, summary: Summary, top: int | None, brief: bool, run: str | None = None) -> Table:
    groups = summary.groups[name]
    unit = summary.unit
    columns = [
        Column("kernel" if name == UNCLASSIFIED else name),
        Column("time", unit),
        *([Column("share", "%")] if unit != "%" else []),
    ]
    figures = _BRIEF if brief else _FIGURES
    told = [figure for figure in figures if any(getattr(group, figure) is not None for group in groups)]
    counted = any(group.count is not None for group in groups)
    columns += [Column("count", "count")] if counted else []
    columns += [Column(figure, "ns") for figure in told]
    whole = not brief and name == "kernel" and any(group.name not in (None, group.key) for group in groups)
    columns += [Column("name")] if whole else []
    rows: list[tuple[Cell, ...]] = []
    for group in groups[:top]:
        row = _row(group, summary.total, unit) + ([group.count] if counted else [])
        row += [getattr(group, figure) for figure in told] + ([group.name] if whole else [])
        rows.append(tuple(row))
    title = "kernels without an operation" if name == UNCLASSIFIED else f"by {name}"
    title = title if run is None else f"{run}: {title}"
    table = name if run is None else f"{name} of {run}"
    return Table(table, title, tuple(columns), rows, more=max(len(groups) - len(rows), 0))


def _row(group: Group, total: float, unit: str) -> list[Cell]:
    row: list[Cell] = [group.key, group.total]
    return row if unit == "%" else [*row, _share(group.total, total)]


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None
