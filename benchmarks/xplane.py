"""Measures the conversion of an XPlane file: kernels on GPU streams, their calls on threads, Python frames.

    python benchmarks/xplane.py [--events 2000000] [--json xplane.json]

The file is generated: a third of the events are kernels with correlation, details, HLO op and module, a third are their
calls, a third are Python frames without stats. --keep FOLDER keeps it.
"""

from __future__ import annotations

from pathlib import Path

from process import Figures, ktrace, run_script

#: Names of kernels, streams of the device, threads of the host.
NAMES, STREAMS, THREADS = 500, 4, 8


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _named(field: int, identity: int, name: str) -> bytes:
    return _bytes(field, _number(1, identity) + _bytes(2, _number(1, identity) + _bytes(2, name.encode())))


def _event(name: int, offset_ps: int, dur_ps: int, stats: bytes = b"") -> bytes:
    return _bytes(4, _number(1, name) + _number(2, offset_ps) + _number(3, dur_ps) + stats)


def _stat(identity: int, field: int, value: int) -> bytes:
    return _bytes(4, _number(1, identity) + _number(field, value))


def _line(identity: int, name: str, events: list[bytes]) -> bytes:
    return _bytes(3, _number(1, identity) + _bytes(2, name.encode()) + _number(3, 911_061) + b"".join(events))


def make_input(folder: Path, events: int) -> Path:
    """Returns the input with that many events; generates it unless the file exists."""
    path = folder / f"x{events}.xplane.pb"
    if path.exists():
        return path
    third = events // 3
    streams: list[list[bytes]] = [[] for _ in range(STREAMS)]
    threads: list[list[bytes]] = [[] for _ in range(THREADS)]
    for number in range(third):
        name, at = number % NAMES + 1, number * 10_000_000
        hlo = _stat(3, 7, 100 + name) + _stat(4, 7, 5) + _stat(6, 4, 15)
        details = _stat(2, 7, 2000 + name % 40)
        streams[number % STREAMS].append(_event(name, at + 5_000_000, 8_000_000, _stat(1, 3, number) + details + hlo))
        threads[number % THREADS].append(_event(1, at, 2_000_000, _stat(1, 3, number) + _stat(7, 3, 0) + hlo))
        threads[(number + 1) % THREADS].append(_event(2 + name, at + 100_000, 9_000_000))
    words = {1: "correlation_id", 2: "kernel_details", 3: "hlo_op", 4: "hlo_module", 5: "jit_step", 6: "program_id"}
    words |= {7: "device_id"} | {100 + name: f"fusion.{name}" for name in range(1, NAMES + 1)}
    words |= {
        2000 + name: f"regs:32 static_shared:0 dynamic_shared:1024 grid:{name + 1},1,1 block:256,1,1 occ_pct:75"
        for name in range(40)
    }
    texts = b"".join(_named(5, identity, word) for identity, word in words.items())
    kernels = b"".join(_named(4, name, f"loop_add_fusion_{name}") for name in range(1, NAMES + 1))
    frames = b"".join(_named(4, 2 + name, f"$train.py:{name} step") for name in range(1, NAMES + 1))
    with path.open("wb") as file:
        lines = b"".join(_line(7 + one, f"Stream #{7 + one}(Kernel)", part) for one, part in enumerate(streams))
        file.write(_bytes(1, _bytes(2, b"/device:GPU:0") + lines + kernels + texts))
        lines = b"".join(_line(583 + one, f"Host Threads/{583 + one}", part) for one, part in enumerate(threads))
        file.write(_bytes(1, _bytes(2, b"/host:CPU") + lines + _named(4, 1, "cuLaunchKernel") + frames + texts))
    return path


def measure(folder: Path, events: int, times: int) -> dict[str, Figures]:
    """Returns name -> seconds, events/s, memory, size relative to the input."""
    path = make_input(folder, events)
    size = path.stat().st_size
    results: dict[str, Figures] = {}
    for suffix in ("perfetto", "parquet"):
        out = folder / f"xplane.{suffix}"
        figures = ktrace("convert", path, "-o", out, "--overwrite", "--jobs", 1, times=times)
        results[f"XPlane -> .{suffix}"] = figures | {
            "M events/s": events // 3 * 3 / figures["wall s"] / 1e6,
            "size": out.stat().st_size / size,
        }
        out.unlink()
    return results


if __name__ == "__main__":
    run_script(measure, "--events", 2_000_000, __file__, __doc__)
