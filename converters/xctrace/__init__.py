"""XML that `xcrun xctrace export --xpath` writes of a recording of Apple Instruments, such as a Metal System Trace.

<trace-query-result>
<node xpath='//trace-toc[1]/run[1]/data[1]/table[109]'><schema name="metal-gpu-intervals">
<col><mnemonic>start</mnemonic><name>Creation</name><engineering-type>start-time</engineering-type></col> ...</schema>
<row><start-time id="1" fmt="00:00.907">907208500</start-time><duration id="2" fmt="13.83 µs">13833</duration>...</row>
<row><start-time id="19" ...>910416125</start-time><duration ref="2"/><gpu-channel-name ref="3"/><sentinel/> ...</row>
</node></trace-query-result>

A cell belongs to the column at its position, since tags repeat. A value is written once, with an id; later cells refer
to it, also to elements inside other cells. `<sentinel/>` is null. The text of an element is the value, `fmt` is for
people.

document   finds schemas and rows in the stream         scan       rows of the regular form, as numpy arrays
values     the values by id, in temporary files         elements   any other rows, with expat
recording  columns, and what tables share               tables     what a table's columns become
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--(?:(?!-->).){0,4000}-->\s*)*<(trace-query-result|trace-toc)\b",
    re.DOTALL,
)

#: The table that a folder of exports must have, and the names of tables of the GPU.
INTERVALS = "metal-gpu-intervals"
TABLE_FILE = re.compile(r"(?:.*[/._-])?((?:metal|gpu)-[a-z-]{1,60}[a-z])[^/]{0,120}\.xml(?:\.gz|\.zst)?")


def probe(sample: Sample) -> Match | None:
    """MAGIC for the root element; SHAPE for a folder with an export of the GPU's intervals."""
    if sample.listing is not None:
        return _folder(sample.listing)
    if sample.head[:1] not in (b"<", b"\xef", b" ", b"\n", b"\r", b"\t"):
        return None
    root = _ROOT.match(sample.head[:8192])
    return Match(Score.MAGIC, f"has the root element <{root[1].decode()}>") if root else None


def _folder(listing: tuple[str, ...]) -> Match | None:
    tables = [path for path in listing if TABLE_FILE.fullmatch(path)]
    others = [path for path in listing if not path.endswith((".xml", ".xml.gz", ".xml.zst"))]
    if len(others) > len(tables) or not any(INTERVALS in path for path in tables):
        return None
    return Match(Score.DIALECT, f"contains exports of xctrace, such as {tables[0]}")


FORMAT = Format(
    "xctrace",
    "Apple Instruments (Metal System Trace), XML of `xctrace export`",
    patterns=("*.xml",),
    probe=probe,
    read="ktrace.converters.xctrace.reader:read",
    words=("trace-query-result", "trace-toc"),
    reads_folders=True,
    holds="blocks",
)
