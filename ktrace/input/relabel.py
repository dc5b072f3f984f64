"""Keeps the source labels of several inputs apart: canonical inputs have labels of their own, which may be equal.

    a.parquet   rows of "rank0"        stay
    b.parquet   rows of "rank0"   ──►  "rank0#2", in events, summaries, links and the catalog alike

Everything is keyed by source (ids, links, correlation), so that equal numbers of two inputs never meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.model.masks import words_of
from ktrace.naming.alike import unique_name
from ktrace.report import Report


class Labels:
    """The labels of the rows so far, and the input of each."""

    def __init__(self) -> None:
        self.inputs: dict[str, str] = {}

    def free(self, label: str) -> str:
        """Returns the label, with '#2' and so on if another input's rows have it."""
        return unique_name(label, self.inputs.__contains__)

    def label_of(self, path: str) -> str | None:
        """Returns the label of the rows of an input; None if it isn't read, or has several."""
        labels = [label for label, input in self.inputs.items() if Path(input) == Path(path)]
        return labels[0] if len(labels) == 1 else None

    def apart(self, batches: Iterable[Batch], path: str, report: Report) -> Iterator[Batch]:
        """Yields the batches of one input, with new labels where an earlier input has the same; each is noted.

        `inputs` has the path of each label as soon as its first row has passed.
        """
        new_labels: dict[str, str] = {}
        for batch in batches:
            for label in words_of(batch.column("source")):
                if label not in new_labels:
                    new_labels[label] = self.free(label)
                    self.inputs[new_labels[label]] = path
                    if new_labels[label] != label:
                        report.issue("relabelled", path, f"{label} is now {new_labels[label]}", 0)
            yield relabelled(batch, new_labels)


def relabelled(batch: Batch, labels: dict[str, str]) -> Batch:
    """Returns the batch with other source labels, or the batch itself if they are the same."""
    if all(old == new for old, new in labels.items()):
        return batch
    codes = batch.column("source")
    if not pa.types.is_dictionary(codes.type):
        codes = codes.dictionary_encode()
    words = [labels.get(word, word) for word in codes.dictionary.to_pylist()]
    column = pc.cast(pa.DictionaryArray.from_arrays(codes.indices, pa.array(words, pa.string())), codes.type)
    place = batch.columns.schema.get_field_index("source")
    return Batch(batch.record, batch.columns.set_column(place, "source", column))
