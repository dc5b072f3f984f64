"""The sources of one input in a dataset: their labels, and the run, host and rank that they belong to.

    rank3.json.gz   source "rank3"   the catalog: host "node7"   the path: rank 3   ──► Place("run", "node7", 3)

The catalog may name these in its last rows. A rank that only the path names becomes a fact of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.places import Place
from ktrace.input.relabel import relabelled
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import words_in
from ktrace.model.row_builder import to_batch
from ktrace.report import Ledger

#: Entities of the catalog that name the run, host or rank of a source.
_PLACE_ENTITIES = ("source", "host")


class Sources:
    """Labels the batches of an input, and collects the places of its sources.

    The input is called `label` in its dataset and `stem` elsewhere. A source named like the stem gets the label; other
    sources, such as those of canonical files, are put below it: `label/source`. `place` is the place that the path of
    the input names. `origins` records where run, host and rank come from: "catalog", "path", "folder" (that of the
    pattern), or "" if they are unknown.
    """

    def __init__(self, label: str, stem: str, place: Place) -> None:
        self._label = label
        self._stem = stem
        self._place = place
        self._names: dict[str, None] = {}
        self._catalog = Catalog()
        self.origins: dict[str, str] = {}

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yields the batches with their labels, and at the end the ranks that only the path names."""
        for batch in batches:
            named = self._relabelled(batch)
            if batch.record == "catalog":
                has_place = words_in(named.column("entity"), _PLACE_ENTITIES)
                self._catalog.add(Batch("catalog", named.columns.filter(pa.array(has_place))))
            yield named
        if self._place.rank is not None:
            facts = dump_json({"rank": self._place.rank, "rank_from": "path"})
            unranked = [name for name in self._names if self._catalog.rank(name) is None]
            if unranked:
                rows = [{"entity": "source", "source": name, "id": 0, "facts": facts} for name in unranked]
                yield to_batch("catalog", rows)

    def places(self, run: str) -> dict[str, Place]:
        """Returns the place of each source. `run` is the default where neither the path nor the catalog names a run."""
        return {name: self._place_of(name, run) for name in self._names or (self._label,)}

    def _relabelled(self, batch: Batch) -> Batch:
        words = decoded(batch.column("source").unique()).to_pylist()
        labels = {word: self._label if word == self._stem else f"{self._label}/{word}" for word in words}
        self._names.update(dict.fromkeys(labels.values()))
        named = relabelled(batch, labels)
        if named is batch or batch.record != "catalog" or not batch.has("name"):
            return named
        source, name = decoded(batch.column("source")), decoded(batch.column("name"))
        is_default = pc.and_(pc.equal(decoded(batch.column("entity")), "source"), pc.equal(name, source))
        shown = pc.if_else(pc.fill_null(is_default, False), decoded(named.column("source")), name)
        index = named.columns.schema.get_field_index("name")
        return Batch("catalog", named.columns.set_column(index, "name", shown))

    def _place_of(self, source: str, run: str) -> Place:
        """Returns the place of a source. The path decides the run first, the catalog host and rank first."""
        entry = self._entry(source)
        hosts = {host.name or host.key.get("host") for host in self._catalog.of("host") if host.key["source"] == source}
        claims: dict[str, dict[str, Any]] = {
            "run": {"path": self._place.run, "catalog": entry.facts.get("run") if entry else None, "folder": run},
            "host": {"catalog": hosts.pop() if len(hosts) == 1 else None, "path": self._place.host},
            "rank": {"catalog": self._catalog.rank(source), "path": self._place.rank},
        }
        found: dict[str, Any] = {}
        for part, by_origin in claims.items():
            known = (claim for claim in by_origin.items() if claim[1] is not None)
            self.origins[part], found[part] = next(known, ("", None))
        return Place(**found)

    def _entry(self, source: str) -> Entry | None:
        return self._catalog.get("source", source=source)


def of_sources(batches: Iterable[Batch], wanted: frozenset[str], ledger: Ledger) -> Iterator[Batch]:
    """Yields the rows of the wanted sources."""
    for batch in batches:
        mine = words_in(batch.column("source"), tuple(sorted(wanted)))
        part = Batch(batch.record, batch.columns.filter(pa.array(mine)))
        if batch.record != "catalog":
            ledger.taken += len(batch)
            ledger.given += len(part)
            ledger.removed["other places"] += len(batch) - len(part)
        if len(part):
            yield part
