"""Pages that catapult's trace2html makes of traces: the viewer of chrome://tracing, and the traces in it.

github catapult-project/catapult, tracing/tracing_build/trace2html.py, writes each trace as base64 of gzip:

<!DOCTYPE html>
<html>
  <head i18n-values="dir:textdirection;">
... the viewer, several MB ...
<script id="viewer-data" type="application/json">
H4sIAAAAAAAC/...
</script>

Unpacks the trace of a page into a temporary file, and reads that as whatever format it is.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.model.batch import Batch
from ktrace.scratch import scratch_folder

_PAGE = re.compile(rb'\s*<!DOCTYPE html>\s*<html>\s*<head i18n-values="dir:textdirection;">', re.IGNORECASE)
_BEGIN = b'<script id="viewer-data"'

#: The end of a page, behind the last trace.
_END = re.compile(rb"[A-Za-z0-9+/=]{64}\s*</script>\s*</head>")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a page of the viewer with a trace as base64."""
    if _PAGE.match(sample.head[:4096]) and (_BEGIN in sample.head or _END.search(sample.tail)):
        return Match(Score.DIALECT, "is a page of trace2html with a trace in it")
    return None


_SCRIPT = re.compile(rb'<script id="viewer-data"[^>]{0,200}>')
_OTHERS = re.compile(rb"[^A-Za-z0-9+/=]+")

#: Bytes that are read at once, and those before the next ones that a tag may be in.
_CHUNK = 1 << 18
_TAG = 256


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the first trace; the others are reported. Raises DamagedInput for a page without one."""
    with scratch_folder() as folder:
        file = folder / "trace"
        with source.open() as stream:
            others = _unpack(stream, file, source)
        for number in range(others):
            conversion.report.record()
            conversion.report.issue("unrecognised", f"trace {number + 2}", "a further trace of the page")
        trace = source.with_stand_in(file)
        fmt = choose(trace)
        if fmt.name == "trace2html":
            raise _damaged(source, "contains a page in the place of a trace")
        yield from fmt.batches(trace, conversion)


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected='a script "viewer-data" with a trace as base64',
        remedy="convert the trace that the page was made from",
    )


def _unpack(stream: BinaryIO, file: Path, source: Source) -> int:
    """Writes the first trace, still compressed, to a file; returns how many others there are."""
    text = _to_script(stream, b"")
    if text is None:
        raise _damaged(source, "has no trace in it")
    with file.open("wb") as out:
        left = b""
        while True:
            part, end, rest = text.partition(b"<")
            left += _OTHERS.sub(b"", part)
            whole = len(left) - len(left) % 4
            try:
                out.write(b64decode(left[:whole]))
            except ValueError:
                raise _damaged(source, "has a trace that isn't base64") from None
            left = left[whole:]
            if end or not (text := stream.read(_CHUNK)):
                break
    others = 0
    while (text := _to_script(stream, rest)) is not None:
        others, rest = others + 1, text
    return others


def _to_script(stream: BinaryIO, text: bytes) -> bytes | None:
    """Returns the text after the next tag of a trace, as far as it is read; None if there is none."""
    while True:
        if match := _SCRIPT.search(text):
            return text[match.end() :]
        more = stream.read(_CHUNK)
        if not more:
            return None
        text = text[-_TAG:] + more


FORMAT = Format(
    "trace2html",
    "pages of catapult's trace2html: the trace in them, of any format",
    patterns=("*.html",),
    probe=probe,
    read=read,
    words=("i18n-values",),
    holds="blocks",
)
