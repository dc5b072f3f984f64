"""Vendors' files that only the vendor's own tool can read, recognised so that ktrace can name the export command.

run.qdstrm       a stream of Nsight Systems         QdstrmImporter -i …
kernel.ncu-repz                                     ncu --import … --csv --page raw
run.trace/       a folder of Instruments            xcrun xctrace export --input …
perf.data        PERFILE2                           from a tool that ktrace can't read yet (`unread`): an alternative
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktrace.errors import ClosedFormat
from ktrace.kit import Format, Match, Sample, Score

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.source import Source
    from ktrace.model.batch import Batch

#: The number of bytes of a file that are searched.
_HEAD = 1 << 16


@dataclass(frozen=True)
class Unread:
    """A kind of file: its description, how to get one that ktrace reads, and how to recognise it.

    The file must start with `begin`, and all of `signs` must be in its first 64 KiB.
    """

    what: str
    remedy: str
    begin: re.Pattern[bytes] | None = None
    signs: tuple[re.Pattern[bytes], ...] = ()


def _has(*texts: str) -> tuple[re.Pattern[bytes], ...]:
    return tuple(re.compile(text.encode()) for text in texts)


_JSON = re.compile(rb"\s*[\[{]")

UNREAD = (
    Unread(
        "a report of Intel VTune without computing tasks",
        "report by task: vtune -report hotspots -group-by computing-task -format csv -csv-delimiter comma "
        "-result-dir DIR > tasks.csv; or take the timeline of unitrace",
        re.compile(rb"(?!.{0,65536}Computing Task:Total Time)[^\0]{0,64}", re.DOTALL),
        _has(r"vtune: (?:Executing|Using)"),
    ),
    Unread(
        "a pickle of Python",
        "write a table or a trace from it in Python",
        re.compile(
            rb"\x80[\x02-\x05](?:\x95.{8})?[}\](cX\x8c\x94](?!.{0,64}(?:segments|device_traces|pg_config|entries))",
            re.DOTALL,
        ),
    ),
    Unread(
        "a capture of AMD's Radeon GPU Profiler",
        "record with rocprofv3 --kernel-trace --output-format csv",
        re.compile(rb"B00P"),
    ),
    Unread(
        "an ETDump of ExecuTorch",
        'export it: python -c "from executorch.devtools import Inspector; '
        "Inspector('run.etdp').to_dataframe().to_csv('run.csv')\"",
        re.compile(rb".{4}(?:.{4})?ED00", re.DOTALL),
    ),
    Unread(
        "a protobuf of Paddle's profiler",
        "record it as JSON: on_trace_ready=paddle.profiler.export_chrome_tracing('FOLDER')",
        re.compile(rb"\n[\x05-\x08]\d\.\d\.\d{1,4}\x10"),
    ),
    Unread(
        "an execution trace of Go",
        "have Go make a profile of it: go tool trace -pprof=sync run.trace > run.pprof (or net, syscall, sched)",
        re.compile(rb"go 1\.\d{1,3} trace\0"),
    ),
    Unread(
        "a performance report of Dask",
        "write the task stream that it draws as a table: client.get_task_stream()",
        re.compile(rb"\s{0,200}<"),
        _has(r"<title>Dask Performance Report|Dask Performance Report</"),
    ),
    Unread(
        "a recording of Linux perf",
        "fold its stacks with FlameGraph's script: perf script -i perf.data | stackcollapse-perf.pl > run.folded",
        re.compile(rb"PERFILE2"),
    ),
)

#: Binary files that only their names identify.
_ENDINGS = {
    ".ntff": (
        "a profile of AWS Neuron",
        "have Neuron Explorer make tables of it: neuron-explorer view -n kernel.neff -s profile.ntff --data-path DIR "
        "--ingest-only",
    ),
    ".wpix": ("a capture of Microsoft PIX", "ktrace can't read any output of PIX yet"),
    ".tracy": ("a capture of Tracy", "export its zones as CSV: tracy-csvexport -u run.tracy > run.csv"),
}


def unread(sample: Sample) -> Match | None:
    """NEAR with the name of the tool and an alternative, for a file that ktrace recognises but can't read yet."""
    entry = _known(sample)
    return Match(Score.NEAR, f"is {entry[0]}, which ktrace can't read yet", entry[1]) if entry else None


