"""Names, nesting and order of tracks, as all timeline writers show them."""

from __future__ import annotations

from typing import Any

import pytest

from ktrace.model.catalog import Catalog
from ktrace.model.row_builder import to_batch
from ktrace.model.tracks import Node, Track, arrange, give_ids


def catalog(*facts: dict[str, Any]) -> Catalog:
    made = Catalog()
    if facts:
        made.add(to_batch("catalog", [{"source": "run", "id": number} | fact for number, fact in enumerate(facts)]))
    return made


def outline(nodes: list[Node]) -> list[Any]:
    """Names, each followed by the list of what stands below it."""
    return [item for node in nodes for item in (node.shown.name, *([outline(node.children)] if node.children else []))]


def test_tracks_nest_by_their_numbers() -> None:
    tracks = [
        Track("run", pid=5, tid=6),
        Track("run", pid=5, device=0, context=1, stream=7),
        Track("run", pid=5, tid=6, track="NVTX"),
        Track("run", pid=5, device=0),
        Track("run", track="log"),
        Track("run", run="fp16", track="Statistics"),
        Track("run", pid=5),
    ]
    facts = catalog(
        {"entity": "process", "pid": 5, "name": "python3"},
        {"entity": "device", "device": 0, "name": "H100"},
        {"entity": "thread", "pid": 5, "tid": 6, "name": "main"},
    )
    found = arrange(tracks, facts)
    assert outline(found) == [
        "python3",
        ["main", ["NVTX"], "GPU 0 · H100", ["stream 7"], "events"],
        "run",
        ["log"],
        "fp16",
        ["Statistics"],
    ]
    numbers = sorted(node.number for process in found for node in process.walk() if node.number is not None)
    assert numbers == list(range(len(tracks)))


def test_streams_come_first_and_say_their_context_where_there_are_several() -> None:
    tracks = [
        Track("run", device=0, track="allocated"),
        Track("run", device=0, context=2, stream=7),
        Track("run", device=0, context=1, stream=7),
        Track("run", device=1, context=3, stream=7),
        Track("run", device=1, context=3),
    ]
    assert outline(arrange(tracks, catalog())) == [
        "run",
        ["GPU 0", ["stream 7 context 1", "stream 7 context 2", "allocated"], "GPU 1", ["context 3", "stream 7"]],
    ]


def test_the_catalog_s_order_comes_before_that_of_appearance() -> None:
    tracks = [Track("run", pid=1, tid=tid) for tid in (10, 11, 12, 13)]
    facts = catalog(
        {"entity": "thread", "pid": 1, "tid": 13, "order": 1, "name": "first"},
        {"entity": "thread", "pid": 1, "tid": 11, "order": 2},
    )
    assert outline(arrange(tracks, facts)) == ["run", ["first", "thread 11", "thread 10", "thread 12"]]


def test_a_stream_is_named_by_a_fact_that_knows_less_of_it() -> None:
    facts = catalog({"entity": "stream", "device": 0, "stream": 7, "name": "compute"})
    found = arrange([Track("run", pid=1, device=0, context=3, stream=7)], facts)
    assert outline(found) == ["run", ["GPU 0", ["compute"]]]


def test_processes_of_one_name_are_told_apart() -> None:
    facts = catalog(
        {"entity": "process", "pid": 1, "name": "python3"},
        {"entity": "process", "pid": 2, "name": "python3"},
        {"entity": "process", "source": "other", "pid": 2, "name": "python3"},
    )
    tracks = [Track("run", pid=1, tid=1), Track("run", pid=2, tid=1), Track("other", pid=2, tid=1)]
    assert outline(arrange(tracks, facts))[::2] == [
        "python3 (run, pid 1)",
        "python3 (run, pid 2)",
        "python3 (other, pid 2)",
    ]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ([4, None, 2], [4, 1, 2]),
        ([None, 1, 1, None], [2, 1, 3, 4]),
        ([0, -5, 2**40, 10], [1, 2, 3, 10]),
        ([], []),
    ],
)
def test_ids_are_kept_where_legal_and_free(wanted: list[int | None], given: list[int]) -> None:
    assert give_ids(wanted, 2**31 - 1) == given


def test_devices_and_streams_come_by_their_numbers_unless_the_catalog_has_an_order() -> None:
    tracks = [Track("run", device=1, stream=40), Track("run", device=1, stream=7), Track("run", tid=9)]
    tracks += [Track("run", device=0, stream=stream) for stream in (20, 3, 5)]
    first = {"entity": "stream", "device": 0, "stream": 20, "order": 1}
    assert outline(arrange(tracks, catalog(first))) == [
        "run",
        ["GPU 0", ["stream 20", "stream 3", "stream 5"], "thread 9", "GPU 1", ["stream 7", "stream 40"]],
    ]


@pytest.mark.parametrize(
    ("fact", "shown"),
    [
        ({}, "GPU 4"),
        ({"name": "H100"}, "GPU 4 · H100"),
        ({"facts": '{"kind": "NPU"}'}, "NPU 4"),
        ({"name": "Ascend910B", "facts": '{"kind": "NPU"}'}, "NPU 4 · Ascend910B"),
        ({"name": "TPU 4"}, "TPU 4"),
        ({"name": "/device:TPU:4"}, "TPU 4"),
        ({"name": "TPU v5e"}, "TPU 4 · TPU v5e"),
        ({"name": "OUTPUT"}, "GPU 4 · OUTPUT"),
        ({"name": "GPU", "facts": '{"kind": 7}'}, "GPU 4"),
    ],
)
def test_a_device_is_called_what_its_source_calls_it(fact: dict[str, Any], shown: str) -> None:
    found = arrange([Track("run", device=4, stream=1)], catalog({"entity": "device", "device": 4} | fact))
    assert outline(found) == ["run", [shown, ["stream 1"]]]


@pytest.mark.parametrize(
    ("tid", "name"),
    [
        (0, "thread 0"),
        (4711, "thread 4711"),
        (-1, "unknown thread"),
        (-123_456, "thread 0xfffe1dc0"),
        (-(1 << 31), "thread 0x80000000"),
        (-5_000_000_000, "thread 0xfffffffed5fa0e00"),
    ],
)
def test_a_negative_number_of_a_thread_is_one_without_a_sign(tid: int, name: str) -> None:
    """pthreads are addresses, which programs print or cut as numbers with a sign; -1 is none."""
    assert outline(arrange([Track("run", pid=1, tid=tid)], catalog())) == ["run", [name]]
