"""Made Perfetto traces, and what ktrace reads of a trace as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace
from perfetto_samples import COUNTER, NEEDED

import ktrace

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


NAMES = ["", "gemm", "näher «Ω»", "a" * 200, "x.y"]


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
