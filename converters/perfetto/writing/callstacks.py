"""Stacks of events as interned callstacks, of which the UI makes a flame graph where a part of a track is selected.

    catalog   stack "3"   frames ["main (run.py:9)", "step (run.py:4)"]
    row       sample  args.stack "3"  value 250000 ns

    interned_data { function_names { iid 1 str "main" } function_names { iid 2 str "step" } source_paths { ... }
                    frames { iid 1 function_name_id 1 source_path_iid 1 line_number 9 } frames { ... }
                    callstacks { iid 1 frame_ids 1 frame_ids 2 } }
    track_event { ... callstack_iid 1 callstack_weight 250000 }

Engines know them from v53 on, weights and the flame graph of a selection from v58 on.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import AnyArray
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, load_object
from ktrace.model.masks import present, words_in

from .. import field_numbers as f
from ..wire import bytes_field, double_tag, int_field, text_field
from .extra_fields import coded
from .fields import Field, FixedField

#: The text of a frame with its place: step (run.py:4).
_PLACED = re.compile(r"([^\n]+) \(([^()\n]+?)(?::([0-9]{1,9}))?\)")

#: The arguments that name a stack; the second is that of Trace Event JSON.
_NAMES = ("stack", "$sf")

_WEIGHT = double_tag(f.TRACK_EVENT["callstack_weight"])


class Callstacks:
    """Interns the stacks that events name, on one sequence. New entries gather in `fresh`."""

    def __init__(self, catalog: Catalog) -> None:
        self.fresh: list[bytes] = []
        self._catalog = catalog
        self._any = bool(catalog.of("stack"))
        self._numbers: dict[tuple[str, Any], int] = {}  # the field of InternedData and what it has -> iid

    def fields(self, batch: Batch, source: AnyArray) -> list[Field]:
        """The fields of events with a stack that the catalog knows of their source, and the weight of samples."""
        keys = _keys(batch) if self._any else None
        if keys is None:
            return []
        named = pc.binary_join_element_wise(pa.array(source, pa.string()), keys, "\0")
        stacks = coded(named, lambda text, _: self._reference(text.decode()))
        if not any(stacks.table.pieces):
            return []
        fields: list[Field] = [stacks]
        if batch.has("value"):
            weighed = words_in(batch.column("kind"), ("sample",)) & present(batch.column("value")) & (stacks.codes >= 0)
            weights = np.ascontiguousarray(pc.fill_null(batch.column("value"), 0.0).to_numpy(zero_copy_only=False))
            fields += [FixedField(_WEIGHT, weights.view(np.uint64), weighed)] if weighed.any() else []
        return fields

    def _reference(self, named: str) -> bytes:
        """The field of an event with a stack, by its source and key; empty if the catalog doesn't have its frames."""
        source, _, key = named.partition("\0")
        entry = self._catalog.get("stack", key, source=source)
        frames = entry.facts.get("frames") if entry else None
        if not isinstance(frames, list) or not frames:
            return b""
        numbers = tuple(self._frame(str(frame)) for frame in frames)
        body = b"".join(int_field(f.CALLSTACK["frame_ids"], number) for number in numbers)
        return int_field(f.TRACK_EVENT["callstack_iid"], self._interned("callstacks", numbers, body))

    def _frame(self, text: str) -> int:
        """The number of a frame."""
        placed = _PLACED.fullmatch(text)
        name, path, line = placed.groups() if placed else (text, "", None)
        if not line and not set(path) & set("/\\."):  # else a signature
            name, path = text, ""
        body = int_field(f.FRAME["function_name_id"], self._text("function_names", name))
        if path:
            body += int_field(f.FRAME["source_path_iid"], self._text("source_paths", path))
        if line:
            body += int_field(f.FRAME["line_number"], int(line))
        return self._interned("frames", text, body)

    def _text(self, table: str, text: str) -> int:
        return self._interned(table, text, text_field(f.INTERNED_STRING["str"], text))

    def _interned(self, table: str, what: Any, body: bytes) -> int:
        """The number of an entry, which is written when it is new; all kinds have their number in the same field."""
        number = self._numbers.get((table, what))
        if number is None:
            number = self._numbers[table, what] = len(self._numbers) + 1
            self.fresh.append(bytes_field(f.INTERNED_DATA[table], int_field(f.INTERNED_STRING["iid"], number) + body))
        return number


def _keys(batch: Batch) -> pa.Array | None:
    """The key of the stack that each row names in its arguments; None if none does."""
    for name in _NAMES:
        if batch.has(f"args.{name}"):
            column = decoded(batch.column(f"args.{name}"))
            return (
                column.cast(pa.string())
                if pa.types.is_string(column.type) or pa.types.is_integer(column.type)
                else None
            )
    if not batch.has("args"):
        return None
    texts = decoded(batch.column("args")).dictionary_encode()
    keys = [_key(text) for text in texts.dictionary.to_pylist()]
    return pa.array(keys, pa.string()).take(texts.indices) if any(keys) else None


def _key(args: str) -> str | None:
    if not any(f'"{name}"' in args for name in _NAMES):
        return None
    found = load_object(args)
    key = next((found[name] for name in _NAMES if name in found), None)
    return str(key) if isinstance(key, (str, int)) else None