def _known(sample: Sample) -> tuple[str, str] | None:
    if sample.tables is not None:
        return None
    head = sample.head[:_HEAD].removeprefix(b"\xef\xbb\xbf")
    for kind in UNREAD:
        if (kind.begin is None or kind.begin.match(head)) and all(sign.search(head) for sign in kind.signs):
            return kind.what, kind.remedy
    if sample.text is None:
        return next((tool for ending, tool in _ENDINGS.items() if sample.name.lower().endswith(ending)), None)
    return None


@dataclass(frozen=True)
class Closed:
    """A closed format: its endings and first bytes, a description, and the command that exports it.

    `{name}` in the command is the file's name, `{stem}` the name without its ending. If other tools use the ending
    for text files (`shared`), only a folder or a binary file is recognised.
    """

    endings: tuple[str, ...]
    magic: bytes | None
    what: str
    remedy: str
    shared: bool = False


#: First bytes of files that ktrace reads whatever their name: reports of Nsight Compute.
READ = b"NVR\0"

CLOSED = (
    Closed(
        (".qdstrm",),
        None,
        "an unprocessed stream of NVIDIA Nsight Systems, which only nsys can read",
        "QdstrmImporter -i {name}, then nsys export --type sqlite --lazy=false -o {stem}.sqlite {stem}.nsys-rep",
    ),
    Closed(
        (".ncu-repz", ".nsight-cuprof-report"),
        None,
        "a packed or old report of NVIDIA Nsight Compute, which only ncu can read",
        "ncu --import {name} --csv --page raw > {stem}.csv",
    ),
    Closed(
        (".trace",),
        None,
        "a recording of Apple Instruments, which only xctrace can read",
        "xcrun xctrace export --input {name} --output {stem}.xml "
        '--xpath \'/trace-toc/run[@number="1"]/data/table[@schema="metal-gpu-intervals"]\'',
        shared=True,
    ),
    Closed(
        (".gputrace",),
        None,
        "a GPU capture of Apple Xcode, which only Xcode can read and no tool exports",
        "open it in Xcode, or record the program with Instruments, whose export ktrace reads: "
        "xcrun xctrace record --template 'Metal System Trace' --output run.trace --launch -- PROGRAM",
    ),
)


def probe(sample: Sample) -> Match | None:
    """MAGIC with the export command for a closed format, NEAR for a file of a tool that ktrace can't read yet."""
    name = sample.name.lower().rstrip("/")
    for closed in CLOSED:
        if closed.magic and sample.head.startswith(closed.magic):
            return _claim(closed, sample.name, f"begins with '{closed.magic.decode().rstrip(chr(0))}'")
    if sample.head.startswith(READ):
        return None
    for closed in CLOSED:
        ending = next((ending for ending in closed.endings if name.endswith(ending)), None)
        if ending and (not closed.shared or sample.listing is not None or sample.text is None):
            return _claim(closed, sample.name, f"its name ends in '{ending}'")
    return unread(sample)


def _claim(closed: Closed, name: str, why: str) -> Match:
    stem = name.rsplit(".", 1)[0] or name
    return Match(Score.MAGIC, f"{closed.what} ({why})", closed.remedy.format(name=name, stem=stem))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Always raises ClosedFormat."""
    match = probe(source.sample())
    raise ClosedFormat(
        match.reason if match else "isn't one of the closed formats that ktrace knows",
        path=source.path,
        remedy=match.remedy if match else "leave out --from closed",
    )


FORMAT = Format(
    "closed",
    "vendors' closed formats",
    patterns=("*.qdstrm", "*.ncu-repz", "*.nsight-cuprof-report", "*.trace", "*.gputrace"),
    probe=probe,
    read=read,
    closed=True,
    reads_folders=True,
)
