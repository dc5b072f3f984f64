"""The reader of Perfetto traces, against messages that the package `perfetto` makes and takes apart."""

from __future__ import annotations

import json
import os
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import golden
import numpy as np
import pyarrow as pa
import pytest
from conftest import SAMPLES, SHARED
from engine import errors
from google.protobuf import message_factory, text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace
from perfetto_samples import BEGIN, COUNTER, END, FOLDER, INSTANT, NEEDED
from perfetto_samples import SAMPLES as MADE

import ktrace
from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar import protobuf
from ktrace.converters.perfetto.proto import field_numbers
from ktrace.converters.perfetto.proto.wire import bytes_field, int_field
from ktrace.errors import DamagedInput, InputError, KtraceError, StrictFailure
from ktrace.input.detection import detect
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.row_builder import RowBuilder, to_rows
from ktrace.parallel.write_behind import WriteBehind
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.trace.trace import Trace

Row = dict[str, Any]


def events(path: Path) -> list[Row]:
    """The events as rows without nulls, `args` as an object, in the order of time."""
    rows = ktrace.read(path).to_arrow()["events"].to_pylist()
    found = [{name: value for name, value in row.items() if value is not None} for row in rows]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return sorted(found, key=lambda row: (row["ts"], -row.get("dur", 0), row["id"]))


def by_name(path: Path) -> dict[str, Row]:
    return {row["name"]: row for row in events(path)}


def arrows(path: Path) -> list[tuple[str, str, str, str]]:
    """(link, key, role, name of the row) of each end of an arrow."""
    read = ktrace.read(path)
    names = {row["id"]: row["name"] for row in read.to_arrow()["events"].to_pylist()}
    links = read.to_arrow()["links"].to_pylist()
    return sorted((row["link"], row["key"], row["role"], names[row["event"]]) for row in links)


def write(path: Path, made: Any) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize("name", MADE)
def test_the_samples_are_what_the_script_makes(name: str) -> None:
    made = trace.Trace.FromString((FOLDER / name).read_bytes())
    assert made == MADE[name]()


def test_the_names_of_fields_are_those_of_the_descriptors() -> None:
    from ktrace.proto.generate_field_numbers import text

    assert Path(field_numbers.__file__).read_text("utf-8") == text()


# The samples, row by row: the numbers are those of perfetto_samples.py.


def test_clocks_states_and_compressed_packets() -> None:
    (path,) = FOLDER.glob("clocks-*")
    rows = by_name(path)
    load = rows["load"]
    # The clock counts on from 1000: 100 to the begin, 50 + 25 + 10 + 10 + 5 + 0 + 10 + 10 + 100 to the end.
    assert (load["ts"], load["dur"], load["pid"], load["tid"], load["cat"]) == (1100, 220, 77, 78, "io,disk")
    assert load["args"] == {
        "size": -4096,
        "text": "a text told once",
        "nested": {"list": [0.5, True], "big": 2**64 - 1},
        "json": {"a": [1, None]},
        "big": 2**64 - 1,
    }
    inner = rows["näher «Ω»"]
    assert (inner["ts"], inner["dur"], inner["args"]) == (1150, 25, {"size": 7})
    assert [(r["ts"], r["value"], r["unit"]) for r in events(path) if r["kind"] == "counter"] == [
        (1185, 6.0, "jobs"),
        (1195, 4.0, "jobs"),
    ]
    assert {name: (rows[name]["ts"], rows[name]["dur"]) for name in ("warm", "hot")} == {
        "warm": (1200, 10),
        "hot": (1210, 10),
    }
    assert rows["another text of the same number"]["ts"] == 1400
    assert arrows(path) == [
        ("flow", "5", "in", "näher «Ω»"),
        ("flow", "5", "out", "load"),
        ("flow", "6", "out", "load"),
        ("flow", "6", "step", "mark"),
    ]
    report = ktrace.read(path).report
    assert report.issues["bad-record"].rows == 1
    assert report.reader.removed["about the recording"] == 1
    facts = {(row["entity"], row["name"]): row["facts"] for row in ktrace.read(path).to_arrow()["catalog"].to_pylist()}
    assert json.loads(facts["clock", "boottime"]) == {
        "kind": "boottime",
        "at_ns": 1000,
        "unix_ns": 1_700_000_000_000_001_000,
    }
    assert ("process", "server") in facts
    assert json.loads(facts["process", "init"]) == {"command": "init -x"}


