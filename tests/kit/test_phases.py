"""Phases: whatever events are, each is accounted for, and no two rows have one id; the decoder gives the same rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nightly import examples, few, is_small
from plain_events import events_of, load, plain_events

import ktrace
from ktrace.converters.chrome_json.reader import DIALECT as CHROME
from ktrace.converters.kineto.reader import CATS, in_blocks
from ktrace.converters.kineto.reader import DIALECT as KINETO
from ktrace.kit.trace_json.dialect import Dialect
from ktrace.kit.trace_json.draft import Task
from ktrace.kit.trace_json.phases import to_batches
from ktrace.model.batch import Batch
from ktrace.report import Report
from ktrace.stages.names import with_decoded_names
from ktrace.trace.trace import Trace

FILES = [
    *sorted((SHARED / "corpus" / "pytorch_kineto").glob("*.json*")),
    *(
        SAMPLES / "kineto" / name
        for name in ("memory-events-counters-profiler-range.json", "mtia-xpu-hpu-privateuse1.json")
    ),
    SAMPLES / "kineto" / "base-after-the-events-graph-of-three-kernels.pt.trace.json",
]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 9),
    st.sampled_from(["", "7", "stream 7", "0x1f", "Spans", "e", "ac2g", "[memory]", "HtoD", "NaN", "GPU 3 Counters"]),
    st.sampled_from([[], [1, 2, 3], [1, 2], [1, 2, "3"], {}, {"local": "0x5"}, {"x": [None]}]),
)
KEYS = st.sampled_from(
    [
        *(
            "device",
            "stream",
            "context",
            "correlation",
            "External id",
            "external id",
            "grid",
            "block",
            "bytes",
            "Bytes",
        ),
        *("registers per thread", "shared memory", "est. achieved occupancy %", "Total Allocated", "Total Reserved"),
        *("Device Id", "kind", "size", "Seq", "Process Group Name", "wait_on_cuda_event_record_corr_id", "name"),
        *("sort_index", "labels", "value", "", "another"),
    ]
)
TIMES = st.one_of(st.integers(0, 100), st.sampled_from([None, -5, 2**62, 4_611_686_018_427_388, "12.5"]))


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event with members and arguments of any type, most of them sane."""
    event: dict[str, Any] = {"ph": draw(st.sampled_from([*"XXXBEbneSTpFiIRPNODcVvMCstf", "?", ""]))}
    event["ts"] = draw(TIMES)
    members = {
        "cat": st.sampled_from([*CATS, "ac2g", "fwdbwd", "x"]),
        "name": st.sampled_from(["k", "[memory]", "cudaEventRecord", "process_name", "thread_name", "Memcpy DtoH (x)"]),
        **{"dur": TIMES, "pid": ODD, "tid": ODD, "id": ODD, "bp": st.sampled_from(["e", "x"]), "s": st.just("g")},
        **{"bind_id": ODD, "flow_in": st.booleans(), "flow_out": st.booleans(), "id2": ODD, "tts": ODD},
        "args": st.one_of(st.dictionaries(KEYS, ODD, max_size=8), st.just([1]), st.just("text")),
    }
    for name in draw(st.lists(st.sampled_from(list(members)), unique=True)):
        event[name] = draw(members[name])
    return event


@pytest.mark.parametrize("dialect", [KINETO, CHROME], ids=["kineto", "chrome"])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.lists(events(), min_size=1, max_size=12))
def test_every_event_is_accounted_for_and_ids_are_unique(dialect: Dialect, found: list[dict[str, Any]]) -> None:
    report = Report()
    batches = [batch for some in plain_events(found) for batch in to_batches(some, Task(dialect, "run", report))]
    assert report.reader.given + report.reader.removed.total() == len(found)
    ids: Counter[int] = Counter()
    for batch in batches:
        full = batch.full()
        assert "run" in full.column("source").dictionary.to_pylist()
        if batch.record != "catalog":
            ids.update(full.column("id").to_pylist())
        for text in full.column("args").to_pylist() if "args" in full.schema.names else ():
            assert text is None or isinstance(json.loads(text), dict)
    assert not [number for number, count in ids.items() if count > 1]


@pytest.mark.parametrize("path", few(FILES, is_small), ids=lambda path: path.name)
def test_the_decoder_gives_the_rows_that_json_gives(path: Path) -> None:
    """The same phases over columns made by json and a loop, and over those of the decoder."""
    document = load(path)
    plain: list[Batch] = []
    for some in plain_events(events_of(document), 20_000):
        plain += to_batches(some, Task(KINETO, "run", Report()))
    wanted, found = Trace(map(with_decoded_names, in_blocks(plain))).to_arrow(), ktrace.read(path).to_arrow()
    for record in ("events", "links"):
        begins = [_told(row) for row in found[record].to_pylist()]
        assert Counter(begins) == Counter(_told(row) for row in wanted[record].to_pylist())


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row without its number and source, its arguments in order."""
    args = json.loads(row["args"]) if row["args"] else {}
    told = {name: value for name, value in row.items() if name not in ("id", "parent", "event", "source", "args")}
    return (*map(str, told.values()), json.dumps(args, sort_keys=True))
