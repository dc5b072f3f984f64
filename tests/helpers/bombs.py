"""Small inputs whose references give much: frames of stacks, texts by their numbers, lists within lists.

`BOMBS` has a maker for each: it writes the input to a folder, at most some MB, and returns it. `size` is about how many
bytes its references give once all are followed.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from conftest import SAMPLES
from hpctoolkit_samples import Context, meta, profiles, traces
from xplane_samples import PlaneMaker, message

Maker = Callable[[Path, int], Path]

BOMBS: dict[str, Maker] = {}


def bomb(maker: Maker) -> Maker:
    """Adds a maker under its name."""
    BOMBS[maker.__name__.strip("_").replace("_", "-")] = maker
    return maker


def _saved(path: Path, data: Any) -> Path:
    if isinstance(data, (str, bytes)):
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    else:
        path.write_text(json.dumps(data))
    return path


def _side(size: int, of: int = 10) -> int:
    """How long a chain is whose stacks have `size` bytes together, with frames of `of` bytes."""
    return int((2 * size / of) ** 0.5)


@bomb
def xctrace_frames_of_frames(folder: Path, size: int) -> Path:
    """Each backtrace has the one before it twice."""
    text = (SAMPLES / "xctrace/tables-of-the-host-hangs-signposts-samples.xml").read_text()
    begin, end = text.index("<backtrace id="), text.index("</backtrace>") + len("</backtrace>")
    levels = (size // 10).bit_length()
    chain = ['<frame id="900000" name="AAAAAAAAAA"/>']
    for level in range(1, levels + 1):
        twice = f'<frame ref="{900_000 + level - 1}"/>' * 2
        chain.append(f'<backtrace id="{900_000 + level}">{twice}</backtrace>')
    whole = f'<backtrace id="899999">{"".join(chain)}<frame ref="{900_000 + levels}"/></backtrace>'
    return _saved(folder / "run.xml", text[:begin] + whole + text[end:])


@bomb
def xctrace_text_of_many_rows(folder: Path, size: int) -> Path:
    """A long name of a frame in many backtraces."""
    text = (SAMPLES / "xctrace/tables-of-the-host-hangs-signposts-samples.xml").read_text()
    begin, end = text.index("<backtrace id="), text.index("</backtrace>") + len("</backtrace>")
    count = 20 * int((size / 1e6) ** 0.5)
    long = "A" * (size // count)
    frames = f'<frame id="900000" name="{long}"/>' + '<frame ref="900000"/>' * count
    return _saved(folder / "run.xml", text[:begin] + f'<backtrace id="899999">{frames}</backtrace>' + text[end:])


@bomb
def chrome_stack_frames(folder: Path, size: int) -> Path:
    """A chain of parents: each frame is a stack."""
    count = _side(size)
    frames = {str(number): {"name": "A" * 10, "parent": str(number - 1)} for number in range(count)}
    events = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "sf": str(count - 1)}]
    return _saved(folder / "run.json", {"traceEvents": events, "stackFrames": frames})


@bomb
def chrome_long_frame(folder: Path, size: int) -> Path:
    """A frame with a long name, around many others."""
    frames: dict[str, Any] = {"0": {"name": "A" * 1_000_000}}
    frames |= {str(number): {"name": "b", "parent": "0"} for number in range(1, size // 1_000_000)}
    events = [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "sf": "1"}]
    return _saved(folder / "run.json", {"traceEvents": events, "stackFrames": frames})


def _v8(count: int, child: Callable[[int], list[int]]) -> dict[str, Any]:
    frame = {"functionName": "A" * 10, "url": "", "lineNumber": 1}
    nodes = [{"id": number, "callFrame": frame, "children": child(number)} for number in range(1, count + 1)]
    samples = list(range(1, count + 1))
    times = {"startTime": 0, "endTime": 10 * count, "timeDeltas": [10] * count}
    return times | {"nodes": nodes, "samples": samples}


@bomb
def cpuprofile_chain(folder: Path, size: int) -> Path:
    count = _side(size)
    return _saved(folder / "run.cpuprofile", _v8(count, lambda number: [number + 1] if number < count else []))


@bomb
def cpuprofile_leaves_of_a_chain(folder: Path, size: int) -> Path:
    """Many nodes with the same stack, which is deep."""
    count = int((size / 10) ** 0.5)
    leaves = list(range(count + 1, 2 * count + 1))
    child = {number: [number + 1] for number in range(1, count)} | {count: leaves}
    return _saved(folder / "run.cpuprofile", _v8(2 * count, lambda number: child.get(number, [])))


@bomb
def speedscope_open_frames(folder: Path, size: int) -> Path:
    """Events without times: each opens a frame, within all before it."""
    count = _side(size)
    events = [{"type": "O", "frame": 0, "at": number} for number in range(count)]
    profile = {"type": "evented", "name": "a", "unit": "bytes", "startValue": 0, "endValue": count, "events": events}
    return _speedscope(folder, [profile], ["A" * 10])


@bomb
def speedscope_long_name(folder: Path, size: int) -> Path:
    count = size // 1_000_000
    samples = [[number % 3] * (1 + number // 3) for number in range(int((6 * count) ** 0.5))]
    profile = {"type": "sampled", "name": "a", "unit": "bytes", "startValue": 0, "endValue": 9, "samples": samples}
    return _speedscope(folder, [profile | {"weights": [1] * len(samples)}], ["A" * 1_000_000, "b", "c"])


@bomb
def speedscope_long_file_of_ranges(folder: Path, size: int) -> Path:
    events = []
    for number in range(size // 1_000_000):
        events += [{"type": kind, "frame": 0, "at": number} for kind in "OC"]
    profile = {"type": "evented", "name": "a", "unit": "seconds", "startValue": 0, "endValue": 9, "events": events}
    return _speedscope(folder, [profile], ["A" * 1_000_000])


def _speedscope(folder: Path, made: list[Any], names: list[str]) -> Path:
    schema = "https://www.speedscope.app/file-format-schema.json"
    frames = [{"name": name} for name in names]
    return _saved(folder / "run.json", {"$schema": schema, "profiles": made, "shared": {"frames": frames}})


def _pprof(folder: Path, name: str, lines: int, samples: list[int]) -> Path:
    """A profile with one location; for each sample the number of its frames."""
    texts = ["", "samples", "count", name]
    line = message((4, message((1, 1), (2, 7))))
    fields: list[tuple[int, Any]] = [(1, message((1, 1), (2, 2)))]
    fields += [(2, message((1, b"\1" * count), (2, b"\1"))) for count in samples]
    fields += [(4, message((1, 1)) + line * lines), (5, message((1, 1), (2, 3)))]
    return _saved(folder / "run.pprof", message(*fields, *((6, text) for text in texts)))


@bomb
def pprof_lines_of_a_location(folder: Path, size: int) -> Path:
    side = int((size / 10) ** 0.5)
    return _pprof(folder, "A" * 10, side, [side])


@bomb
def pprof_long_name(folder: Path, size: int) -> Path:
    return _pprof(folder, "A" * 100_000, 1, [max(1, size // 10_000_000)] * 100)


@bomb
def hpctoolkit_chain(folder: Path, size: int) -> Path:
    """Many contexts within the same others."""
    return _hpctoolkit(folder, size, 200, "A" * 10)


@bomb
def hpctoolkit_long_names(folder: Path, size: int) -> Path:
    return _hpctoolkit(folder, size, 100, "A" * 60_000)


def _hpctoolkit(folder: Path, size: int, depth: int, name: str) -> Path:
    """Contexts within a chain of others with the same name; each frame has some 32 bytes besides."""
    contexts = range(1_000, 1_000 + max(1, size // (depth * (len(name) + 32))))
    tree = tuple(Context(one, 0, "b", children=()) for one in contexts)
    for number in range(depth, 0, -1):
        tree = (Context(number, 0, name, children=tree),)
    run = folder / "run"
    run.mkdir()
    (run / "meta.db").write_bytes(meta(("CPUTIME (sec)",), {(99_999, "main thread"): tree}, "run"))
    (run / "profile.db").write_bytes(profiles([({}, {}), ({"THREAD": 0}, {one: {0: 1.0} for one in contexts})]))
    (run / "cct.db").touch()
    (run / "trace.db").write_bytes(traces({1: [(10 + index, one) for index, one in enumerate(contexts)]}))
    return run


@bomb
def torch_memory_lists_of_lists(folder: Path, size: int) -> Path:
    """A list of the same list, of the same list, ... as the value of a member of a block."""
    value: Any = ["A" * 4_000] * 60
    for _ in range(2):
        value = [value] * 60
    block = {"address": 1, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": [], "odd": value}
    count = max(1, size // (4_000 * 60**3))
    segment = {"device": 0, "address": 1, "total_size": 512, "stream": 0, "segment_type": "small", "blocks": []}
    segments = [segment | {"address": number, "blocks": [block], "odd": value} for number in range(count)]
    traced = [{"action": "alloc", "addr": 1, "size": 5, "stream": 0, "frames": [], "time_us": 9, "odd": value}] * count
    return _saved(folder / "run.pickle", pickle.dumps({"segments": segments, "device_traces": [traced]}, 4))


@bomb
def torch_memory_frames(folder: Path, size: int) -> Path:
    """Stacks of the same frames."""
    frame = {"name": "A" * 900, "filename": "a.py", "line": 1}
    count = size // (128 * 900)
    traced = [
        {
            "action": "alloc",
            "addr": n,
            "size": 5,
            "stream": 0,
            "time_us": n,
            "frames": [frame | {"line": n}] + [frame] * 127,
        }
        for n in range(count)
    ]
    return _saved(folder / "run.pickle", pickle.dumps({"segments": [], "device_traces": [traced]}, 4))


@bomb
def xplane_stats(folder: Path, size: int) -> Path:
    """Texts of the metadata of an event, which many events have, and texts that stats name by number."""
    made = PlaneMaker("/device:GPU:0")
    long = made.stat("tf_op", 7, "B" * 500_000)
    made.about["fusion"] = message((5, made.stat("hlo_text", 5, "A" * 500_000)))
    events = [made.event("fusion", 10_000 * number, 5_000, long) for number in range(size // 1_000_000)]
    made.line(1, "Stream #1", 1_000, *events)
    return _saved(folder / "run.xplane.pb", made.made())


@bomb
def perfetto_interned(folder: Path, size: int) -> Path:
    """Names and values of arguments by their numbers."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

    made = trace.Trace()
    first = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    first.interned_data.event_names.add(iid=1, name="A" * 500_000)
    first.interned_data.debug_annotation_string_values.add(iid=1, str=b"B" * 500_000)
    first.interned_data.debug_annotation_names.add(iid=1, name="key")
    track = made.packet.add()
    track.track_descriptor.uuid = 5
    track.track_descriptor.name = "track"
    for number in range(size // 1_000_000):
        packet = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=number)
        packet.track_event.type = 3
        packet.track_event.track_uuid = 5
        packet.track_event.name_iid = 1
        packet.track_event.debug_annotations.add(name_iid=1, string_value_iid=1)
    return _saved(folder / "run.perfetto-trace", made.SerializeToString())