def test_an_older_tool() -> None:
    (path,) = FOLDER.glob("gpu-stages-*")
    rows = events(path)
    work = {row["name"]: row for row in rows if row["kind"] in ("kernel", "memcpy", "range")}
    assert {name: (row["ts"], row["dur"], row["kind"], row["track"]) for name, row in work.items()} == {
        "Binning": (5100, 300, "range", "Vertex queue"),
        "Blit copy": (5200, 50, "memcpy", "Compute queue"),
        "Compute": (5300, 90, "kernel", "Compute queue"),
    }
    assert work["Compute"]["args"] == {"dispatch": "3 of 3", "$submission_id": 43}
    assert [(r["ts"], r["name"], r["value"], r["unit"]) for r in rows if r["kind"] == "counter"] == [
        (5100, "GPU Frequency", 6e8, "Hz"),
        (5100, "Read", 1.5, "B/s"),
        (5300, "GPU Frequency", 7e8, "Hz"),
        (5300, "Read", float("inf"), "B/s"),
        (5500, "GPU memory", float(1 << 20), "B"),
    ]
    (log,) = (row for row in rows if row["kind"] == "log")
    assert (log["name"], log["args"]) == ("context lost?", {"severity": "warning", "tag": "driver"})
    (device,) = (r for r in ktrace.read(path).to_arrow()["catalog"].to_pylist() if r["entity"] == "device")
    assert (device["device"], device["name"]) == (0, "Example GPU")
    assert json.loads(device["facts"])["uuid"] == bytes(range(16)).hex()


def test_launches() -> None:
    (path,) = FOLDER.glob("launches-*")
    kernels = [row for row in events(path) if row["kind"] == "kernel"]
    assert [(row["ts"], row["dur"], row["name"]) for row in kernels] == [
        (350, 90, "gemm(float*)"),
        (400, 90, "gemm(float*)"),
    ]
    for row in kernels:
        assert (row["pid"], row["device"], row["context"], row["stream"]) == (42, 0, 1, 7)
        assert (row["grid_x"], row["grid_y"], row["block_x"]) == (32, 2, 256)
        assert row["args"] == {"registers_per_thread": 40, "arch": "sm_90", "kernel_name": "_Z4gemmPf"}
    assert Counter(end[:3] for end in arrows(path)) == Counter(
        [("launch", key, role) for key in "12" for role in ("out", "in")]
        + [("wait", "1", "in"), ("wait", "1", "in"), ("wait", "1", "out"), ("wait", "2", "in"), ("wait", "2", "out")]
    )


def test_phases_of_chrome() -> None:
    (path,) = FOLDER.glob("phases-*")
    rows = [(row["ts"], row.get("dur"), row["kind"], row.get("track")) for row in events(path)]
    assert rows == [
        (1000, 3000, "range", "0"),
        (1500, None, "instant", "0"),
        (2000, 7000, "range", "cc/0x1f"),
        (5000, None, "instant", "cc/0x1f"),
        (9500, 100, "range", "0"),
    ]
    last = events(path)[-1]
    assert (last["pid"], last["tid"]) == (6, 7)


