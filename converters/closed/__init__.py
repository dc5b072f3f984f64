"""Vendors' files that only the vendor's own tool can read, recognised so that ktrace can name the export command.

run.qdstrm       a stream of Nsight Systems         QdstrmImporter -i …
kernel.ncu-repz                                     ncu --import … --csv --page raw
run.trace/       a folder of Instruments            xcrun xctrace export --input …
otlp.json        {"resourceSpans": [...             from a tool that ktrace can't read yet (`unread`): an alternative
"""

from __future__ import annotations

from dataclasses import dataclass

from ktrace.kit import Format, Match, Sample, Score

from .unread import unread


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


FORMAT = Format(
    "closed",
    "vendors' closed formats",
    patterns=("*.qdstrm", "*.ncu-repz", "*.nsight-cuprof-report", "*.trace", "*.gputrace"),
    probe=probe,
    read="ktrace.converters.closed.reader:read",
    closed=True,
    reads_folders=True,
)
