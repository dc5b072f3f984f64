"""Writes the device work of a run as the tables that tools print or save of it: `nsys stats`, rocprof, rocprofv3.

Layouts: the headings of `nsys stats` (NVIDIA's reports cuda_gpu_kern_sum, cuda_gpu_mem_time_sum), rocprof's tblextr.py
(results.csv, results.stats.csv, results.json, results.db), rocprofv3's generateCSV.cpp and generateStats.cpp.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from one_run import CALLS, OPS, Event, Run
from one_run_perfetto import direction

_NSYS = ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")
_WAYS = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device"}
_HSA = {"HtoD": "HostToDevice", "DtoH": "DeviceToHost", "DtoD": "DeviceToDevice"}


def _by_name(events: Iterable[Event]) -> list[tuple[str, list[int]]]:
    """Names with their durations, the heaviest first."""
    found: dict[str, list[int]] = {}
    for one in events:
        found.setdefault(one.name, []).append(one.end - one.begin)
    return sorted(found.items(), key=lambda item: -sum(item[1]))


def _figures(of: list[tuple[str, list[int]]]) -> list[tuple[Any, ...]]:
    """Rows of `nsys stats`: share, total, count, mean, median, least, most, deviation, name."""
    whole = sum(sum(durations) for _, durations in of)
    return [
        (
            *(f"{100 * sum(times) / whole:.1f}", sum(times), len(times), f"{statistics.mean(times):.1f}"),
            *(f"{statistics.median(times):.1f}", min(times), max(times)),
            *(f"{statistics.stdev(times) if len(times) > 1 else 0:.1f}", name),
        )
        for name, times in of
    ]


def _nsys_tables(run: Run) -> list[tuple[str, str, list[tuple[Any, ...]]]]:
    """Title, heading of the last column, rows."""
    copies = [
        Event(one.cat, f"[CUDA memcpy {_WAYS[direction(one)]}]", 0, 0, one.begin, one.end, {})
        for one in run.of("gpu_memcpy")
    ]
    fills = [Event(one.cat, "[CUDA memset]", 0, 0, one.begin, one.end, {}) for one in run.of("gpu_memset")]
    kernels, moved = _figures(_by_name(run.of("kernel"))), _figures(_by_name([*copies, *fills]))
    titles = "CUDA GPU Kernel Summary (cuda_gpu_kern_sum)", "CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum)"
    return [(titles[0], "Name", kernels), (titles[1], "Operation", moved)]


def nsys_text(run: Run, path: Path) -> Path:
    """`nsys stats` on the console: columns ruled by dashes, thousands apart."""
    lines = []
    for title, last, rows in _nsys_tables(run):
        heads = [*_NSYS, last]
        if last != "Name":
            heads[2] = "Count"
        cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        lines += ["", f" ** {title}:", ""]
        for row in (heads, ["-" * width for width in widths], *cells):
            numbers = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
            lines.append(" " + "  ".join([*numbers, row[-1].ljust(widths[-1])]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def nsys_csv(run: Run, path: Path) -> Path:
    """`nsys stats --format csv`: the same tables, each after an empty line."""
    parts = []
    for _, last, rows in _nsys_tables(run):
        parts.append(_csv((*_NSYS[:2], "Instances" if last == "Name" else "Count", *_NSYS[3:], last), rows))
    path.write_text("\n".join(parts))
    return path


def _csv(heads: Sequence[str], rows: Iterable[Sequence[Any]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    made = io.StringIO()
    writer = csv.writer(made, quoting=quoting, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return made.getvalue()


# rocprof, versions 1 and 2

_RESULTS = (
    *("Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr"),
    *("arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "obj"),
    *("DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs"),
)


def _sizes(one: Event) -> tuple[int, int]:
    block = one.args["block"][0] if "block" in one.args else 64
    return one.args["grid"][0] * block if "grid" in one.args else block, block


def _dispatches(run: Run) -> list[tuple[Any, ...]]:
    begun = {one.correlation: one.begin for one in run.of(*CALLS)}
    rows = []
    for number, one in enumerate(run.of("kernel")):
        items, group = _sizes(one)
        where = (one.args["device"], one.args["stream"], 2 * number, 4242, 4242, items, group)
        times = (begun.get(one.correlation, one.begin), one.begin, one.end, one.end + 1000, one.end - one.begin)
        rows.append((number, one.name, *where, 0, 0, 8, 8, 16, 64, "0x0", "0x7f00", *times))
    return rows


def rocprof_csv(run: Run, path: Path) -> Path:
    """results.csv: a row for each dispatch; copies aren't in it."""
    path.write_text(_csv(_RESULTS, _dispatches(run)))
    return path


def rocprof_stats(run: Run, path: Path) -> Path:
    """results.stats.csv: kernels by name."""
    of = _by_name(run.of("kernel"))
    whole = sum(sum(times) for _, times in of)
    rows = [(name, len(t), sum(t), int(sum(t) / len(t)), f"{100 * sum(t) / whole:.16g}") for name, t in of]
    path.write_text(_csv(("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"), rows))
    return path


