"""Pages that catapult's trace2html makes of traces: the viewer of chrome://tracing, and the traces in it.

github catapult-project/catapult, tracing/tracing_build/trace2html.py, writes each trace as base64 of gzip:

<!DOCTYPE html>
<html>
  <head i18n-values="dir:textdirection;">
... the viewer, several MB ...
<script id="viewer-data" type="application/json">
H4sIAAAAAAAC/...
</script>
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_PAGE = re.compile(rb'\s*<!DOCTYPE html>\s*<html>\s*<head i18n-values="dir:textdirection;">', re.IGNORECASE)
_SCRIPT = b'<script id="viewer-data"'

#: The end of a page, behind the last trace.
_END = re.compile(rb"[A-Za-z0-9+/=]{64}\s*</script>\s*</head>")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a page of the viewer with a trace as base64."""
    if _PAGE.match(sample.head[:4096]) and (_SCRIPT in sample.head or _END.search(sample.tail)):
        return Match(Score.DIALECT, "is a page of trace2html with a trace in it")
    return None


FORMAT = Format(
    "trace2html",
    "pages of catapult's trace2html: the trace in them, of any format",
    patterns=("*.html",),
    probe=probe,
    read="ktrace.converters.trace2html.reader:read",
    words=("i18n-values",),
)