def test_several_categories_are_joined_interned_ones_first(tmp_path: Path) -> None:
    made = trace.Trace()
    for sequence in (1, 2):  # one number means another text on each
        begun = made.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=1)
        for iid in (1, 2):
            begun.interned_data.event_categories.add(iid=iid, name=f"{sequence}-{iid}")
    wanted = []
    for ts in range(200):
        sequence, iids = 1 + ts % 2, [iid for iid in (2, 1) if ts & iid]
        spelled = ["é", "x"][: ts // 4 % 3]
        packet = made.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=2, timestamp=ts)
        packet.track_event.MergeFrom(trace.TrackEvent(type=INSTANT, category_iids=iids, categories=spelled))
        wanted.append(",".join([*(f"{sequence}-{iid}" for iid in iids), *spelled]))
    (tmp_path / "made.pftrace").write_bytes(made.SerializeToString())
    assert [row.get("cat", "") for row in events(tmp_path / "made.pftrace")] == wanted


def test_stages_that_spell_their_names(tmp_path: Path) -> None:
    made = trace.Trace()
    begun = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    begun.interned_data.gpu_specifications.add(iid=1, name="stage")
    wanted = []
    for ts in range(100):
        packet = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=ts)
        work = packet.gpu_render_stage_event
        work.event_id, work.duration, work.stage_iid = ts + 1, 1, 1
        if ts % 3:
            work.name = NAMES[ts % len(NAMES)]
        wanted.append(NAMES[ts % len(NAMES)] if ts % 3 else "stage")
    (tmp_path / "made.pftrace").write_bytes(made.SerializeToString())
    assert [row["name"] for row in events(tmp_path / "made.pftrace")] == wanted


# Random packets: what the package says of them, and what we read.

NAMES = ["", "gemm", "näher «Ω»", "a" * 200, "x.y"]
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),  # which are texts in `args`
    st.sampled_from(NAMES),
    st.recursive(st.integers(-5, 300), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=5).filter(
        lambda value: isinstance(value, list)
    ),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1),
)


@st.composite
def random_event(draw: st.DrawFn) -> tuple[int, Row]:
    kind = draw(st.sampled_from([BEGIN, END, INSTANT, COUNTER]))
    keys = draw(st.lists(st.sampled_from(["size", "shape", "é", "id"]), unique=True, max_size=4))
    return draw(st.integers(0, 2**62 - 1)), {
        "kind": kind,
        "name": draw(st.sampled_from(NAMES)),
        "interned": draw(st.booleans()),
        "track": draw(st.integers(0, 3)),
        "category": draw(st.sampled_from([None, "io", "gpu"])),
        "value": draw(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False))),
        "args": {key: draw(VALUES) for key in keys},
    }


def annotate(annotation: Any, value: Any) -> None:
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int) and value >= 2**63:
        annotation.uint_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    elif isinstance(value, str):
        annotation.string_value = value
    elif isinstance(value, list):
        for item in value:
            annotate(annotation.array_values.add(), item)
    else:
        for key, item in value.items():
            entry = annotation.dict_entries.add(name=key)
            annotate(entry, item)


def random_trace(chosen: Iterable[tuple[int, Row]]) -> Any:
    made = trace.Trace()
    first = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    for number, name in enumerate(NAMES, 1):
        first.interned_data.event_names.add(iid=number, name=name)
    first.interned_data.debug_annotation_names.add(iid=200, name="size")
    for ts, what in chosen:
        packet = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=NEEDED, timestamp=ts)
        event = packet.track_event
        event.type, event.track_uuid = what["kind"], what["track"]
        if what["interned"]:
            event.name_iid = NAMES.index(what["name"]) + 1
        else:
            event.name = what["name"]
        if what["category"]:
            event.categories.append(what["category"])
        if what["kind"] == COUNTER and isinstance(what["value"], int):
            event.counter_value = what["value"]
        elif what["kind"] == COUNTER:
            event.double_counter_value = what["value"]
        for key, value in what["args"].items():
            annotation = event.debug_annotations.add()
            if key == "size":
                annotation.name_iid = 200
            else:
                annotation.name = key
            annotate(annotation, value)
    return made