def rocprof_json(run: Run, path: Path) -> Path:
    """results.json of a run without an API's trace: kernels alone, times in us with those in ns as arguments."""
    devices = sorted({one.args["device"] for one in run.of("kernel")})
    events: list[dict[str, Any]] = [{}]
    for number, name in [(0, "Markers and Ranges"), (1, "COPY"), *((6 + device, f"GPU{device}") for device in devices)]:
        about = {
            "args": {"name": name},
            "ph": "M",
            "pid": number,
            "name": "process_name",
            "sort_index": len(events) - 1,
        }
        events.append(about)
    for row in _dispatches(run):
        args = {key: str(cell) for key, cell in zip(_RESULTS[1:], row[1:], strict=True)}
        begin, duration = int(args["BeginNs"]), int(args["DurationNs"])
        place = {"pid": str(6 + int(args["gpu-id"])), "tid": args["queue-id"]}
        times = {"ts": str(begin // 1000), "dur": str(duration // 1000)}
        events.append({"ph": "X", "name": args["KernelName"], **place, **times, "args": args})
    path.write_text('{ "traceEvents":[' + "\n,".join(map(json.dumps, events)) + "\n]}\n")
    return path


def rocprof_db(run: Run, path: Path) -> Path:
    """results.db of the same run: the table of kernels."""
    names = [name for name in _RESULTS if name not in ("arch_vgpr", "accum_vgpr", "wave_size")]
    columns = ", ".join(f'"{name}" {"TEXT" if name == "KernelName" else "INTEGER"}' for name in names)
    kept = [_RESULTS.index(name) for name in names]
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE KERN ({columns})")
        rows = [[row[place] for place in kept] for row in _dispatches(run)]
        database.executemany(f"INSERT INTO KERN VALUES ({', '.join('?' * len(names))})", rows)
        database.commit()
    return path


# rocprofv3


def rocprofv3_csv(run: Run, folder: Path) -> Path:
    """The folder of `rocprofv3 --output-format csv`: a file for each kind of record."""
    folder.mkdir(parents=True, exist_ok=True)
    kernel, copy = [], []
    for one in run.of("kernel"):
        grid, block = one.args.get("grid", (1, 1, 1)), one.args.get("block", (1, 1, 1))
        items = [blocks * threads for blocks, threads in zip(grid, block, strict=True)]
        where = (f"Agent {one.args['device']}", 1, one.args["stream"], 4242, len(kernel) + 1, 10, one.name)
        sizes = (0, 0, 8, 0, 16, *block, *items)
        kernel.append(("KERNEL_DISPATCH", *where, one.correlation, one.begin, one.end, *sizes))
    for one in run.of("gpu_memcpy"):
        ends = [f"Agent {one.args['device'] if side == 'D' else 90}" for side in direction(one)[::3]]
        copy.append(("MEMORY_COPY", one.name, one.args["stream"], *ends, one.correlation, one.begin, one.end))
    call = [("HIP_RUNTIME_API", one.name, 4242, one.tid, one.correlation, one.begin, one.end) for one in run.of(*CALLS)]
    mark = [("MARKER_CORE_API", one.name, 4242, one.tid, 0, one.begin, one.end) for one in run.of(*OPS)]
    agents = [(90, 90, "CPU", "EPYC", "AMD EPYC"), *((d, d, "GPU", "gfx942", "AMD Instinct MI300X") for d in (0,))]
    times = ("Correlation_Id", "Start_Timestamp", "End_Timestamp")
    heads = {
        "kernel_trace": (
            *(
                "Kind",
                "Agent_Id",
                "Queue_Id",
                "Stream_Id",
                "Thread_Id",
                "Dispatch_Id",
                "Kernel_Id",
                "Kernel_Name",
                *times,
            ),
            *("LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count"),
            *(f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ"),
        ),
        "memory_copy_trace": ("Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id", *times),
        "hip_api_trace": ("Domain", "Function", "Process_Id", "Thread_Id", *times),
        "marker_api_trace": ("Domain", "Function", "Process_Id", "Thread_Id", *times),
        "agent_info": ("Node_Id", "Logical_Node_Id", "Agent_Type", "Name", "Product_Name"),
    }
    for name, rows in zip(heads, (kernel, copy, call, mark, agents), strict=True):
        text = _csv(heads[name], rows, csv.QUOTE_NONNUMERIC)
        (folder / f"4242_{name}.csv").write_text(text)
    return folder


def rocprofv3_stats(run: Run, path: Path) -> Path:
    """kernel_stats.csv: kernels by name."""
    of = _by_name(run.of("kernel"))
    whole = sum(sum(times) for _, times in of)
    rows = [
        (
            *(name, len(t), sum(t), f"{sum(t) / len(t):.6f}", f"{100 * sum(t) / whole:.2f}", min(t), max(t)),
            f"{statistics.pstdev(t):.8e}",
        )
        for name, t in of
    ]
    heads = ("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev")
    path.write_text(_csv(heads, rows))
    return path
