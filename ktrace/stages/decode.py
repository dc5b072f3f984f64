"""Decodes the names of device work that C++ compilers encoded, whatever the format of the source.

    name                                 ──►   name                                   args.mangled_name
    _ZN5aiter4normIDF16bEEvPT_.kd              void aiter::norm<__bf16>(__bf16*) ...  _ZN5aiter4normIDF16bEEvPT_.kd
    ampere_sgemm_128x64_nn                     ampere_sgemm_128x64_nn

A reader takes the most readable spelling that its source has; this is the one place that decodes what is left. Rows and
other columns stay.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import encoded
from ktrace.model.masks import present, words_in
from ktrace.naming.demangling import demangled

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
    mine = changed[codes] & words_in(batch.column("kind"), DEVICE_KINDS) & named
    if not mine.any():
        return batch
    shown = np.where(mine, codes + len(words), codes).astype(np.int32)
    indices = pa.array(shown, mask=~named)
    columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
    columns["name"] = pa.DictionaryArray.from_arrays(indices, pa.array([*words, *readable], pa.string()))
    if MANGLED not in columns:
        kept = pa.array(codes.astype(np.int32), mask=~mine)
        columns[MANGLED] = pa.DictionaryArray.from_arrays(kept, pa.array(words, pa.string()))
    return Batch(batch.record, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
