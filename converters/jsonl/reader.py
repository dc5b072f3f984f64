"""Reads canonical JSON Lines: `read` for conversion, `texts` for `ktrace validate`.

Writes canonical JSON Lines.
"""

from __future__ import annotations

from functools import partial

from ktrace.kit.canonical.record_forms import JSON_LINES, RecordWriter, read_records, record_texts

read = partial(read_records, form=JSON_LINES)
texts = partial(record_texts, form=JSON_LINES)


Writer = partial(RecordWriter, form=JSON_LINES)