@settings(max_examples=60, deadline=None)
@given(st.lists(random_event(), max_size=8), st.integers(1, 100), st.randoms(use_true_random=False))
def test_random_events(tmp_path_factory: pytest.TempPathFactory, some: list[Any], times: int, dice: Any) -> None:
    """Each event occurs often, so that it becomes a template, and among others, so that templates are needed."""
    chosen = some * times
    dice.shuffle(chosen)
    path = write(tmp_path_factory.mktemp("random") / "random.pftrace", random_trace(chosen))
    report = Report()
    batches = [batch for batch in read_batches([str(path)], report, format="perfetto") if batch.record == "events"]
    rows = []
    for batch in batches:
        for row, args in zip(to_rows(batch), batch.args_text().to_pylist(), strict=True):
            rows.append(row | {"args": json.loads(args) if args else {}})
    assert report.balanced()
    assert not report.issues
    rows.sort(key=lambda row: row["id"])  # as the packets stand in the file
    assert len(rows) == len(chosen)
    for (ts, what), row in zip(chosen, rows, strict=True):
        assert row["ts"] == ts
        assert row["name"] == what["name"]
        assert row["track"] == str(what["track"])
        assert row.get("cat") == what["category"]
        assert row["args"] == what["args"]
        assert row.get("half") == {BEGIN: "begin", END: "end"}.get(what["kind"])
        assert row["kind"] == {INSTANT: "instant", COUNTER: "counter"}.get(what["kind"], "range")
        assert row.get("value") == (float(what["value"]) if what["kind"] == COUNTER else None)


def fields_by_one(data: bytes) -> list[tuple[int, int, Any]] | None:
    """The fields of a message by the simple parser; None if it isn't protobuf."""
    try:
        return list(protobuf.fields_of(data))
    except ValueError:
        return None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=24), max_size=6), st.integers(1, 120), st.randoms(use_true_random=False))
