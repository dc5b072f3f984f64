"""What an agent can ask: each tool is a function of a session and its arguments, with what it takes and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from ktrace.analysis.answers.mcp.answers import (
    EXPORTED,
    FINDINGS,
    HANDLE,
    OPENED,
    PAGE,
    TABLES,
    Page,
    Schema,
    arguments,
    cut,
    named,
    number,
    require_text,
    text,
    texts,
)
from ktrace.analysis.answers.mcp.session import USUAL, Opened, Session
from ktrace.analysis.answers.query.output import as_table
from ktrace.analysis.answers.summary import QUESTIONS, RECORDING
from ktrace.analysis.answers.whatif.changes import MOST_FACTOR, Changes
from ktrace.analysis.work.groups import BY, NOT_KNOWN
from ktrace.errors import UsageError
from ktrace.report import counted
from ktrace.tables import Table

Answer = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool: what it is for, the schemas of its arguments and its answer, whether it writes a file."""

    name: str
    about: str
    takes: Schema
    answers: Schema
    run: Callable[..., Answer]
    writes: bool = False


TOOLS: dict[str, Tool] = {}


def _tool(
    about: str, answers: Schema = TABLES, *, needs: tuple[str, ...] = ("handle",), writes: bool = False, **takes: Schema
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Makes a tool of a function, with its name. It takes a handle and the limits of tables, if it answers these."""

    def made(run: Callable[..., Answer]) -> Callable[..., Answer]:
        name = run.__name__.strip("_")
        handle = {"handle": HANDLE} if "handle" in needs else {}
        limits = PAGE if answers is TABLES else {}
        TOOLS[name] = Tool(name, about, arguments(needs, handle | takes | limits), answers, run, writes)
        return run

    return made


def checked(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the tool takes them: 20.0 is a whole number, and a list has nothing twice.

    Raises UsageError for those that it doesn't take.
    """
    require_text(arguments)
    fault = next(Draft202012Validator(tool.takes).iter_errors(arguments), None)
    if fault is not None:
        raise UsageError(f"{tool.name}: {fault.message}", expected=", ".join(tool.takes["properties"]))
    kinds = {name: one["type"] for name, one in tool.takes["properties"].items()}
    made: dict[str, Callable[[Any], Any]] = {"integer": int, "array": lambda several: list(dict.fromkeys(several))}
    return {name: made.get(kinds[name], lambda same: same)(value) for name, value in arguments.items()}


#: Rows of lists that open answers.
_LISTED = 50


@_tool(
    "Reads a trace and returns a handle for all other tools: any GPU or accelerator profile (PyTorch, nsys, rocprof, "
    "Perfetto, ...). Several files, as a pattern or a folder, are one trace: the ranks of a run.",
    OPENED,
    needs=("path",),
    path=text("A file, a folder, or a pattern such as rank*.json.gz."),
    format=text("The format, where its content doesn't decide; `ktrace formats` lists the names."),
    repair_clock={
        "type": "boolean",
        "description": "Move the times of devices whose work begins before the calls that launched it (the finding "
        "check.cause_after_effect), by the smallest shift that repairs it; check.clock_repaired then says by how much.",
    },
)
def open_(session: Session, path: str, format: str | None = None, repair_clock: bool = False) -> Answer:
    opened = session.open(path, format, repair_clock=repair_clock)
    summary = opened.summary()
    phases = summary.answers.get("phase")
    span = summary.span
    return {
        "handle": opened.name,
        "format": list(dict.fromkeys(one["format"] for one in opened.report.inputs)),
        "sources": summary.sources[:_LISTED],
        "rows": dict(opened.rows),
        "span": span and {"begin_ns": span[0], "end_ns": span[1]},
        "devices": [use.label + (f", {use.name}" if use.name else "") for use in summary.devices[:_LISTED]],
        "steps": summary.steps[:_LISTED],
        "phases": [str(row[0]) for row in phases.tables()[0].rows] if phases else [],
        "notes": [
            *_notes(opened),
            *(f"{one.sentence} ({counted(one.rows, 'row')})" for one in opened.report.issues.values()),
        ],
    }


@_tool(
    "What takes the time, what devices wait for, and what to look at first: each with its exact figure, its share, and "
    "the rows that show it (evidence: ids and times in ns). With `before`, what changed since another trace and why, "
    "and which changes exceed noise. Ask this first.",
    FINDINGS,
    before=text("The handle of a trace of the same program before a change."),
)
def findings(session: Session, handle: str, before: str | None = None) -> Answer:
    opened = session.get(handle)
    answer = opened.summary() if before is None else session.diff(before, handle)
    documents = [cut(one.document()) for one in answer.findings]
    notes = _notes(opened) if before is None else answer.notes
    return {"verdict": answer.verdict, "findings": documents, "notes": notes}


@_tool(
    "Where the time went: use of each device, steps, and the time by operation and kernel, or by what is asked for.",
    by={
        "type": "array",
        "items": {"type": "string", "enum": [*BY, *QUESTIONS]},
        "description": "What to group by, or questions; operation and kernel by default.",
    },
)
def overview(session: Session, handle: str, by: Sequence[str] = ("operation", "kernel"), **limits: Any) -> Answer:
    opened = session.get(handle)
    tables = opened.summary().tables((), brief=True)
    tables += [table for name in by for table in _named(opened, name, brief=True)]
    return Page(**limits).document(tables, [*_notes(opened), *_lacking(opened, by)])


@_tool(
    "What would help: the time of a step if some work took less time, weren't waited for, or were launched as a graph, "
    "with an interval, by a replay of what waited for what. Without a change: those that save most. An error where a "
    "replay without any is more than 1 % off.",
    scale={
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": 0, "maximum": MOST_FACTOR},
        "description": 'Factors by operation or a part of a kernel\'s name: {"gemm": 0.5}, {"nccl": 0}.',
    },
    overlap=texts("Operations or parts of names of work that the next on its stream doesn't wait for."),
    graph={"type": "boolean", "description": "Launches are free, from the first to the last between two waits."},
    no_sync={"type": "boolean", "description": "Calls of the host don't wait for devices."},
    loader={
        "type": "number",
        "minimum": 0,
        "maximum": MOST_FACTOR,
        "description": "Loading data takes this many times as long.",
    },
)
def whatif(
    session: Session, handle: str, scale: dict[str, float] | None = None, overlap: Sequence[str] = (),
    graph: bool = False, no_sync: bool = False, loader: float | None = None, **limits: Any,
) -> Answer:  # fmt: skip
    changes = Changes(scale or {}, tuple(overlap), graph, no_sync, loader)
    answer = session.get(handle).whatif(changes)
    return Page(**limits).document(answer.tables(), answer.sentences())


@_tool("Why devices were idle: the causes of gaps between work, and CPU activity during gaps.")
def idle(session: Session, handle: str, **limits: Any) -> Answer:
    return _tables_of_answers(session, handle, ("idle",), limits)


@_tool(
    "Kernels by name: their time and its spread, and the longest launches of those, with ids, times and calls.",
    needs=("handle", "name"),
    name=text("A part of the name, or a pattern such as *gemm*; case doesn't matter."),
)
def kernel(session: Session, handle: str, name: str, **limits: Any) -> Answer:
    opened, page = session.get(handle), Page(**limits)
    groups = named(_named(opened, "kernel"), name)
    words = [str(row[0]) for table in groups for row in table.rows]
    launches = session.ask(opened, _LAUNCHES, {"names": words, "rows": page.rows}, rows=page.rows)
    return page.document(
        [*groups, as_table(launches, "launches")], [*_notes(opened), *_unnamed(name, words, opened, "kernel")]
    )


def _unnamed(pattern: str | None, matches: Sequence[object], opened: Opened, what: str) -> list[str]:
    """That no name fits a pattern, and which kernels are the heaviest."""
    if pattern is None or matches:
        return []
    groups = opened.summary(_computed("kernel")).groups.get("kernel", [])
    top = f"; the top kernels are {', '.join(group.key for group in groups[:3])}." if groups else "."
    return [f"No {what} has '{pattern}' in its name{top}"]


#: The longest launches of kernels with these short names.
_LAUNCHES = (
    "select id, short_name as kernel, ts, dur, source, device, stream, call_id, call, call_ts, queue from kernels "
    "where coalesce(short_name, name) in (select unnest($names)) order by dur desc limit $rows"
)


@_tool(
    "Device time by what launched it on the host: operators, and with `by` modules, ranges (NVTX) and API calls.",
    by=texts("Any of op, module, range, api; op by default.", ["op", "module", "range", "api"]),
    name=text("Only these: a part of the name, or a pattern."),
)
def op(session: Session, handle: str, by: Sequence[str] = ("op",), name: str | None = None, **limits: Any) -> Answer:
    return _tables_of_answers(session, handle, tuple(by), limits, name)


@_tool("The phases of inference: prefill, decode and mixed batches, by batch size; tokens a second, time per token.")
def phase(session: Session, handle: str, **limits: Any) -> Answer:
    return _tables_of_answers(session, handle, ("phase", "batch"), limits)


@_tool("Collectives: bandwidths, skew between ranks, the rank that the others wait for.")
def collectives(session: Session, handle: str, **limits: Any) -> Answer:
    return _tables_of_answers(session, handle, ("collective",), limits)


@_tool(
    "Many ranks on one page: which are slow throughout or for a while, pipeline bubbles by stage, balance of experts, "
    "slow links, from a folder that `ktrace batch IN... -o OUT/ --fleet` wrote.",
    needs=("path",),
    path=text("That folder."),
)
def fleet(session: Session, path: str, **limits: Any) -> Answer:
    from ktrace.fleet.answer import sentences, tables
    from ktrace.fleet.run import read_fleet

    [folder] = session.access.inputs(path)
    with session.access.in_force():
        result = read_fleet(folder)
    return Page(**limits).document(tables(result), [*sentences(result), *result.notes])


@_tool("Memory of devices: the peak and who held it, what is never freed, growth a step.")
def memory(session: Session, handle: str, **limits: Any) -> Answer:
    opened = session.get(handle)
    span = opened.summary().span
    tables = [_on_the_clock(table, span[0] if span else 0) for table in _named(opened, "memory")]
    return Page(**limits).document(tables, [*_notes(opened), *_lacking(opened, ("memory",))])


def _on_the_clock(table: Table, start: int) -> Table:
    """The table with the times of its column `at` on the clock of the trace, as those of `window`."""
    at = next((place for place, column in enumerate(table.columns) if column.name == "at"), None)
    if at is None:
        return table
    rows = [
        tuple(cell + start if place == at and isinstance(cell, int) else cell for place, cell in enumerate(row))
        for row in table.rows
    ]
    return replace(table, rows=rows)


@_tool(
    "The events that overlap an interval, in the order of their starts.",
    needs=("handle", "begin_ns", "end_ns"),
    begin_ns=number("Its start, on the clock of the trace: as the span of open and evidence state times."),
    end_ns=number("Its end."),
    kinds=texts("Only these kinds, such as kernel, memcpy, api, op, range."),
)
def window(
    session: Session, handle: str, begin_ns: int, end_ns: int, kinds: Sequence[str] | None = None, **limits: Any
) -> Answer:
    opened, page = session.get(handle), Page(**limits)
    parameters = {"begin": begin_ns, "end": end_ns, "kinds": list(kinds) if kinds else None}
    count = session.ask(opened, f"select count(*) as n from {_OVERLAPPING}", parameters, rows=1)["n"][0].as_py()
    sql = f"select {_SHOWN} from {_OVERLAPPING} order by ts, id limit {page.rows} offset {page.place[1]}"
    rows = session.ask(opened, sql, parameters, rows=page.rows)
    return page.part(as_table(rows, "window"), count, [] if count else _nothing_in_window(session, opened, parameters))


def _nothing_in_window(session: Session, opened: Opened, parameters: dict[str, Any]) -> list[str]:
    """Why no event overlaps an interval."""
    span = opened.summary().span
    if span is None:
        return ["The trace has no events with a time."]
    if parameters["end"] < parameters["begin"]:
        return ["The interval ends before it begins."]
    if parameters["end"] <= span[0] or parameters["begin"] > span[1]:
        return [f"The interval is outside of the trace, which lasts from {span[0]} to {span[1]} ns."]
    every = session.ask(opened, "select distinct kind from events order by kind", None, rows=_LISTED)
    kinds = every.column("kind").to_pylist()
    unknown = [kind for kind in parameters["kinds"] or () if kind not in kinds]
    if unknown:
        return [f"The trace has no events of kind {', '.join(unknown)}; it has {', '.join(kinds)}."]
    return ["No event overlaps this interval."]


_SHOWN = "id, kind, coalesce(short_name, name) as name, ts, dur, source, device, stream, pid, tid, correlation"
_OVERLAPPING = (
    "events where ts < $end and ts + coalesce(dur, 0) >= $begin and ($kinds is null or list_contains($kinds, kind))"
)


@_tool(
    "What changed from one open trace to another: of the whole, by kernel, operation and layer, and of devices; which "
    "changes exceed noise.",
    needs=("a", "b"),
    a=text("The handle of the trace before."),
    b=text("The handle of the trace after."),
    by=texts("What to compare by: kernel, operation, layer, op, module, range, idle, phase, ..."),
)
def compare(session: Session, a: str, b: str, by: Sequence[str] = (), **limits: Any) -> Answer:
    return Page(**limits).document(session.diff(a, b, tuple(by)).tables(full=False))


#: Rows of an answer that a cursor can reach.
_KEPT = 2_000


@_tool(
    "Any question in SQL (DuckDB) about the views events, kernels, launches, summaries, links, catalog; times are ns "
    "(ts, dur). The resource ktrace://docs/commands/query.md lists their columns. With a cursor, sql is ignored.",
    sql=text("One query, such as: select name, sum(dur) as ns from kernels group by 1 order by 2 desc"),
    params={"type": "object", "description": "Values of parameters: $name in the query is params.name."},
)
def query(
    session: Session, handle: str, sql: str | None = None, params: dict[str, Any] | None = None, **limits: Any
) -> Answer:
    opened, page = session.get(handle), Page(**limits)
    name, begin = page.place
    if name is not None:
        result = session.kept(name)
    elif sql is None:
        raise UsageError("there is no query", expected="sql, or the cursor of an earlier answer")
    else:
        result = session.ask(opened, sql, params, rows=_KEPT)
        name = session.keep(handle, result)
    notes = (
        [f"The answer has {_KEPT:,} rows or more; those after them are left out."] if result.num_rows == _KEPT else []
    )
    notes += [] if result.num_rows else [f"The query has no rows; {_contents(opened)}"]
    empty = [one for one in result.column_names if result.num_rows and result.column(one).null_count == result.num_rows]
    if empty and len(empty) < result.num_columns:
        result = result.drop_columns(empty)
        notes.append(f"Columns without a value are left out: {', '.join(empty)}.")
    return page.part(as_table(result.slice(begin, page.rows), name), result.num_rows, notes)


@_tool(
    "Writes the trace, or an interval of it, to a new file in the folder for exports: .perfetto (for the Perfetto UI), "
    ".parquet, .csv, .trace.json, ... by the extension of its name.",
    EXPORTED,
    needs=("handle", "name"),
    writes=True,
    name=text("The name of the file, without a folder."),
    format=text("The format, where the extension doesn't decide."),
    begin_ns=number("Only events from here on, on the clock of the trace."),
    end_ns=number("Only events up to here."),
)
def export(
    session: Session,
    handle: str,
    name: str,
    format: str | None = None,
    begin_ns: int | None = None,
    end_ns: int | None = None,
) -> Answer:
    from ktrace.pipeline.convert import convert, output_format
    from ktrace.pipeline.selection import Selection
    from ktrace.stages.select.wanted import Crop

    opened, path = session.get(handle), session.access.output(name)
    crop = None
    if begin_ns is not None or end_ns is not None:
        span = opened.summary().span
        if span is None:
            raise UsageError("this trace has no times", remedy="leave out begin_ns and end_ns")
        ends = (None if end is None else max(end - span[0], 0) for end in (begin_ns, end_ns))
        crop = Crop(time="..".join("" if end is None else f"{end}ns" for end in ends))
    selection = Selection(crop=crop, from_=opened.from_, jobs=1, repair_clock=opened.repair_clock)
    report = convert(session.unchanged(opened), path, to=format, selection=selection)
    made = Path(path)
    size = sum(one.stat().st_size for one in ([made] if made.is_file() else made.rglob("*")) if one.is_file())
    return {"path": path, "format": output_format(path, format).name, "rows": report.written, "bytes": size}


def _contents(opened: Opened) -> str:
    """What the views of a trace have."""
    rows = [f"{count:,} {record}" for record, count in opened.rows.items() if count]
    return f"the trace has {', '.join(rows)}." if rows else "the trace is empty."


def _tables_of_answers(
    session: Session, handle: str, names: tuple[str, ...], limits: dict[str, Any], pattern: str | None = None
) -> Answer:
    """The tables of these answers."""
    opened = session.get(handle)
    tables = named([table for name in names for table in _named(opened, name)], pattern)
    rows = [row for table in tables for row in table.rows]
    lacking = _lacking(opened, names)
    unnamed = [] if lacking else _unnamed(pattern, rows, opened, " or ".join(names))
    return Page(**limits).document(tables, [*_notes(opened), *lacking, *unnamed])


def _named(opened: Opened, name: str, *, brief: bool = False) -> list[Table]:
    """The tables of one answer or group; none where the trace has nothing of it."""
    summary = opened.summary(_computed(name))
    if name in summary.answers:
        return summary.answers[name].tables(brief=brief)
    return [table for table in summary.tables((name,), brief=brief) if table.name == name]


def _computed(name: str) -> tuple[str, ...]:
    """What is computed together with this answer or group."""
    return USUAL if name in USUAL else (name,)


def _notes(opened: Opened) -> list[str]:
    """What the figures mean or lack, without what nobody asked about."""
    how = set(RECORDING.values())
    return [note for note in opened.summary().notes if not note.startswith(NOT_KNOWN) and note not in how]


def _lacking(opened: Opened, names: Sequence[str]) -> list[str]:
    """What the trace has nothing of, and how to record it."""
    summaries = {name: opened.summary(_computed(name)) for name in names}
    missing = [name for name, one in summaries.items() if name not in one.answers and name not in one.groups]
    if not missing:
        return []
    how = dict.fromkeys(RECORDING[name] for name in missing if name in RECORDING)
    return [f"{NOT_KNOWN}{' or '.join(missing)} information.", *how]
