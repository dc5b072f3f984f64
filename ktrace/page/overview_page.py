"""The page of an overview: served beside its answers, or as one file that has them itself.

    overview.html  overview.css  overview.js     with the colours of ktrace/page/page.css

The file has the sums of all lanes, buckets and names, in buckets as narrow as `CELLS` allow; the page adds them up.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ktrace.analysis.questions.overview import Span
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.analysis.work.groups import MANY, OTHER
from ktrace.page.charts import operation_colours
from ktrace.page.page import hashed, read_part, with_bold_figures
from ktrace.pipeline.overview import idle_causes
from ktrace.tables import escape_controls

#: The most buckets and sums in one file: some 2 MB.
BUCKETS, CELLS = 4_096, 300_000

#: Buckets of a map of many devices: of each at least, and about of all.
_FEWEST, _MAP = 256, 150_000

_SERVED = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'sha256-{script}'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


#: The colours of phases, and of kinds of work of the host.
_PHASES = {"prefill": "k1", "decode": "k2", "mixed": "k3"}
_HOST = {"op": "rest", "api": "unclear", "sync": "more", "overhead": "unclear", "range": "k6"}


def about_lanes(overview: Overview) -> dict[str, Any]:
    """What the page needs first: the lanes in the order in which they are drawn, and colours."""
    return overview.about() | {"colours": _HOST | _PHASES | operation_colours(overview.operations) | {OTHER: "rest"}}


def policy() -> str:
    """The content security policy of the page that is served."""
    return _SERVED.format(script=hashed(read_part("overview.js")))


def served_page(title: str) -> bytes:
    """The page that asks the server it comes from."""
    return _page(title, "", "").encode()


def one_file(overview: Overview, *, about: Mapping[str, Any] | None = None, verdict: Sequence[str] = ()) -> str:
    """The page with all that it shows, facts that `about` adds to those of the lanes and the sentences of a verdict."""
    shift = max(overview.stored.cells.shift, overview.length.bit_length() - BUCKETS.bit_length() + 1)
    while len(cells := overview.cells((0, overview.length), shift)) > CELLS and shift < overview.length.bit_length():
        shift += 1
    data = {
        "about": about_lanes(overview) | {"shift": shift} | dict(about or {}),
        "cells": [column.tolist() for column in cells.columns],
        "names": overview.named(np.unique(cells.name).tolist()),
        "tables": overview.tables.tolist(),
        "counters": overview.counters((0, overview.length), shift),
        "idle": idle_causes(overview, (0, overview.length)),
    }
    data["about"]["fine"] = fine = _of_many(overview, shift)
    data["names"] |= fine["names"] if fine else {}
    packed = base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()
    rules = _ALONE.format(script=hashed(read_part("overview.js")))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
    return _page(overview.title, meta, _block("data", packed), verdict)


def with_trace(page: str, part: Span, trace: bytes) -> str:
    """A page of `one_file` that hands a packed trace of a part of the time to the Perfetto UI, at `ui` in `about`."""
    before, script, after = page.rpartition("<script>")
    blocks = _block("held", json.dumps(part)) + _block("trace", base64.b64encode(trace).decode())
    return f"{before}{blocks}{script}{after}"


def _block(name: str, text: str) -> str:
    return f'<script id="{name}" type="application/octet-stream">{text}</script>\n'


def _of_many(overview: Overview, shift: int) -> dict[str, Any] | None:
    """The lanes of whole devices in narrower buckets than the others, where there are many; None elsewhere.

    Many ranks have so many lanes that buckets of all their names get as wide as a step, which hides who waits.
    """
    lanes = [group["lane"] for group in overview.groups if group["lane"] is not None]
    if len(lanes) <= MANY:
        return None
    narrow = overview.length.bit_length() - max(_FEWEST, _MAP // len(lanes)).bit_length() + 1
    return overview.level((0, overview.length), narrow, lanes) if narrow < shift else None


def _page(title: str, policy: str, data: str, verdict: Sequence[str] = ()) -> str:
    from ktrace import __version__

    sentences = "".join(f"<p>{with_bold_figures(escape_controls(one))}</p>\n" for one in verdict)

    parts = {
        "policy": policy,
        "verdict": f'<div class="verdict">\n{sentences}</div>\n' if verdict else "",
        "title": escape(escape_controls(title)),
        "style": read_part("page.css") + read_part("overview.css"),
        "version": __version__,
        "data": data,
        "script": read_part("overview.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], read_part("overview.html"))
