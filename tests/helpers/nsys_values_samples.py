"""A database of Nsight Systems with values that SQLite and nsys itself can't hold as they were."""

from __future__ import annotations

import json
from pathlib import Path

import nsys_samples as made

#: What the sampler measured, (ns, metric, value), as GENERIC_EVENTS says it.
MEASURED = [
    (20_000, "PCIe TX Throughput", 5_000_000_000),
    (20_000, "SM Active", 40),
    (30_000, "PCIe TX Throughput", 3_000_000_000),
    (30_000, "SM Active", 41),
    (40_000, "PCIe TX Throughput", 900),
    (40_000, "SM Active", 42),
]

#: How GPU_METRICS calls them, and their numbers.
METRICS = {"PCIe TX Throughput": ("PCIe TX Throughput [B/s]", 8), "SM Active": ("SMs Active [Throughput %]", 11)}

GREAT, SMALL = (1 << 63) + 5, 7
ADDRESSES = [0x7F35_0000_1234, 0x55D0_0000_0400]
TYPE = 0x1_0000_0000_0FF00


def signed(value: int, bits: int) -> int:
    """What is left of a number in so many bits with a sign."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def tables() -> dict[str, list[made.Row]]:
    """Cut metrics, payloads from 2^63 on, colours, ranges that another thread ended, addresses of frames."""
    text = made.Strings()
    samples = {
        time: {name: str(value) for at, name, value in MEASURED if at == time}
        for time in sorted({m[0] for m in MEASURED})
    }
    nvtx = {"eventType": 59, "globalTid": made.GLOBAL_TID, "domainId": 0}
    process = nvtx | {"eventType": 60, "rangeId": 1, "end": 40_000}
    frames = [("main", "app"), ("start", "libc.so.6")]
    return {
        "NVTX_EVENTS": [
            nvtx | {"start": 10_000, "end": 12_000, "text": "red", "color": -65_536, "uint64Value": signed(GREAT, 64)},
            nvtx | {"start": 13_000, "end": 14_000, "text": "green", "color": 0x76B900, "uint64Value": SMALL},
            process | {"start": 15_000, "text": "by another thread", "endGlobalTid": made.GLOBAL_TID + 1},
            process | {"start": 16_000, "text": "by another process", "endGlobalTid": made.GLOBAL_TID + (3 << 24)},
        ],
        "GPU_METRICS": [
            {"timestamp": at, "typeId": TYPE, "metricId": METRICS[name][1], "value": signed(value, 32)}
            for at, name, value in MEASURED
        ],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": TYPE, "sourceId": 1, "metricId": number, "metricName": name} for name, number in METRICS.values()
        ],
        "GENERIC_EVENTS": [
            {"rawTimestamp": time + 7, "timestamp": time, "typeId": TYPE, "data": json.dumps(sample)}
            for time, sample in samples.items()
        ],
        "GENERIC_EVENT_SOURCES": [{"sourceId": 1, "data": '{"Name": "GpuMetrics"}'}],
        "GENERIC_EVENT_TYPES": [{"typeId": TYPE, "sourceId": 1, "data": '{"Name": "GA100 GPU 0"}'}],
        "COMPOSITE_EVENTS": [
            {"id": number, "start": 1000 * number, "cpu": 0, "globalTid": made.GLOBAL_TID, "threadState": 1}
            | {"cpuCycles": 9}
            for number in (1, 2, 3)
        ],
        "SAMPLING_CALLCHAINS": [
            {"id": number, "symbol": text(symbol), "module": text(module), "stackDepth": depth}
            | {"originalIP": ADDRESSES[depth] + 16 * (number == 3)}
            for number in (1, 2, 3)
            for depth, (symbol, module) in enumerate(frames)
        ],
        "TARGET_INFO_SESSION_START_TIME": [
            {
                "utcEpochNs": 1_780_000_000_000_000_000,
                "utcTime": "2026-05-28T20:26:40",
                "localTime": "2026-05-28T22:26:40",
            }
        ],
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.11.0"}],
        "StringIds": text.rows(),
    }


MORE = {"GENERIC_EVENT_SOURCES": "sourceId data:TEXT"}


def main() -> None:
    """Writes the sample."""
    folder = Path(__file__).parent.parent.parent / "samples" / "nsys"
    made.make(folder / "schema-3.11-cut-metrics-great-payloads-colours-addresses.sqlite", tables(), more=MORE)


if __name__ == "__main__":
    main()
