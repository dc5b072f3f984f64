"""Reads a canonical JSON document: `read` for conversion, `texts` for `ktrace validate`.

Writes a canonical JSON document, one record to a line.
"""

from __future__ import annotations

from functools import partial

from ktrace.kit.canonical.record_forms import DOCUMENT, RecordWriter, read_records, record_texts

read = partial(read_records, form=DOCUMENT)
texts = partial(record_texts, form=DOCUMENT)


Writer = partial(RecordWriter, form=DOCUMENT)
