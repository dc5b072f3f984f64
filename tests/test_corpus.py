"""Every real Kineto and Chrome trace through every output: what json with Decimal says is all there.

The independent reading knows nothing of dialects: of each complete event (`X`) the name, times in ns, and the
values of its arguments, whatever they are called. Each output is read by something that isn't ours: pyarrow, csv, json,
the Perfetto engine.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import engine
import pyarrow.parquet as pq
import pytest
from conftest import SHARED
from nightly import few, is_small
from real_traces import decoded_names
from wire import repeats

import ktrace

FOLDERS = [SHARED / "corpus" / name for name in ("pytorch_kineto", "chrome_trace")]

#: Not traces: refused.
FOREIGN = {"google_cloud_trace.json", "incomplete-trace.json"}

FILES = [path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.iterdir()) if path.name not in FOREIGN]

pytestmark = pytest.mark.skipif(not FILES, reason="the real traces are not at hand (../shared/corpus)")

#: Of more slices than these only those are compared one by one whose time is a multiple of their number by these.
MANY = 5_000

Slice = tuple[str, int, int]  # name, ts, dur
Values = Counter[str]


class Reading(NamedTuple):
    """Slices with how often they are there, and of all slices of one kind the values of their arguments."""

    slices: Counter[Slice]
    values: dict[Slice, Values]

    @property
    def dur(self) -> int:
        return sum(dur * count for (_, _, dur), count in self.slices.items())


@pytest.fixture(scope="module", params=few(FILES, is_small), ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def scalars(value: Any) -> Iterator[str]:
    """The numbers and texts of an argument; a text that holds JSON is what it holds."""
    if isinstance(value, dict):
        for item in value.values():
            yield from scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from scalars(item)
    elif value is None or value is True or value is False or value == "":
        return
    elif isinstance(value, str) and value[:1] in "[{":
        try:
            yield from scalars(json.loads(value, parse_float=Decimal))
        except ValueError:
            yield value
    elif isinstance(value, str):
        yield value
    else:
        yield number(value)


def number(value: float | Decimal) -> str:
    """A number as the double that viewers have of it, or as the integer that it is."""
    return str(value) if isinstance(value, int) else repr(float(value)).removesuffix(".0")


def ns(value: Any) -> int:
    return int((Decimal(str(value)) * 1000).to_integral_value())


def document(path: Path) -> list[dict[str, Any]]:
    """The events of a file; of one that breaks off, the whole ones."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    try:
        found = json.loads(text, parse_float=Decimal, strict=False)
    except ValueError:
        found = json.loads(text.rstrip().rstrip(",") + "]", parse_float=Decimal, strict=False)
    return [event for event in (found["traceEvents"] if isinstance(found, dict) else found) if event]


