"""Converts an export of xctrace: the speed in MB/s and the memory.

    python benchmarks/xctrace.py [--megabytes 500]

The rows are like those of a Metal System Trace of Xcode 26: 18 columns, half of the cells references, a label with the
address of its submission in each row.
"""

from __future__ import annotations

from pathlib import Path

from process import Figures, ktrace, run_script

COLUMNS = [
    *("start", "duration", "channel-name", "frame-number", "start-latency", "event-depth", "event-label", "state"),
    *("connection-UUID", "color", "process", "gpu", "channel-subtitle", "iosurface-accesses", "bytes", "cmdbuffer-id"),
    *("encoder-id", "gpu-submission-id"),
]


def write(path: Path, megabytes: int) -> int:
    """Writes an export of about this size; returns its number of rows."""
    schema = "".join(f"<col><mnemonic>{name}</mnemonic></col>" for name in COLUMNS)
    number = rows = size = 0

    def new(tag: str, fmt: str, text: str) -> str:
        nonlocal number
        number += 1
        return f'<{tag} id="{number}" fmt="{fmt}">{text}</{tag}>'

    with path.open("w", encoding="utf-8") as file:
        file.write(
            "<?xml version=\"1.0\"?>\n<trace-query-result>\n<node xpath='//trace-toc[1]/run[1]/data[1]/table[109]'>"
        )
        file.write(f'<schema name="metal-gpu-intervals">{schema}</schema>')
        process = new("process", "python (99926)", new("pid", "99926", "99926") + new("device-session", "TODO", "TODO"))
        owner = number
        constants = [
            new("gpu-channel-name", "Compute", "Compute"), new("metal-nesting-level", "0", "0"),
            new("gpu-state", "Active", "Active"), new("render-buffer-depth", "0", "0"),
            new("metal-device-name", "M3 Ultra", "M3 Ultra"), new("size-in-bytes", "0 Bytes", "0"),
        ]  # fmt: skip
        tags = [
            "gpu-channel-name",
            "metal-nesting-level",
            "gpu-state",
            "render-buffer-depth",
            "metal-device-name",
            "size-in-bytes",
        ]
        refs = [f'<{tag} ref="{number - len(tags) + 1 + index}"/>' for index, tag in enumerate(tags)]
        while size < megabytes << 20:
            start, dur = 907_208_500 + rows * 21_125, 1_000 + rows * 7919 % 99_991
            label = f"Command Buffer 0:Compute Command {rows % 40}"
            first = constants if not rows else refs
            channel, depth, state, color, gpu, size_of = first
            text = new("string", label, label) + (process if not rows else f'<process ref="{owner}"/>')
            cells = [
                new("start-time", f"00:{start // 10**9:02}.{start // 1000 % 10**6:06}", str(start)),
                new("duration", f"{dur / 1000:.2f} µs", str(dur)),
                channel, new("gpu-frame-number", f"Frame {rows}", str(rows)),
                new("duration", f"{dur / 10:.2f} µs", str(dur * 100 + 7)), depth,
                new("formatted-label", f"{label}   ( python (99926) )  0x{0x4E189059 + rows:x}", text),
                state, new("connection-uuid64", str(rows + 1), str(rows + 1)), color, f'<process ref="{owner}"/>', gpu,
                "<sentinel/>", "<sentinel/>", size_of,
                new("metal-command-buffer-id", hex(0x154D189050 + rows * 2), str(0x154D189050 + rows * 2)),
                new("metal-command-buffer-id", hex(0x154D189051 + rows * 2), str(0x154D189051 + rows * 2)),
                new("uint64", f"{1_310_232_665 + rows * 5:,}", str(1_310_232_665 + rows * 5)),
            ]  # fmt: skip
            row = f"<row>{''.join(cells)}</row>\n"
            file.write(row)
            size += len(row)
            rows += 1
        file.write("</node></trace-query-result>\n")
    return rows


def measure(folder: Path, megabytes: int, times: int) -> dict[str, Figures]:
    """Measures the conversions of one export."""
    source = folder / "gpu.xml"
    rows = write(source, megabytes)
    size = source.stat().st_size
    results: dict[str, Figures] = {}
    for to in ("parquet", "perfetto"):
        target = folder / f"gpu.{to}"
        found = ktrace("convert", source, "-o", target, "--jobs", 1, "--overwrite", times=times)
        found["MB/s"] = size / 1e6 / found["wall s"]
        results[f"{size / 1e6:,.0f} MB, {rows:,} rows to .{to}"] = found
    return results


if __name__ == "__main__":
    run_script(measure, "--megabytes", 500, __file__, __doc__)
