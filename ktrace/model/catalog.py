"""The catalog: facts about sources, processes, devices, streams, clocks, names; later facts win."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from ktrace.model.batch import NAMED_ENTITIES, TRACK_COLUMNS, Batch, arrow_schema
from ktrace.model.json_text import dump_json, load_object
from ktrace.model.row_builder import to_rows

Key = tuple[Any, ...]


class Entry(msgspec.Struct):
    """All facts about one entity. `key` maps the track columns that identify it to their values."""

    entity: str
    key: dict[str, Any]
    id: int
    parent: int | None = None
    name: str | None = None
    order: int | None = None
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def unix_offset(self) -> int | None:
        """Unix time minus the time of a clock, in ns; None if the facts of the clock don't have an anchor."""
        at, unix = self.facts.get("at_ns"), self.facts.get("unix_ns")
        return unix - at if type(at) is int and type(unix) is int else None


class Catalog:
    """All facts of a trace, merged: a later fact replaces an earlier one of the same entity and field."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._of: dict[str, list[Entry]] = {}
        self._frames: dict[str, str] = {}  # the texts of frames, which stacks share

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, batch: Batch) -> None:
        """Merges a batch of the record `catalog`."""
        for row in to_rows(batch):
            self._merge(row)

    def _merge(self, row: dict[str, Any]) -> None:
        columns = arrow_schema("catalog").names
        key = {column: row[column] for column in TRACK_COLUMNS if row.get(column) is not None}
        whole_key = _key(row["entity"], key, row.get("name"))
        entry = self._entries.get(whole_key)
        if entry is None:
            entry = Entry(row["entity"], key, row["id"])
            self._insert(whole_key, entry)
        for column in ("parent", "name", "order"):
            if row.get(column) is not None:
                setattr(entry, column, row[column])
        if row.get("facts"):
            facts = load_object(row["facts"])
            if row["entity"] == "stack" and isinstance(frames := facts.get("frames"), list):
                facts["frames"] = [self._frames.setdefault(one, one) if type(one) is str else one for one in frames]
            entry.facts.update(facts)
        entry.extra.update({name: value for name, value in row.items() if name not in columns and value is not None})

    def _insert(self, key: Key, entry: Entry) -> None:
        self._entries[key] = entry
        self._of.setdefault(entry.entity, []).append(entry)

    def get(self, entity: str, name: str | None = None, **key: Any) -> Entry | None:
        """The entry of an entity: `catalog.get("stream", source="run", device=0, stream=7)`."""
        return self._entries.get(_key(entity, {c: v for c, v in key.items() if v is not None}, name))

    def where(self, test: Callable[[Entry], bool]) -> Catalog:
        """A catalog with the entries that pass the test."""
        some = Catalog()
        for key, entry in self._entries.items():
            if test(entry):
                some._insert(key, entry)
        return some

    def of(self, entity: str) -> list[Entry]:
        """All entries of one kind of entity."""
        return list(self._of.get(entity, ()))

    def rank(self, source: str) -> int | None:
        """The rank of a source in its distributed job, None if the source doesn't have a whole number as rank."""
        entry = self.get("source", source=source)
        rank = entry.facts.get("rank") if entry else None
        return rank if type(rank) is int else None

    def host(self, source: str) -> str | None:
        """The name of the host of a source, None if the source names no host or several."""
        names = {entry.name for entry in self.of("host") if entry.key.get("source") == source and entry.name}
        return names.pop() if len(names) == 1 else None

    def model(self, source: str, device: int | None, host: str | None = None) -> str | None:
        """The name of a device; of one without a name, that of all named devices of its source and host, if it is one.

        PyTorch lists ROCm's GPUs from 0 on, but numbers their work by agents, of which CPUs are the first.
        """
        entry = self.get("device", source=source, host=host, device=device)
        if entry is not None and entry.name:
            return entry.name
        listed = (one for one in self.of("device") if (one.key.get("source"), one.key.get("host")) == (source, host))
        names = {one.name for one in listed if one.name}
        return names.pop() if len(names) == 1 else None

    def unix_offsets(self) -> set[int]:
        """The different `Entry.unix_offset` of all clocks."""
        return {offset for entry in self.of("clock") if (offset := entry.unix_offset) is not None}

    def to_batch(self) -> Batch:
        """The merged facts as one batch, in the order in which the entities were first named."""
        schema = arrow_schema("catalog")
        extra = sorted({name for entry in self for name in entry.extra})
        rows = [
            entry.key
            | entry.extra
            | {
                "entity": entry.entity,
                "id": entry.id,
                "parent": entry.parent,
                "name": entry.name,
                "order": entry.order,
                "facts": dump_json(entry.facts) if entry.facts else None,
            }
            for entry in self
        ]
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
        added = [pa.array([row.get(name) for row in rows]) for name in extra]
        fields = [*schema, *(pa.field(name, array.type) for name, array in zip(extra, added, strict=True))]
        return Batch("catalog", pa.RecordBatch.from_arrays([*arrays, *added], schema=pa.schema(fields)))


def _key(entity: str, key: dict[str, Any], name: str | None) -> Key:
    named = (name,) if entity in NAMED_ENTITIES else ()
    return (entity, *(key.get(column) for column in TRACK_COLUMNS), *named)
