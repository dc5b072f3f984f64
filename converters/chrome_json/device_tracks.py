"""Device work that only the names of its tracks tell: processes that are GPUs, threads that are streams.

    process 2 "GPU 0", thread 7 "stream 7"     kernels on stream 7 of device 0; "Memcpy HtoD" is a copy
    process 2 "GPU 0", thread 9 "XLA Ops"      ranges on the device: they show the work of the streams again
    process 1 "app", thread 8 "CUDA stream 8"  kernels on stream 8
    "pid": "GPU 0", "tid": "stream 7"          the same without numbers: texts name the tracks

A slice whose category or arguments say what it is stays that. Names are those of the first 4 MiB of a document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.source import Source
from ktrace.kit.columnar.protobuf import combinations
from ktrace.kit.trace_json.draft import direction
from ktrace.kit.trace_json.phases import on_devices
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, encoded

#: The first bytes, in which names are looked for; at most this many names; and the bytes of an event around a name.
_HEAD, _MOST, _EVENT = 4 << 20, 10_000, 2_000
_DECODER = json.JSONDecoder()
_NAME = re.compile(rb'"(?:process|thread)_name"')

#: Processes that are devices, threads of theirs with work, and threads of other processes that are streams.
_DEVICE = re.compile(
    r"(?:/device:)?(?:GPU|CUDA|ROCm|HIP)(?: device)?[ :#]*[\[(]?(?P<number>\d{1,4})(?!\w).*"
    r"|(?i:gpu|cuda|rocm|hip|xpu|device)[ :#]*(?P<number_alone>\d{1,4})"
    r"|(?:CUDA|HIP) (?:HW|device)\b.*|GPU|CUDA|HIP|ROCm"
    # models: NVIDIA A100-SXM4-80GB, Tesla V100 (0), AMD Instinct MI300X, Intel(R) Data Center GPU Max 1550, gfx942
    r"|(?:NVIDIA |AMD |Intel(?:\(R\))? )*"
    r"(?:Tesla|GeForce|Quadro|RTX|Instinct|Radeon|Arc|Data Center GPU|(?<=NVIDIA )G?[ABHLTV]\d+\w?)\b[^,]*"
    r"|(?:[AHV]100|gfx\d[\da-f]{2,3})\b[^,]*"
)
_OF_MODEL = re.compile(r"(?:[\[(#]|device|agent)[ #:]*(?P<number>\d{1,4})[\])]?$", re.IGNORECASE)
_NUMBERED = r"[\s#:\[]{0,8}(?P<number>\d{1,9})\b.*"
_STREAM = re.compile(rf"(?:(?:CUDA|HIP|GPU|HSA|compute|command) )?(?:stream|queue|channel){_NUMBERED}", re.IGNORECASE)
_WORK = re.compile(
    r"(?:compute|kernels?|memory|memcpy|memset|copy|copies|dma)(?: (?:engine|queue|stream))?\s*\d*", re.IGNORECASE
)
_OWN_STREAM = re.compile(
    rf"(?:CUDA|HIP|GPU)(?:[ :#]*(?P<device>\d{{1,4}}))?,? (?:stream|queue){_NUMBERED}", re.IGNORECASE
)
_COPY = re.compile(r"\[?(?:(?:CUDA|HIP) )?(?:memcpy|memory copy|copy(?:host|device)to)", re.IGNORECASE)
_FILL = re.compile(r"\[?(?:(?:CUDA|HIP) )?(?:memset|fillbuffer)", re.IGNORECASE)


class DeviceTracks(NamedTuple):
    """Pid -> number of the device that it is; (pid, tid) -> the stream that a thread with work is, None by its tid.

    `streams` are threads of other processes: (device, stream).
    """

    devices: dict[int, int]
    work: dict[tuple[int, int], int | None]
    streams: dict[tuple[int, int], tuple[int | None, int]]


def device_tracks(source: Source) -> DeviceTracks:
    """What the names of a document tell."""
    head = source.beginning(_HEAD)
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    for pid, tid, name in _names(head):
        if tid is None:
            processes[pid] = name
        else:
            threads[pid, tid] = name
    matches = {pid: match for pid, name in sorted(processes.items()) if (match := _DEVICE.fullmatch(name.strip()))}
    work: dict[tuple[int, int], int | None] = {}
    streams: dict[tuple[int, int], tuple[int | None, int]] = {}
    for (pid, tid), name in threads.items():
        title = name.strip()
        if pid in matches:
            if stream_of := _STREAM.fullmatch(title):
                work[pid, tid] = int(stream_of["number"])
            elif _WORK.fullmatch(title) or title == str(tid):
                work[pid, tid] = None
        elif stream := _OWN_STREAM.fullmatch(title):
            streams[pid, tid] = (int(stream["device"]) if stream["device"] else None, int(stream["number"]))
    with_work = [pid for pid in matches if any(pid == at for at, _ in work)]
    numbers = {pid: _number(matches[pid]) for pid in with_work}
    devices = {pid: place if number is None else number for place, (pid, number) in enumerate(numbers.items())}
    return DeviceTracks(devices, work, streams)


def _number(device: re.Match[str]) -> int | None:
    """The number of a device by its name, None if that has none."""
    of_model = _OF_MODEL.search(device[0])
    number = device["number"] or device["number_alone"] or (of_model and of_model["number"])
    return int(number) if number else None


def _names(head: bytes) -> Iterator[tuple[int, int | None, str]]:
    """The names of processes (tid None) and threads whose ids are whole numbers."""
    for match in islice(_NAME.finditer(head), _MOST):
        event = _event(head, match.start())
        name = event["args"].get("name")
        pid, tid = event.get("pid"), event.get("tid")
        if event.get("ph") != "M" or not isinstance(name, str) or type(pid) is not int:
            continue
        if event["name"] == "process_name":
            yield pid, None, name
        elif type(tid) is int:
            yield pid, tid, name


def _event(head: bytes, at: int) -> dict[str, Any]:
    """The event with `args` around a name; one without members but `args` where there is none.

    Its bracket is the last one before the name, or where `args` come first the one before that.
    """
    brace = at
    for _ in range(2):
        brace = head.rfind(b"{", max(0, at - _EVENT), brace)
        if brace < 0:
            break
        try:
            event, _ = _DECODER.raw_decode(head[brace : at + _EVENT].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event.get("args"), dict) and event.get("name") in ("process_name", "thread_name"):
            result: dict[str, Any] = event
            return result
    return {"args": {}}


def on_tracks(batch: Batch, tracks: DeviceTracks) -> Batch:
    """The batch with the kinds of work, on devices and streams instead of processes and threads."""
    if (tracks.work or tracks.streams) and batch.has("pid") and batch.has("tid"):
        batch = _on_threads(batch, tracks)
    if batch.record == "events" and batch.has("track"):
        batch = _on_texts(batch)
    return on_devices(batch, tracks.devices)


def _on_texts(batch: Batch) -> Batch:
    """The batch with the work on devices and streams whose tracks are texts: "GPU 0/stream 7"."""
    columns = batch.arrays()
    tracks = encoded(columns["track"])
    places = [_of_text(track or "") for track in tracks.dictionary.to_pylist()]
    if not any(places):
        return batch
    is_work = pa.array([place is not None for place in places], pa.bool_()).take(tracks.indices).fill_null(False)
    is_work = pc.and_(is_work, pc.equal(decoded(columns["kind"]), "range"))
    columns |= _kinds(columns, is_work)
    for at, name in enumerate(("device", "stream")):
        numbers = pa.array([place and place[at] for place in places], pa.int64()).take(tracks.indices)
        column = pc.if_else(is_work, numbers, None)
        columns[name] = pc.coalesce(columns[name], column) if name in columns else column
    columns["track"] = encoded(pc.if_else(is_work, None, decoded(columns["track"])))
    return batch.replaced(columns)


def _of_text(track: str) -> tuple[int, int | None] | None:
    """The device and stream of the texts of a process and its thread; None where these are no work of a device."""
    process, _, title = (part.strip() for part in track.partition("/"))
    device = _DEVICE.fullmatch(process)
    stream = _STREAM.fullmatch(title)
    if device is None or not (stream or _WORK.fullmatch(title)):
        return None
    return _number(device) or 0, int(stream["number"]) if stream else None


def _on_threads(batch: Batch, tracks: DeviceTracks) -> Batch:
    """The batch with the numbers of streams, and the kinds of events on them."""
    columns = batch.arrays()
    pid, tid = (columns[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("pid", "tid"))
    first, code = combinations(pid, [tid.view(np.uint64)])
    places, index = [(int(pid[row]), int(tid[row])) for row in first], pa.array(code)
    has_work = pa.array([place in tracks.work or place in tracks.streams for place in places]).take(index)
    if not has_work.true_count:
        return batch
    if batch.record == "events":
        columns |= _kinds(columns, has_work)
    numbers = [tracks.work.get(place) for place in places]
    streams = [tid if one is None else one for one, (_, tid) in zip(numbers, places, strict=True)]
    of_device = pa.array([place in tracks.work for place in places]).take(index)
    columns["tid"] = pc.if_else(of_device, pa.array(streams, pa.int64()).take(index), columns["tid"])
    on_thread = pa.array([place in tracks.streams for place in places]).take(index)
    if on_thread.true_count and batch.record != "catalog":
        devices, own_streams = zip(*(tracks.streams.get(place, (None, None)) for place in places), strict=True)
        for name, values in (("device", devices), ("stream", own_streams)):
            column = pa.array(values, pa.int64()).take(index)
            columns[name] = pc.coalesce(columns[name], column) if name in columns else column
        columns["tid"] = pc.if_else(on_thread, None, columns["tid"])
    return batch.replaced(columns)


def _kinds(columns: dict[str, pa.Array], has_work: pa.Array) -> dict[str, pa.Array]:
    """The kinds of events, and the directions of copies; slices of a known kind keep it."""
    slices = pc.and_(has_work, pc.equal(decoded(columns["kind"]), "range"))
    names = encoded(columns["name"])
    words = [name or "" for name in names.dictionary.to_pylist()]
    kinds = ["memcpy" if _COPY.match(word) else "memset" if _FILL.match(word) else "kernel" for word in words]
    of_names = pa.array(kinds, pa.string()).take(names.indices)
    replaced = {"kind": pc.if_else(slices, of_names, decoded(columns["kind"])).dictionary_encode()}
    ways = pa.array([direction(word) for word in words], pa.string()).take(names.indices)
    ways = pc.if_else(pc.equal(decoded(replaced["kind"]), "memcpy"), ways, None)
    if ways.null_count < len(ways):
        copy_kind = columns.get("copy_kind")
        replaced["copy_kind"] = encoded(ways if copy_kind is None else pc.coalesce(decoded(copy_kind), ways))
    return replaced
