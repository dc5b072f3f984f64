"""What others do with the same file, each in a process of its own: `python others.py NAME FILE [OUT]`."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any


def orjson_loads(path: Path) -> None:
    """Only reads: the whole document as Python objects."""
    import gc

    import orjson

    gc.disable()
    print(len(orjson.loads(path.read_bytes())["traceEvents"]))


def proto_builder(path: Path, out: Path) -> None:
    """json, and a protobuf message a packet by perfetto's TraceProtoBuilder: slices, with arguments as texts."""
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


def main(name: str, *paths: str) -> None:
    """Runs one of them."""
    ways: dict[str, Any] = {"orjson": orjson_loads, "proto_builder": proto_builder}
    ways[name](*map(Path, paths))


if __name__ == "__main__":
    main(*sys.argv[1:])
