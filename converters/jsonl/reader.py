"""Reads canonical JSON Lines: `read` for conversion, `texts` for `ktrace validate`."""

from functools import partial

from ktrace.kit.canonical.record_forms import JSON_LINES, read_records, record_texts

read = partial(read_records, form=JSON_LINES)
texts = partial(record_texts, form=JSON_LINES)