def in_blocks(events: list[dict[str, Any]]) -> None:
    """Divides the grids of HIP's calls that state work-items, and of the kernels that they launched, by the block."""
    launched = {
        event["args"]["correlation"] for event in events if event.get("name") == "hipExtModuleLaunchKernel"
    }  # no real file has one correlation for two launches
    for event in events:
        args = event.get("args")
        if isinstance(args, dict) and "grid" in args and args.get("correlation") in launched:
            args["grid"] = [size // of for size, of in zip(args["grid"], args["block"], strict=True)]


def expected(path: Path) -> Reading:
    slices: Counter[Slice] = Counter()
    values: dict[Slice, Values] = defaultdict(Counter)
    events = document(path)
    in_blocks(events)
    for event in events:
        if event["ph"] == "X":
            key = (event.get("name", ""), ns(event["ts"]), ns(event.get("dur", 0)))
            slices[key] += 1
            args = event.get("args")
            if isinstance(args, dict) and args.get("stream") == -1:
                args.pop("stream")  # no stream: null in the model
            values[key].update(scalars(args))
    return Reading(slices, values)


@pytest.fixture(scope="module")
def wanted(path: Path) -> Reading:
    return expected(path)


@pytest.fixture(scope="module")
def trace(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file as a Perfetto trace."""
    out = tmp_path_factory.mktemp("corpus") / "out.perfetto"
    ktrace.convert(path, out)
    return out


def every(wanted: Reading) -> int:
    """The step between the times that are compared one by one: 1 for all of them."""
    return 1 + len(wanted.slices) // MANY


def lacking(wanted: Reading, found: Reading) -> tuple[Counter[Slice], dict[Slice, Values]]:
    """Slices that aren't there, and values that aren't on theirs."""
    slices = wanted.slices - found.slices
    values = {key: rest for key, values in wanted.values.items() if (rest := values - found.values.get(key, Counter()))}
    return slices, values


def check(wanted: Reading, found: Reading) -> None:
    slices, values = lacking(wanted, found)
    assert not slices, list(slices.items())[:5]
    assert not values, list(values.items())[:5]


def own_name(name: str, args: dict[str, Any] | None) -> str:
    """The name as the source has it: of a decoded one, the argument that keeps it."""
    kept: str = (args or {}).get("mangled_name", name)
    return kept


def from_rows(rows: list[dict[str, Any]]) -> Reading:
    """Canonical rows, whoever read them; all columns count as values."""
    slices: Counter[Slice] = Counter()
    values: dict[Slice, Values] = defaultdict(Counter)
    for row in rows:
        if row.get("dur") is None or row["kind"] == "counter":
            continue
        args = row.get("args")
        args = json.loads(args, parse_float=Decimal) if isinstance(args, str) else args
        key = (own_name(row["name"], args), int(row["ts"]), int(row["dur"]))
        slices[key] += 1
        values[key].update(scalars(args))
        values[key].update(scalars([value for name, value in row.items() if name not in ("args", "name", "ts", "dur")]))
    return Reading(slices, values)


def test_parquet(path: Path, wanted: Reading, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    report = ktrace.convert(path, out, table="events")
    assert report.balanced()
    check(wanted, from_rows(pq.read_table(out).to_pylist()))


def test_csv(path: Path, wanted: Reading, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    ktrace.convert(path, out, table="events")
    before = csv.field_size_limit(sys.maxsize)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    csv.field_size_limit(before)
    found = from_rows([{name: plain(name, cell) for name, cell in row.items()} for row in rows])
    check(wanted, found)


def plain(name: str, cell: str | None) -> Any:
    """A cell of a column as what it is: an empty one is null but for a name; an occupancy of 54.0 is the number 54."""
    if not cell:
        return "" if name == "name" else None
    return Decimal(cell) if name in ("occupancy", "value") else cell


def test_json_lines(path: Path, wanted: Reading, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    ktrace.convert(path, out)
    lines = out.read_text("utf-8").splitlines()
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    check(wanted, from_rows([row for row in rows if row.get("record") == "event"]))


def test_chrome(path: Path, wanted: Reading, tmp_path: Path) -> None:
    out = tmp_path / "out.trace.json"
    ktrace.convert(path, out)
    whole = json.loads(out.read_text("utf-8"), parse_float=Decimal)
    origin = whole["otherData"]["ktrace"]["origin_ns"]
    slices: Counter[Slice] = Counter()
    values: dict[Slice, Values] = defaultdict(Counter)
    for event in whole["traceEvents"]:
        if event["ph"] == "X":
            dur = 0 if event.get("args", {}).get("point") else ns(event["dur"])
            key = (own_name(event["name"], event.get("args")), ns(event["ts"]) + origin, dur)
            slices[key] += 1
            values[key].update(scalars(list(event.values())))
    check(wanted, Reading(slices, values))


def test_perfetto(path: Path, trace: Path, wanted: Reading) -> None:
    """In the real engine: names, times and durations of all slices."""
    shown = decoded_names(path)
    if len(wanted.slices) <= MANY:
        assert repeats(trace.read_bytes()) == []
    step = every(wanted)
    slices, [total], stats = engine.query(
        trace,
        f"select name, ts, dur from slice where ts % {step} = 0",
        "select count(*) as slices, sum(dur) as dur from slice where dur > 0",
        engine.FAULTS,
    )
    assert [row["name"] for row in stats if row["name"] != "unknown_extension_fields"] == []
    timed = [key for key in wanted.slices.elements() if key[2] > 0]
    assert total["slices"] >= len(timed) and (total["dur"] or 0) >= wanted.dur
    found = Counter((row["name"], row["ts"], row["dur"]) for row in slices)
    asked: Counter[Slice] = Counter()
    for (name, ts, dur), count in wanted.slices.items():
        if ts % step == 0:
            asked[shown.get(name, name), ts, dur] += count
    assert bool(asked) == bool(wanted.slices)
    assert not asked - found, list((asked - found).items())[:5]


def test_arguments_in_the_engine(trace: Path, wanted: Reading) -> None:
    """The arguments of all slices; those of device work where the engine knows launches (v52 doesn't)."""
    step = every(wanted)
    known = "true" if engine.shows_launches() else "s.id not in (select id from gpu_slice)"
    rows = engine.query(
        trace,
        f"""select s.name, s.ts, s.dur, coalesce(a.string_value, a.int_value, a.real_value) as value
           from slice s left join args a using (arg_set_id)
           where {known} and s.ts % {step} = 0""",
    )[0]
    values: dict[Slice, Values] = defaultdict(Counter)
    for row in rows:
        values[row["name"], row["ts"], row["dur"]].update(scalars(row["value"]))
    host = {key: rest for key, rest in wanted.values.items() if key in values}
    assert len(host) == len(values.keys() & wanted.slices.keys())
    assert host or not wanted.slices or not engine.shows_launches()
    check(Reading(Counter(), host), Reading(Counter(), values))


def test_comes_back_from_perfetto(path: Path, trace: Path, tmp_path: Path) -> None:
    """What was read, written and read again says the same as what was read at first."""
    tables = []
    for number, source in enumerate((path, trace)):
        table = tmp_path / f"{number}.parquet"
        ktrace.convert(source, table, table="events")
        tables.append(from_rows(pq.read_table(table).to_pylist()))
    check(*tables)
    assert tables[0].dur == tables[1].dur