def test_columns_of_fields_are_those_of_each_message(some: list[bytes], times: int, dice: Any) -> None:
    """Any bytes, and true messages: the columns have exactly what the straight parser finds, in its order."""
    numbers = [dice.choice([0, 1, 127, 128, 2**35, 2**63, 2**64 - 1]) for _ in range(3)]
    true = [
        int_field(8, number) + bytes_field(3000, b"x" * (number % 7)) + int_field(8, number // 3) for number in numbers
    ]
    messages = (some + true) * times
    dice.shuffle(messages)
    sizes = np.array([len(message) for message in messages], np.int64)
    end = np.cumsum(sizes)
    data = b"".join(messages)
    found = protobuf.parse(np.frombuffer(data + bytes(dice.choice([0, 64])), np.uint8), end - sizes, end)
    bad = set(found.bad.tolist())
    columns: dict[int, dict[int, list[Any]]] = {}
    for tag in found.tags:
        column = found.get(tag >> 3, tag & 7)
        for owner, value, start in zip(*(array.tolist() for array in column), strict=True):
            shown = data[start : start + value] if tag & 7 == protobuf.LENGTH else value
            columns.setdefault(owner, {}).setdefault(tag, []).append(shown)
    for owner, message in enumerate(messages):
        wanted = fields_by_one(message)
        assert (wanted is None) == (owner in bad)
        if wanted is not None:
            expected: dict[int, list[Any]] = {}
            for number, wire, value in wanted:
                expected.setdefault(number << 3 | wire, []).append(value)
            assert columns.get(owner, {}) == expected


# Odd files.


def test_a_packet_that_isnt_protobuf_is_skipped(tmp_path: Path) -> None:
    made = random_trace(
        [(5, {"kind": INSTANT, "name": "a", "interned": False, "track": 1, "category": None, "args": {}})]
    )
    path = tmp_path / "broken.pftrace"
    path.write_bytes(bytes_field(1, b"\x0b\xff\xff") + made.SerializeToString())
    read = ktrace.read(path, from_="perfetto")
    assert read.events["name"].tolist() == ["a"]
    assert read.report.issues["bad-record"].places == [("byte 2", "not protobuf")]


def test_no_trace_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text.pftrace"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(DamagedInput, match="isn't a Perfetto trace"):
        ktrace.read(path, from_="perfetto")
    assert not [match for match in detect(path) if match.format == "perfetto"]


@pytest.mark.parametrize("packing", ["compressed_packets", "zstd_compressed_packets"])
def test_packets_in_a_packet(packing: str, tmp_path: Path) -> None:
    plain = MADE["launches-by-interned-kernels.pftrace"]()
    inner = plain.SerializeToString()
    squeezed = zlib.compress(inner) if packing == "compressed_packets" else pa.compress(inner, "zstd", asbytes=True)
    if packing != "compressed_packets":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(inner)
        squeezed = sink.getvalue().to_pybytes()
    outer = trace.Trace()
    outer.packet.add(**{packing: squeezed})
    names = [
        [(row["ts"], row["name"], row.get("dur")) for row in events(write(tmp_path / f"{number}.pftrace", made))]
        for number, made in enumerate((plain, outer))
    ]
    assert names[0] == names[1]


def test_a_clock_that_nothing_ties_to_the_others(tmp_path: Path) -> None:
    made = trace.Trace()
    packet = made.packet.add(trusted_packet_sequence_id=4, timestamp=77, timestamp_clock_id=3)
    packet.track_event.CopyFrom(trace.TrackEvent(type=INSTANT, name="lonely"))
    made.packet.add(trusted_packet_sequence_id=4, timestamp=78).track_event.CopyFrom(
        trace.TrackEvent(type=INSTANT, name="main")
    )
    rows = by_name(write(tmp_path / "clocks.pftrace", made))
    assert (rows["lonely"]["ts"], rows["lonely"]["clock"]) == (77, "monotonic")
    assert "clock" not in rows["main"]


def test_ends_before_their_begins_in_the_file(tmp_path: Path) -> None:
    """Two sequences write to one track: the file's order isn't that of time."""
    made = trace.Trace()
    for sequence, kind, stamps in ((1, END, (200, 400)), (2, BEGIN, (100, 300))):
        for ts in stamps:
            packet = made.packet.add(trusted_packet_sequence_id=sequence, timestamp=ts)
            packet.track_event.CopyFrom(trace.TrackEvent(type=kind, track_uuid=5, name=f"at {ts}"))
    rows = events(write(tmp_path / "order.pftrace", made))
    assert [(row["name"], row["ts"], row["dur"]) for row in rows] == [("at 100", 100, 100), ("at 300", 300, 100)]


# What ktrace itself writes.


def comparable(path: Path, *, format: str | None = None) -> dict[Any, Row]:
    """The events by source and id; metrics, which lose their ids, by their kernel, name and number.

    Of kernels that begin on a GPU in the same nanosecond nobody can tell whose the metrics are.
    """
    rows = [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path, from_=format).to_arrow()["events"].to_pylist()
    ]
    begins = Counter((row.get("device"), row["ts"]) for row in rows if row["kind"] in DEVICE_KINDS)
    found: dict[Any, Row] = {}
    metrics: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "args" in row:
            row["args"] = json.loads(row["args"])
        key: tuple[Any, ...] = (row["source"], row["id"])
        if row["kind"] == "counter" and "parent" in row:
            del row["id"]
            if begins[row.get("device"), row["ts"]] > 1:
                for name in ("parent", "pid", "stream", "dur"):
                    row.pop(name, None)
            same = (row["source"], row.get("parent"), row.get("device"), row["ts"], row["name"])
            metrics[same] += 1
            key = (*same, metrics[same])
        found[key] = row
    return found


def is_number(row: Row) -> bool:
    return "value" in row and abs(row["value"]) < float("inf")