@bomb
def perfetto_numbers_far_apart(folder: Path, size: int) -> Path:
    """Sequences with one text each, which has a great number: tables by numbers would be mostly empty."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

    made = trace.Trace()
    for number in range(size // (16 << 20)):
        first = made.packet.add(trusted_packet_sequence_id=1 + number, sequence_flags=1, timestamp=number)
        first.interned_data.event_names.add(iid=(1 << 22) - 1, name="a")
        first.track_event.type = 3
        first.track_event.name_iid = (1 << 22) - 1
    return _saved(folder / "run.perfetto-trace", made.SerializeToString())


@bomb
def perfetto_values_in_values(folder: Path, size: int) -> Path:
    """A list of many references to a long text."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

    made = trace.Trace()
    first = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    first.interned_data.debug_annotation_string_values.add(iid=1, str=b"B" * 1_000_000)
    track = made.packet.add()
    track.track_descriptor.uuid = 5
    packet = made.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=1)
    packet.track_event.type = 3
    packet.track_event.name = "a"
    packet.track_event.track_uuid = 5
    values = packet.track_event.debug_annotations.add(name="list")
    for _ in range(size // 1_000_000):
        values.array_values.add(string_value_iid=1)
    return _saved(folder / "run.perfetto-trace", made.SerializeToString())


@bomb
def otlp_resource(folder: Path, size: int) -> Path:
    """An attribute of a resource, which all of its spans have."""
    spans = [
        {"traceId": "0" * 31 + "1", "spanId": f"{number + 1:016x}", "name": "a"}
        | {"startTimeUnixNano": str(number), "endTimeUnixNano": str(number + 1)}
        for number in range(size // 1_000_000)
    ]
    attributes = [{"key": "long", "value": {"stringValue": "A" * 500_000}}]
    scope = {"scope": {"name": "s", "attributes": attributes}, "spans": spans}
    return _saved(
        folder / "run.json", {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]}
    )


@bomb
def nsys_strings(folder: Path, size: int) -> Path:
    """Long texts of the table of strings as names of many kernels."""
    path = Path(shutil.copy(SAMPLES / "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite", folder / "run.sqlite"))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE StringIds SET value = value || ?", ("A" * 50_000,))
        for (table,) in database.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE '%KERNEL%' AND type = 'table'"
        ):
            names = [f'"{row[1]}"' for row in database.execute(f"PRAGMA table_info({table})")]
            database.execute(
                f"INSERT INTO {table} SELECT {', '.join(names)} FROM {table},"
                " (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n)",
                (max(1, size // 50_000 // 5),),
            )
    database.close()
    return path


@bomb
def otf2_names(folder: Path, size: int) -> Path:
    """A region with a long name, entered often."""
    from otf2_samples import trace

    with trace(folder / "run", "traces", 10**9) as made:
        define = made.definitions
        process = define.location_group("p", system_tree_parent=define.system_tree_node("n", class_name="node"))
        thread, region = made.event_writer("t", group=process), define.region("A" * 1_000_000)
        for number in range(size // 1_000_000):
            thread.enter(1 + 2 * number, region)
            thread.leave(2 + 2 * number, region)
    return folder / "run"


@bomb
def parquet_dictionary(folder: Path, size: int) -> Path:
    """Texts of dictionaries in many rows, as other programs write them: ktrace writes its arguments plain."""
    import pyarrow.parquet as pq

    table, path = _events(size), folder / "run.parquet"
    with pq.ParquetWriter(path, table.schema, store_schema=False, dictionary_pagesize_limit=1 << 30) as file:
        file.add_key_value_metadata({"ktrace.version": "1.0"})
        file.write_table(table)
    return path


@bomb
def arrow_dictionary(folder: Path, size: int) -> Path:
    """A dictionary in an Arrow file."""
    table = _events(size).drop_columns("args").replace_schema_metadata({"ktrace.version": "1.0"})
    with pa.ipc.new_file(folder / "run.arrow", table.schema) as file:
        file.write_table(table)
    return folder / "run.arrow"


def _events(size: int) -> pa.Table:
    """Events with a long name and long arguments, all the same; each text is there once."""
    count = max(1, size // 400_000)
    texts = {"source": "a", "kind": "range", "timing": "measured"}
    texts |= {"name": "A" * 200_000, "args": json.dumps({"key": "B" * 200_000}), "record": "event"}
    columns: dict[str, Any] = {name: pa.array([word]).dictionary_encode() for name, word in texts.items()}
    columns = {name: column.take(pa.array([0] * count)) for name, column in columns.items()}
    numbers = pa.array(range(1, count + 1), pa.int64())
    return pa.table(columns | {"id": numbers, "ts": numbers, "dur": numbers})


@bomb
def legion_names(folder: Path, size: int) -> Path:
    """The provenance of an operation, which many tasks have."""
    text = "FileType: BinaryLegionProf v: 1.0\n"
    text += "TaskInfo {id:1, op_id:UniqueID:8, task_id:TaskID:4, variant_id:VariantID:4, "
    text += "proc_id:ProcID:8, create:timestamp_t:8, ready:timestamp_t:8, start:timestamp_t:8, stop:timestamp_t:8}\n"
    text += "OperationInstance {id:2, op_id:UniqueID:8, kind:unsigned:4, provenance:unsigned long long:8}\n"
    text += "Provenance {id:3, provenance:unsigned long long:8, prov:string:-1}\n"
    text += "MaxDimDesc {id:4, max_dim:unsigned:4}\n\n"
    data = struct.pack("<IQ", 3, 9) + b"A" * 60_000 + b"\0" + struct.pack("<IQIQ", 2, 7, 1, 9)
    tasks = [struct.pack("<IQIIQ4Q", 1, 7, 1, 1, 1, 1, 1, n, n + 1) for n in range(size // 60_000)]
    return _saved(folder / "run.prof", text.encode() + data + b"".join(tasks))
