"""Makes the samples of XPlane files: `python -m tests.helpers.xplane_samples` writes them anew.

A message is a list of (field number, value): an int is a varint, a float a double, bytes are a message or a text.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "samples" / "xplane"

Value = int | float | bytes
START = 1_767_323_045_000_000_000


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def message(*fields: tuple[int, Value | str]) -> bytes:
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            made += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            made += varint(number << 3 | 2) + varint(len(data)) + data
    return made


class PlaneMaker:
    """A plane whose names get ids as they are used. `first` puts the metadata before the lines."""

    def __init__(self, name: str, *, first: bool = False) -> None:
        self._name, self._first = name, first
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.about: dict[str, bytes] = {}
        self._lines: list[bytes] = []
        self._own: list[bytes] = []

    def stat(self, name: str, field: int, value: Value | str) -> bytes:
        """An XStat; field 7 refers to a text by its id."""
        identity = self.stats.setdefault(name, len(self.stats) + 1)
        if field == 7 and isinstance(value, str):
            value = self.stats.setdefault(value, len(self.stats) + 1)
        return message((1, identity), (field, value))

    def own(self, name: str, field: int, value: Value | str) -> None:
        """Adds a stat of the plane."""
        self._own.append(message((6, self.stat(name, field, value))))

    def event(self, name: str, offset: int | None, dur: int, *stats: bytes, times: int | None = None) -> bytes:
        """An XEvent as a field of its line."""
        identity = self.events.setdefault(name, len(self.events) + 1)
        when = ((2, offset),) if offset is not None else ((5, times or 0),)
        return message((4, message((1, identity), *when, (3, dur), *((4, stat) for stat in stats))))

    def line(self, identity: int, name: str, timestamp: int, *events: bytes, shown: str = "") -> None:
        """Adds a line, its fields in the order of protobuf libraries."""
        head = message((1, identity), (2, name), *(((3, timestamp),) if timestamp else ()))
        tail = message((11, shown)) if shown else b""
        self._lines.append(message((3, head + b"".join(events) + tail)))

    def backwards(self, identity: int, name: str, timestamp: int, *events: bytes) -> None:
        """Adds a line that states its id, time and name after its events."""
        self._lines.append(message((3, b"".join(events) + message((1, identity), (3, timestamp), (2, name)))))

    def made(self) -> bytes:
        """The plane as a field of the file."""
        names = b"".join(
            message((4, message((1, key), (2, message((1, key), (2, name)) + self.about.get(name, b"")))))
            for name, key in self.events.items()
        )
        texts = b"".join(
            message((5, message((1, key), (2, message((1, key), (2, name)))))) for name, key in self.stats.items()
        )
        parts = (names + texts, b"".join(self._lines)) if self._first else (b"".join(self._lines), names + texts)
        return message((1, message((2, self._name)) + b"".join(parts) + b"".join(self._own)))


def task(start: int) -> bytes:
    plane = PlaneMaker("Task Environment")
    plane.own("profile_start_time", 3, start)
    plane.own("profile_stop_time", 3, start + 5_000_000)
    return plane.made()


def gpu() -> bytes:
    """A CUDA device with streams, lines that repeat them, a counter; its host."""
    device = PlaneMaker("/device:GPU:1")
    details = "regs:40 static_shared:1024 dynamic_shared:2048 grid:80,2,1 block:256,1,1 occ_pct:62.5"
    hlo = (
        device.stat("hlo_op", 7, "fusion.3"),
        device.stat("hlo_module", 7, "jit_step"),
        device.stat("program_id", 4, 9),
    )
    extra = (device.stat("context_id", 5, "$$1"), device.stat("theoretical_occupancy_pct", 2, 62.5))

    def launched(number: int) -> bytes:
        return device.stat("correlation_id", 3, number)

    device.line(
        13,
        "Stream #13(Kernel,MemcpyH2D)",
        1000,
        device.event(
            "MemcpyH2D",
            500,
            2_000_500,
            launched(70),
            device.stat("memcpy_details", 7, "kind_src:pinned kind_dst:device size:4096 dest:1 async:1"),
        ),
        device.event(
            "loop_add_fusion",
            3_001_500,
            1_500_000,
            launched(71),
            device.stat("kernel_details", 7, details),
            *hlo,
            *extra,
        ),
        device.event(
            "loop_add_fusion", 5_000_000, 1_500_499, launched(72), device.stat("kernel_details", 5, details), *hlo
        ),
    )
    device.line(
        14,
        "Stream #14(Memset,MemoryAlloc)",
        1000,
        device.event(
            "Memset",
            7_000_000,
            250_000,
            launched(73),
            device.stat("Memset_details", 7, "kind:device num_bytes:512 async:1"),
        ),
        device.event("MemoryAlloc", 8_000_000, 0, device.stat("memalloc_details", 7, "kind:device num_bytes:65536")),
    )
    device.line(3735928559, "Steps", 1000, device.event("0", 0, 9_000_000, device.stat("group_id", 4, 0)))
    device.line(3735928563, "XLA Modules", 1000, device.event("jit_step(9)", 3_001_500, 3_498_999, *hlo))
    device.line(
        3735928562, "XLA Ops", 1000, device.event("fusion.3", 3_001_500, 3_498_999, device.stat("flops", 4, 8192))
    )
    device.line(3735928565, "Framework Ops", 1000, device.event("", 3_001_500, 1_500_000))
    device.line(
        900,
        "_counters_",
        1000,
        device.event("power_mw", 4_000_000, 0, device.stat("power_mw", 2, 71_500.0)),
        device.event("power_mw", 6_000_000, 0, device.stat("power_mw", 2, 80_250.5)),
        device.event("power_mw", 6_500_000, 0),
    )
    device.own("device_vendor", 5, "Nvidia")
    device.own("core_count", 4, 108)
    device.own("compute_cap_major", 4, 8)
    device.own("compute_cap_minor", 4, 0)
    host = PlaneMaker("/host:CPU")

    def call(name: str, at: int, number: int) -> bytes:
        return host.event(name, at, 900_000, host.stat("correlation_id", 3, number), host.stat("device_id", 3, 1))

    host.line(
        583,
        "Host Threads/583",
        0,
        call("cuMemcpyHtoDAsync", 400_000, 70),
        call("cuLaunchKernel", 2_000_000, 71),
        call("cuLaunchKernel", 3_000_000, 72),
        shown="Host Threads/583",
    )
    host.line(
        -5,
        "python",
        0,
        host.event("$train.py:12 step", 100_000, 8_000_000),
        host.event(
            "MemoryAllocation",
            1_500_000,
            0,
            host.stat("allocation_bytes", 4, 256),
            host.stat("allocator_name", 7, "GPU_1_bfc"),
        ),
        host.event("MemoryDeallocation", 7_500_000, 0, host.stat("allocation_bytes", 4, 256)),
        host.event("StopRegion", 8_000_000, 0),
    )
    host.own("process_id", 4, 4242)
    about = PlaneMaker("/host:metadata")
    about.own("jax_version", 5, "0.9.9")
    return about.made() + device.made() + host.made() + task(START) + message((4, "node-a"))


def tpu() -> bytes:
    """A TPU core with a loop and sums, names before lines, times since 1970, lines and events that are damaged."""
    core = PlaneMaker("/device:TPU:0", first=True)
    body, loop = "%fusion.7 = bf16[8,128]{1,0} fusion(%p0)", "%while.1 = (s32[]) while(%tuple.4)"
    core.about[body] = message(
        (4, "fusion.7"),
        (5, core.stat("flops", 3, 16_384)),
        (5, core.stat("bytes_accessed", 3, 4096)),
        (5, core.stat("hlo_category", 5, "loop fusion")),
    )
    core.about[loop] = message((4, "while.1"), (5, core.stat("hlo_category", 5, "while")))
    packed = gzip.compress(b"model.py:3\nmain.py:8", mtime=0)
    core.backwards(
        2,
        "XLA Ops",
        START + 1000,
        core.event(loop, 1_000_250, 5_000_000),
        core.event(body, 1_100_750, 2_000_000, core.stat("source_stack", 8, packed)),
        core.event(body, 3_200_250, 2_500_500, core.stat("flops", 3, 32_768)),
        core.event(body, 7_000_000, 1_000_000, core.stat("mixed", 4, -3)),
        core.event(body, 9_000_000, -7, core.stat("mixed", 5, "three")),
        core.event(body, 10_000_000, 1_000_000, core.stat("mixed", 5, "three")),
        message((4, message((1, 99), (2, 12_000_000), (3, 500_000)))),
    )
    core.line(1, "Steps", START + 1000, core.event("step 5", 1_000_000, 12_000_000))
    core.line(7, "Async XLA Ops", START + 1000, core.event("copy-start.2", 2_000_000, 6_000_000))
    core.line(
        8, "XLA Ops", START + 1000, core.event(body, None, 90_000_000, core.stat("min_duration_ps", 4, 7_000), times=12)
    )
    sparse = PlaneMaker("/device:TPU:0 SparseCore 1")
    sparse.line(3, "Sparse Core Ops", START + 1000, sparse.event("gather.1", 4_000_000, 1_500_000))
    return core.made() + sparse.made() + message((3, "Trace buffer was full; some events were dropped"))


def of_host(name: str, start: int, at: int) -> bytes:
    """One of several hosts."""
    device = PlaneMaker("/device:GPU:0")
    device.line(7, "Stream #7(Kernel)", 2000, device.event(f"kernel of {name}", at, 3_000_000))
    return device.made() + task(start) + message((4, name))


def write() -> None:
    """Writes the samples."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "streams-repeated-lines-counter-below-a-nanosecond.xplane.pb").write_bytes(gpu())
    (FOLDER / "tpu-loop-sums-lines-backwards-since-1970.xplane.pb").write_bytes(tpu())
    run = FOLDER / "a-run-of-two-hosts" / "plugins" / "profile" / "2026_01_02_03_04_05"
    run.mkdir(parents=True, exist_ok=True)
    (run / "node-a.xplane.pb").write_bytes(of_host("node-a", START, 1_000_000))
    (run / "node-b.xplane.pb").write_bytes(of_host("node-b", START + 2_000_000, 500_000))
    events = '{"ph":"X","pid":1,"tid":1,"ts":3,"dur":3,"name":"kernel of node-a"},{}'
    for name in ("node-a.trace.json", "perfetto_trace.json"):
        (run / name).write_text(f'{{"displayTimeUnit":"ns","traceEvents":[{events}]}}\n')
    (run / "ALL_HOSTS.op_stats.pb").write_bytes(b"\n\x02\x08\x01")


if __name__ == "__main__":
    write()