@pytest.mark.parametrize(
    "path",
    [path for folder in sorted(SAMPLES.glob("*/")) for path in golden.samples_of(folder.name)],
    ids=lambda path: path.name,
)
def test_every_sample_comes_back_equal(path: Path, tmp_path: Path) -> None:
    """Except counters that are no number, durations of counters, ids of metrics, and what `layout` makes of tables."""
    name = path.parent.name
    made = tmp_path / "again.perfetto"
    convert(path, made, from_=name)
    before, after = comparable(path, format=name), comparable(made)
    for key, row in before.items():
        if row.get("clock") == "launch":  # a sample within a launch, which has no time until it is laid out
            continue
        if row["kind"] == "counter":
            if before.get((row["source"], row.get("parent")), {}).get("kind") not in DEVICE_KINDS:
                row.pop("dur", None)
            if not is_number(row):
                continue
        assert json.dumps(after.pop(key), sort_keys=True) == json.dumps(row, sort_keys=True)  # NaN is equal to NaN
    assert all(row["timing"] == "synthetic" for row in after.values())
    if not after:
        first, second = (ktrace.read(item).to_arrow()["catalog"].drop_columns(["facts"]) for item in (path, made))
        assert first.to_pylist() == second.to_pylist()
    assert links(made) == links(path, format=name)
    assert ktrace.read(made).report.balanced()


def links(path: Path, *, format: str | None = None) -> list[Row]:
    """All columns of the links, by source and id."""
    rows: list[Row] = ktrace.read(path, from_=format).to_arrow()["links"].to_pylist()
    return sorted(rows, key=lambda row: (row["source"], row["id"]))


CORPUS = [
    path
    for folder in ("pytorch_kineto", "chrome_trace")
    for path in sorted((SHARED / "corpus" / folder).glob("*.json*"))
    if path.stat().st_size < 1 << 20
]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_links_of_the_corpus_come_back_equal(path: Path, tmp_path: Path) -> None:
    """Kind, key, role, row and place of each end; also where no arrow could be drawn, and no others."""
    try:
        before = links(path)
    except KtraceError:
        pytest.skip("isn't read")
    convert(path, tmp_path / "again.perfetto")
    assert links(tmp_path / "again.perfetto") == before


