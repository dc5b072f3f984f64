"""Reads a canonical JSON document: `read` for conversion, `texts` for `ktrace validate`."""

from functools import partial

from ktrace.kit.canonical.record_forms import DOCUMENT, read_records, record_texts

read = partial(read_records, form=DOCUMENT)
texts = partial(record_texts, form=DOCUMENT)
