"""Writes a canonical JSON document, one record to a line."""

from functools import partial

from ktrace.kit.canonical.record_forms import DOCUMENT, RecordWriter

Writer = partial(RecordWriter, form=DOCUMENT)
