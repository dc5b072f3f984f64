"""The sources of one input in a dataset: what they are called there, and which run, host and rank they are of.

    rank3.json.gz   source "rank3"   the catalog: host "node7"   the path: rank 3   ──► Place("run", "node7", 3)

The catalog may say so in its last rows. A rank that only the path says becomes a fact of the source.
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

#: Entities that say where a source belongs.
_TELLING = ("source", "host")


class Sources:
    """Watches the batches of an input that is called `label` in its dataset and `stem` elsewhere.

    A source of that stem takes the label; others, as canonical files have them, are put below it: `label/source`.
    `place` is what the path of the input says. `said` is who told run, host and rank: "catalog", "path", "folder"
    (that of the pattern), "" where nobody did.
    """

    def __init__(self, label: str, stem: str, place: Place) -> None:
        self._label = label
        self._stem = stem
        self._place = place
        self._names: dict[str, None] = {}
        self._catalog = Catalog()
        self.said: dict[str, str] = {}

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches under their labels, and at the end the ranks that only the path says."""
        for batch in batches:
            named = self._relabelled(batch)
            if batch.record == "catalog":
                telling = words_in(named.column("entity"), _TELLING)
                self._catalog.add(Batch("catalog", named.columns.filter(pa.array(telling))))
            yield named
        if self._place.rank is not None:
            facts = dump_json({"rank": self._place.rank, "rank_from": "path"})
            silent = [name for name in self._names if self._catalog.rank(name) is None]
            if silent:
                rows = [{"entity": "source", "source": name, "id": 0, "facts": facts} for name in silent]
                yield to_batch("catalog", rows)

    def places(self, run: str) -> dict[str, Place]:
        """Where each source belongs; `run` is the run where neither path nor source says one."""
        return {name: self._place_of(name, run) for name in self._names or (self._label,)}

    def _relabelled(self, batch: Batch) -> Batch:
        words = decoded(batch.column("source").unique()).to_pylist()
        labels = {word: self._label if word == self._stem else f"{self._label}/{word}" for word in words}
        self._names.update(dict.fromkeys(labels.values()))
        named = relabelled(batch, labels)
        if named is batch or batch.record != "catalog" or not batch.has("name"):
            return named
        source, name = decoded(batch.column("source")), decoded(batch.column("name"))
        its_own = pc.and_(pc.equal(decoded(batch.column("entity")), "source"), pc.equal(name, source))
        shown = pc.if_else(pc.fill_null(its_own, False), decoded(named.column("source")), name)
        place = named.columns.schema.get_field_index("name")
        return Batch("catalog", named.columns.set_column(place, "name", shown))

    def _place_of(self, source: str, run: str) -> Place:
        """The place of a source: its run by the path first, host and rank by the catalog first."""
        entry = self._entry(source)
        hosts = {host.name or host.key.get("host") for host in self._catalog.of("host") if host.key["source"] == source}
        claims: dict[str, dict[str, Any]] = {
            "run": {"path": self._place.run, "catalog": entry.facts.get("run") if entry else None, "folder": run},
            "host": {"catalog": hosts.pop() if len(hosts) == 1 else None, "path": self._place.host},
            "rank": {"catalog": self._catalog.rank(source), "path": self._place.rank},
        }
        found: dict[str, Any] = {}
        for what, told in claims.items():
            self.said[what], found[what] = next((claim for claim in told.items() if claim[1] is not None), ("", None))
        return Place(**found)

    def _entry(self, source: str) -> Entry | None:
        return self._catalog.get("source", source=source)


def of_sources(batches: Iterable[Batch], wanted: frozenset[str], ledger: Ledger) -> Iterator[Batch]:
    """The rows of some sources."""
    for batch in batches:
        mine = words_in(batch.column("source"), tuple(sorted(wanted)))
        part = Batch(batch.record, batch.columns.filter(pa.array(mine)))
        if batch.record != "catalog":
            ledger.taken += len(batch)
            ledger.given += len(part)
            ledger.removed["other places"] += len(batch) - len(part)
        if len(part):
            yield part
