"""Other tools on the same file, each run in its own process: `python others.py NAME FILE [OUT]`."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any


def orjson_loads(path: Path) -> None:
    """Only reads the whole document into Python objects."""
    import gc

    import orjson

    gc.disable()
    print(len(orjson.loads(path.read_bytes())["traceEvents"]))


def proto_builder(path: Path, out: Path) -> None:
    """Converts slices with json and one protobuf message per packet (TraceProtoBuilder); arguments become strings."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    events = json.loads(path.read_bytes(), parse_float=Decimal)["traceEvents"]
    builder, tracks = TraceProtoBuilder(), {}
    edges = []
    for event in events:
        if event["ph"] == "X":
            begin = int(event["ts"] * 1000)
            edges += [(begin, event), (begin + int(event["dur"] * 1000), None, event["pid"], event["tid"])]
    for edge in sorted(edges, key=lambda edge: edge[0]):
        event = edge[1]
        place = (event["pid"], event["tid"]) if event else edge[2:]
        if place not in tracks:
            tracks[place] = len(tracks) + 1
            descriptor = builder.add_packet().track_descriptor
            descriptor.uuid, descriptor.name = tracks[place], str(place)
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = edge[0], 1
        packet.track_event.track_uuid = tracks[place]
        if event is None:
            packet.track_event.type = TrackEvent.TYPE_SLICE_END
            continue
        packet.track_event.type, packet.track_event.name = TrackEvent.TYPE_SLICE_BEGIN, event["name"]
        for key, value in event["args"].items():
            annotation = packet.track_event.debug_annotations.add()
            annotation.name, annotation.string_value = key, str(value)
    out.write_bytes(builder.serialize())


def sqlite3_fetch(path: Path) -> None:
    """Only fetches the kernels and calls of an Nsight Systems database as Python objects."""
    import sqlite3

    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    for table in ("KERNEL", "RUNTIME"):
        cursor = connection.execute(f"SELECT * FROM CUPTI_ACTIVITY_KIND_{table}")
        while cursor.fetchmany(10_000):
            pass


def read_sql(path: Path, out: Path) -> None:
    """Converts kernels and calls to slices with pandas.read_sql and one protobuf message per packet."""
    import sqlite3

    import pandas as pd
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    kernels = pd.read_sql(
        "SELECT k.*, s.value AS name FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName",
        connection,
    )
    calls = pd.read_sql(
        "SELECT r.*, s.value AS name FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId", connection
    )
    builder, tracks = TraceProtoBuilder(), {}
    for frame, place, kept in ((kernels, "streamId", ("gridX", "blockX", "correlationId")), (calls, "globalTid", ())):
        for row in frame.to_dict("records"):
            if row[place] not in tracks:
                tracks[row[place]] = len(tracks) + 1
                descriptor = builder.add_packet().track_descriptor
                descriptor.uuid, descriptor.name = tracks[row[place]], str(row[place])
            for time, kind in ((row["start"], TrackEvent.TYPE_SLICE_BEGIN), (row["end"], TrackEvent.TYPE_SLICE_END)):
                packet = builder.add_packet()
                packet.timestamp, packet.trusted_packet_sequence_id = time, 1
                packet.track_event.track_uuid, packet.track_event.type = tracks[row[place]], kind
                if kind == TrackEvent.TYPE_SLICE_BEGIN:
                    packet.track_event.name = row["name"]
                    for key in kept:
                        annotation = packet.track_event.debug_annotations.add()
                        annotation.name, annotation.int_value = key, row[key]
    out.write_bytes(builder.serialize())


def main(name: str, *paths: str) -> None:
    """Runs the tool of that name."""
    tools: dict[str, Any] = {
        "orjson": orjson_loads,
        "proto_builder": proto_builder,
        "sqlite3": sqlite3_fetch,
        "read_sql": read_sql,
    }
    tools[name](*map(Path, paths))


if __name__ == "__main__":
    main(*sys.argv[1:])
