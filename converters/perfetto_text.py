"""Perfetto traces as text: what `protoc --decode=perfetto.protos.Trace` prints, and the form of Perfetto's own tests.

packet {
  timestamp: 1000
  trusted_packet_sequence_id: 1
  track_event { type: TYPE_INSTANT track_uuid: 1 name: "mark" }
}

Parses a trace as text with the classes of the package `perfetto`, and writes the protobuf that it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf import text_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import EncodeError

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.compression import utf8
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.proto.extensions import load, message_class
from ktrace.report import Report
from ktrace.scratch import scratch_folder

_PACKET = re.compile(r"(?:\s|#[^\n]*(?:\n|\Z))*packet\s*(?::\s*)?[{<]")

#: Members of packets, of which a trace has some.
_MEMBERS = re.compile(
    r"[\s{<](?:(?:timestamp|trusted_packet_sequence_id|trusted_uid)\s*:|(?:track_event|clock_snapshot|ftrace_events)\s*[:{<])"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a text that begins with a packet."""
    text = sample.text or ""
    if _PACKET.match(text) and _MEMBERS.search(text):
        return Match(Score.DIALECT, "begins with a packet of a Perfetto trace as text")
    return None


#: Perfetto's names of its extensions, which the package lacks, and of values of one: ours have the same fields.
_EXTENSION = re.compile(r"\[perfetto\.protos\.Gpu(?:InternedData|TrackEvent)\.(\w+)\]")
_ANY_EXTENSION = re.compile(r"\[(\w+(?:\.\w+)+)\](?=\s*[:{<])")
_API = re.compile(r"(\bgpu_api\]\s*:\s*)GPU_API_")


@contextmanager
def exported(source: Source, conversion: Conversion) -> Iterator[Source]:
    """Provides the source with a trace in protobuf in the place of its text.

    Raises DamagedInput for a text that isn't whole, and for one with a field that the package `perfetto` doesn't know;
    extensions that it doesn't know are left out and noted.
    """
    with source.open() as stream:
        text = current().whole(utf8(stream), source.path).decode("utf-8", "replace").removeprefix("\ufeff")
    pool, trace = load()[0], message_class("Trace")()
    text = _API.sub(r"\1", _EXTENSION.sub(r"[ktrace.protos.\1]", text))
    _note_unknown(text, pool, conversion.report)
    try:
        text_format.Parse(text, trace, allow_unknown_extension=True, descriptor_pool=pool)
        data = trace.SerializeToString()
    except (text_format.ParseError, EncodeError, RecursionError) as error:
        raise DamagedInput(
            f"isn't a trace as text: {str(error)[:200]}",
            path=source.path,
            expected="packets with fields that the Python package perfetto knows",
            remedy="update it, or write the trace as protobuf: protoc --encode=perfetto.protos.Trace",
        ) from None
    with scratch_folder() as folder:
        made = folder / "trace.perfetto"
        made.write_bytes(data)
        yield source.with_stand_in(made)


def _note_unknown(text: str, pool: DescriptorPool, report: Report) -> None:
    """Notes the extensions that aren't known, such as Android's: they are left out."""
    starts: dict[str, list[int]] = {}
    for extension in _ANY_EXTENSION.finditer(text):
        starts.setdefault(extension[1], []).append(extension.start())
    for name, places in starts.items():
        try:
            pool.FindExtensionByName(name)
        except KeyError:
            line = text.count("\n", 0, places[0]) + 1
            report.issue("unknown-field", f"line {line}", f"the extension {name}", len(places))


FORMAT = Format(
    "perfetto-text",
    "Perfetto traces as text (textproto)",
    patterns=("*.textproto", "*.pbtxt"),
    probe=probe,
    via="perfetto",
    export=exported,
    prose=True,
    words=("packet",),
    holds="whole",
)