def test_what_is_left_of_a_cut_trace_comes_back_equal(tmp_path: Path) -> None:
    (source,) = SAMPLES.glob("kineto/base-after-the-events*.json")
    whole, cut = tmp_path / "whole.perfetto", tmp_path / "cut.perfetto"
    convert(source, whole)
    before, data = comparable(whole), whole.read_bytes()
    most = 0
    for size in range(len(data) // 2, len(data), 61):
        cut.write_bytes(data[:size])
        report = ktrace.read(cut).report
        assert report.issues["cut"]
        after = comparable(cut)
        most = max(most, len(after))
        for key, row in after.items():
            assert row in (before[key], {name: before[key][name] for name in before[key] if name != "dur"})
        if after:
            assert links(cut) == links(whole)
    assert most == len(before)


TEXTPROTOS = sorted((SHARED / "corpus" / "perfetto_textproto").glob("*.textproto"))


@pytest.mark.parametrize("path", TEXTPROTOS, ids=lambda path: path.stem)
def test_the_textprotos_are_read_and_written_again(path: Path, tmp_path: Path) -> None:
    from ktrace.proto.extensions import load

    pool, extensions = load()
    text = re.sub(
        r"\[perfetto\.protos\.\w+\.(\w+)\]",
        lambda found: f"[{extensions.extensions_by_name[found[1]].full_name}]",
        re.sub(r"render_stage_(submission|wait)_", r"\1_", path.read_text()),  # so our file calls them
    )
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.Trace"))()
    text_format.Parse(text, made, descriptor_pool=pool)
    source = write(tmp_path / "source.pftrace", made)
    stages = sum(packet.HasField("gpu_render_stage_event") for packet in made.packet)
    before = events(source)
    if not before:  # nothing but descriptors of counters
        assert not stages
        with pytest.raises(InputError, match="counter descriptors"):
            convert(source, tmp_path / "again.perfetto")
        return
    report = convert(source, tmp_path / "again.perfetto")
    assert report.balanced()
    after = events(tmp_path / "again.perfetto")
    for row in before:
        row.pop("dur", None)
    for row in after:
        row.pop("dur", None)
    keys = ("name", "kind", "ts", "grid_x", "block_x", "device", "context", "args", "value")
    assert [{key: row.get(key) for key in keys} for row in before] == [
        {key: row.get(key) for key in keys} for row in after
    ]
    assert sum(row["kind"] == "kernel" for row in before) == stages
    if any(row["kind"] == "kernel" for row in before):
        faults = {fault["name"] for fault in errors(tmp_path / "again.perfetto")}
        assert faults <= {"unknown_extension_fields"}  # of v52, with every trace of interned kernels


# What `info` says.


def test_info_lists_the_tables_that_will_show() -> None:
    lines = {path.name.split("-")[0]: inspect(path).about["in ui.perfetto.dev"] for path in FOLDER.glob("*")}
    assert lines["phases"] == ["GPU Compute tab: hidden: no render stages"]
    assert lines["gpu"] == ["GPU Compute tab: hidden: 3 render stages, none of the category COMPUTE"]
    assert lines["launches"][0] == "GPU Compute tab: shows 2 kernels"
    assert "Launch Statistics: hidden: no argument workgroup_size" in lines["launches"]
    assert "Occupancy: hidden: no argument sm__maximum_warps_per_active_cycle_pct" in lines["launches"]


def test_info_of_the_example_that_works() -> None:
    path = SHARED / "gpu_tabs" / "example.pftrace"
    if not path.exists():
        pytest.skip("the example is not at hand (../shared/gpu_tabs)")
    assert inspect(path).about["in ui.perfetto.dev"] == [
        "GPU Compute tab: shows 3 kernels",
        "Summary: shows",
        "Launch Statistics: shows",
        "Occupancy: shows",
        "Speed of Light: shows",
        "streams below their device: shows",
    ]


def test_large_packets_go_over_the_border_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto.reading import packets as read_packets

    dice = random.Random(5)
    packets = [
        int_field(8, number) + bytes_field(900, dice.randbytes(dice.choice([0, 5, 130, 40_000])))
        for number in range(300)
    ]
    data = b"".join(bytes_field(1, packet) for packet in packets)
    for size in (1 << 23, 4096, 701):
        monkeypatch.setattr(read_packets, "_BLOCK", size)
        report = Report()
        found = [
            data[start:end]
            for starts, ends in read_packets.packets(data, report)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        assert found == packets
        assert report.reader.taken == len(packets)


# A child that reads ahead.


def test_a_child_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto.reading import read_ahead

    (path,) = FOLDER.glob("clocks-*")
    told = []
    for large in (1 << 40, 0):
        monkeypatch.setattr(read_ahead, "_LARGE", large)
        report = Report()
        rows = [
            (batch.record, row)
            for batch in read_batches([str(path)], report, jobs=2, batch_rows=3)
            for row in to_rows(batch)
        ]
        told.append((rows, report.to_dict()))
    assert told[0] == told[1]
    assert told[0][1]["skipped"] == 1
    strict = read_batches([str(path)], Report(strict=True), jobs=2)
    with pytest.raises(StrictFailure, match="never began"):
        list(strict)
    text = tmp_path / "text.pftrace"
    text.write_text("no trace")
    with pytest.raises(DamagedInput) as failed:
        list(read_batches([str(text)], Report(), format="perfetto", jobs=2))
    assert failed.value.path == str(text)


@pytest.mark.forks
def test_a_child_ends_when_its_parent_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktrace.converters.perfetto.reading import read_ahead

    monkeypatch.setattr(read_ahead, "_LARGE", 0)
    (path,) = FOLDER.glob("clocks-*")
    batches = read_batches([str(path)], Report(), jobs=2, batch_rows=1)
    next(batches)
    batches.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("sent", [0, 100_000])
def test_a_child_that_dies_is_an_error(sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two batches, or in the middle of one."""
    from ktrace.converters.perfetto.reading import read_ahead

    def die(stream: WriteBehind, batch: Batch) -> None:
        if sent:
            stream.write(read_ahead._HEAD.pack(b"b", 1 << 20) + bytes(sent))
        os._exit(1)

    monkeypatch.setattr(read_ahead, "_LARGE", 0)
    monkeypatch.setattr(read_ahead, "_send_batch", die)
    (path,) = FOLDER.glob("clocks-*")
    with pytest.raises(KtraceError, match="ended too early"):
        list(read_batches([str(path)], Report(), jobs=2))


def test_metrics_of_kernels_come_back_to_their_kernels(tmp_path: Path) -> None:
    made = RowBuilder(Conversion(Report(), "run"))
    metric = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    for device in (0, 1):
        for ts in (1000, 2000):
            place = {"pid": 7, "device": device, "stream": 3}
            kernel = made.event("kernel", "gemm", ts=ts, dur=100 + device, **place)
            for name, value in ((metric, 10.5 + kernel), ("gpu__time_duration.sum", 100.0)):
                made.event("counter", name, ts=ts, dur=100 + device, parent=kernel, value=value, unit="%", **place)
    source = tmp_path / "run.jsonl"
    Trace(made.rest()).write(source)
    convert(source, tmp_path / "run.perfetto")
    columns = ("name", "parent", "ts", "dur", "pid", "device", "stream", "value", "unit")
    before, after = (
        sorted([row.get(name) for name in columns] for row in events(path) if row["kind"] == "counter")
        for path in (source, tmp_path / "run.perfetto")
    )
    assert len(before) == 8
    assert before == after


def test_damaged_bytes_are_reported_or_a_clear_error(tmp_path: Path) -> None:
    """Bytes changed, lost and added anywhere: no other error than our own, and accounts that add up."""
    dice = random.Random(8)
    scene_path = tmp_path / "own.perfetto"
    convert(SAMPLES / "kineto" / "amd-clock-skew-overlap-bare-inf.json", scene_path)
    traces = [path.read_bytes() for path in (*sorted(FOLDER.glob("*")), scene_path)]
    path = tmp_path / "damaged.pftrace"
    outcomes = Counter[str]()
    for _ in range(400):
        data = bytearray(dice.choice(traces))
        for _ in range(dice.choice([1, 2, 20])):
            at = dice.randrange(len(data))
            lost, added = dice.choice([(1, 1), (1, 1), (1, 1), (3, 0), (0, 2)])
            data[at : at + lost] = dice.randbytes(added)
        path.write_bytes(data)
        try:
            report = ktrace.read(path, from_="perfetto").report
        except KtraceError:
            outcomes["error"] += 1
        else:
            assert report.balanced()
            outcomes["issues" if report.issues else "fine"] += 1
    assert min(outcomes["issues"], outcomes["fine"]) > 10  # both ways are taken


def test_of_a_packet_with_its_data_twice_the_last_counts(tmp_path: Path) -> None:
    """The kinds of data of a packet are alternatives: protobuf keeps the last one of them."""
    first, last = (trace.TrackEvent(type=3, name=name, track_uuid=1).SerializeToString() for name in ("first", "last"))
    described = trace.TracePacket(track_descriptor=trace.TrackDescriptor(uuid=1, name="track"), timestamp=1)
    counters = trace.GpuCounterEvent(counters=[trace.GpuCounterEvent.GpuCounter(counter_id=1, int_value=5)])
    twice = int_field(8, 5) + bytes_field(11, first) + bytes_field(11, last)
    mixed = int_field(8, 6) + bytes_field(52, counters.SerializeToString()) + bytes_field(11, last)
    once = int_field(8, 7) + bytes_field(11, last)
    path = tmp_path / "run.pftrace"
    path.write_bytes(b"".join(bytes_field(1, part) for part in (described.SerializeToString(), twice, mixed, once)))
    report = Report()
    found = Trace(read_batches([str(path)], report), report).to_arrow()["events"].to_pylist()
    assert [(row["ts"], row["name"]) for row in found] == [(5, "last"), (6, "last"), (7, "last")]
    assert report.balanced()
    assert report.issues["duplicate-key"].rows == 2
    assert report.issues["duplicate-key"].places[0][0].startswith("byte ")
