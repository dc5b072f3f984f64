"""Writes canonical JSON Lines."""

from functools import partial

from ktrace.kit.canonical.record_forms import JSON_LINES, RecordWriter

Writer = partial(RecordWriter, form=JSON_LINES)
