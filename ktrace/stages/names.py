"""Names of device work: decoded where C++ compilers encoded them, and labelled with operation, library and so on.

    name                                 ──►   name                                   args.mangled_name
    _ZN5aiter4normIDF16bEEvPT_.kd              void aiter::norm<__bf16>(__bf16*) ...  _ZN5aiter4normIDF16bEEvPT_.kd
    ampere_sgemm_128x64_nn                     ampere_sgemm_128x64_nn

A reader takes the most readable spelling that its source has; this is the one place that decodes what is left.

    name                      kind              operation   library   precision   short_name
    nvjet_tst_192x192_...     kernel     ──►    gemm        cuBLAS    bf16        nvjet_tst_192x192_...
    [CUDA memcpy HtoD]        memcpy            copy

Of labels only null columns of device work are filled; rows are neither added nor removed. The rules are applied once to
each distinct name; rows get the result by the codes of dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import decoded, encoded, load_object
from ktrace.model.masks import present, words_in
from ktrace.naming.demangling import demangled
from ktrace.naming.taxonomy import COLUMNS, Labels, Taxonomy
from ktrace.report import Report
from ktrace.store.joins import coded, combined, distinct
from ktrace.store.vocabulary import Interner

#: The argument that has the name as the source wrote it.
MANGLED = "args.mangled_name"


def with_decoded_names(batch: Batch) -> Batch:
    """The batch with the names of its device work decoded; the batch itself if none was encoded."""
    if batch.record not in ("events", "summaries") or not len(batch):
        return batch
    names = batch.column("name")
    words = names.dictionary if pa.types.is_dictionary(names.type) else names
    if not pc.any(pc.starts_with(words, "_Z")).as_py():
        return batch
    names = encoded(names)
    words = names.dictionary.to_pylist()
    readable = [word if word is None else demangled(word) for word in words]
    changed = np.array([one != other for one, other in zip(words, readable, strict=True)], np.bool_)
    codes = pc.fill_null(names.indices, 0).to_numpy(zero_copy_only=False)
    named = present(names)
    changes = changed[codes] & words_in(batch.column("kind"), DEVICE_KINDS) & named
    if not changes.any():
        return batch
    shown = np.where(changes, codes + len(words), codes).astype(np.int32)
    indices = pa.array(shown, mask=~named)
    columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
    columns["name"] = pa.DictionaryArray.from_arrays(indices, pa.array([*words, *readable], pa.string()))
    if MANGLED not in columns:
        kept = pa.array(codes.astype(np.int32), mask=~changes)
        columns[MANGLED] = pa.DictionaryArray.from_arrays(kept, pa.array(words, pa.string()))
    return Batch(batch.record, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


#: Distinct names that are remembered.
_REMEMBERED = 1 << 20


def with_operations(batches: Iterable[Batch], taxonomy: Taxonomy, report: Report | None = None) -> Iterator[Batch]:
    """Yields all batches, with null columns of device work filled from its names.

    The format of a source is known from the catalog; rows that come before that are classified without it.
    """
    classifier = _Classifier(taxonomy)
    rows = 0
    for batch in batches:
        if batch.record == "catalog":
            classifier.learn(batch)
            yield batch
            continue
        rows += len(batch)
        yield classifier.filled(batch) if batch.record in ("events", "summaries") and len(batch) else batch
    if report is not None:
        ledger = report.stage("classify")
        ledger.taken = ledger.given = rows


class _Classifier:
    """The labels of the names seen so far, and the formats of the sources."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy = taxonomy
        self._formats: dict[str, str] = {}
        self._known: dict[tuple[str, str, str | None], Labels] = {}

    def learn(self, batch: Batch) -> None:
        """Reads the formats of sources from the catalog."""
        of_sources = np.flatnonzero(words_in(batch.column("entity"), ("source",)))
        if not len(of_sources) or not batch.has("facts"):
            return
        sources, texts = (
            decoded(batch.column(name)).take(pa.array(of_sources)).to_pylist() for name in ("source", "facts")
        )
        for source, text in zip(sources, texts, strict=True):
            form = None if text is None else load_object(text).get("format")
            if isinstance(form, str):
                self._formats[source] = form

    def filled(self, batch: Batch) -> Batch:
        """The batch with its columns filled."""
        kinds = encoded(batch.column("kind"))
        words = kinds.dictionary.to_pylist()
        device = np.array([word in DEVICE_KINDS for word in words], np.bool_)[_codes(kinds)]
        rows = np.flatnonzero(device)
        if not len(rows):
            return batch
        labels, which = self._labels(batch, rows)
        columns = {}
        for place, column in enumerate(COLUMNS):
            texts = [label[place] for label in labels]
            if column == "layer" and None in texts and batch.has("scope"):
                columns[column] = _first(_spread(texts, which, rows, len(batch)), self._scopes(batch, device))
            elif any(text is not None for text in texts):
                columns[column] = _spread(texts, which, rows, len(batch))
        cells = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
        for name, column in columns.items():
            if column.null_count < len(column):
                cells[name] = _first(cells[name], column) if name in cells else column
        return Batch(batch.record, pa.RecordBatch.from_arrays(list(cells.values()), names=list(cells)))

    def _labels(self, batch: Batch, rows: Int64) -> tuple[list[Labels], Int64]:
        """The distinct labels of these rows, and for each row the index of its label."""
        columns = [coded(batch.column(name), rows) for name in ("kind", "source", "name")]
        first, which = distinct(*combined(((codes, len(words)) for codes, words in columns), len(rows)))
        kinds, sources, names = (words.take(pa.array(codes[first])).to_pylist() for codes, words in columns)
        labels = [
            self._label(name, kind, self._formats.get(source))
            for name, kind, source in zip(names, kinds, sources, strict=True)
        ]
        return labels, which

    def _label(self, name: str, kind: str, form: str | None) -> Labels:
        key = name, kind, form
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._taxonomy.labels(name, kind, form)
        return self._known[key]

    def _scopes(self, batch: Batch, device: Bools) -> pa.Array:
        """The layer of each row of device work by its scopes; the innermost one counts."""
        scope = batch.column("scope")
        words = encoded(pc.list_flatten(scope))
        layers = [self._taxonomy.layer(word) for word in words.dictionary.to_pylist()]
        of = np.full(len(batch), -1, np.int64)
        codes, parents = _codes(words), pc.list_parent_indices(scope).to_numpy()
        labelled = np.array([layer is not None for layer in layers], np.bool_)[codes] & device[parents]
        of[parents[labelled]] = codes[labelled]  # the last of several stays
        rows = np.flatnonzero(of >= 0)
        return _spread(layers, of[rows], rows, len(batch))


def _codes(column: pa.DictionaryArray) -> Int64:
    result: Int64 = column.indices.to_numpy(zero_copy_only=False)
    return result


def _spread(texts: list[str | None], which: Int64, rows: Int64, length: int) -> pa.DictionaryArray:
    """A column of this length: `rows` have the texts with the indices `which`, all others are null."""
    words = Interner()
    codes_of = np.array([-1 if text is None else words[text] for text in texts], np.int32)
    codes = codes_of[which] if len(texts) else np.zeros(0, np.int32)
    if len(rows) < length:
        spread = np.full(length, -1, np.int32)
        spread[rows] = codes
        codes = spread
    empty = codes < 0
    indices = pa.array(codes, mask=empty) if empty.any() else pa.array(codes)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(words), pa.string()))


def _first(one: pa.Array, other: pa.Array) -> pa.Array:
    """The values of the first column, and those of the second where it is null."""
    if other.null_count == len(other) or one.null_count == 0:
        return one
    if one.null_count == len(one):
        return other
    return pc.coalesce(decoded(one), decoded(other).cast(pa.string())).dictionary_encode()
