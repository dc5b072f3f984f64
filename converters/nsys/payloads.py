"""Reads payloads that are JSON in a text; each distinct text is parsed once.

jsonText  {"NCCL communicator ID": 7, "Message size [bytes]": 4096}   in NCCL's domain: `comm` 7, `bytes` 4096
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.model.json_text import dump_json, load_json

#: Keys in the payload of NCCL's ranges that are columns of the model.
_COMM, _BYTES = "NCCL communicator ID", "Message size [bytes]"


def json_column(text: pa.StringArray) -> pa.DictionaryArray:
    """Returns the texts as JSON if they are JSON, else as JSON strings."""
    return mapped_words(text, lambda word: _payload(word, nccl=False)[0], pa.binary())


def parsed(text: pa.StringArray, tracks: pa.DictionaryArray | None) -> dict[str, pa.Array]:
    """Returns the argument jsonText; for NCCL's track also the columns `comm` and `bytes`."""
    nccl = np.zeros(len(text), np.bool_)
    if tracks is not None:
        nccl = pc.fill_null(pc.equal(tracks.cast(pa.string()), "NCCL"), False).to_numpy(zero_copy_only=False)
    if not nccl.any():
        return {"args.jsonText": json_column(text)}
    encoded = text.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) * 2 + nccl
    found, keys = np.unique(codes, return_inverse=True)
    words = encoded.dictionary
    payloads = [
        (None, None, None) if code < 0 else _payload(words[code // 2].as_py(), nccl=bool(code % 2))
        for code in found.tolist()
    ]
    place = pa.array(keys.astype(np.int32))
    texts, comms, sizes = (list(part) for part in zip(*payloads, strict=True))
    return {
        "args.jsonText": pa.array(texts, pa.binary()).take(place).dictionary_encode(),
        "comm": pa.array(comms, pa.string()).take(place),
        "bytes": pa.array(sizes, pa.int64()).take(place),
    }


def _payload(text: str, *, nccl: bool) -> tuple[bytes | None, str | None, int | None]:
    """Returns the payload as JSON without the keys that become columns, the communicator, and the bytes."""
    try:
        value = load_json(text)
    except (ValueError, RecursionError):
        return dump_json(text).encode(), None, None
    if not nccl or not isinstance(value, dict):
        return dump_json(value).encode(), None, None
    comm, size = value.pop(_COMM, None), value.get(_BYTES)
    if type(size) is int and 0 <= size < 1 << 63:
        del value[_BYTES]
    else:
        size = None
    return (dump_json(value).encode() if value else None), None if comm is None else str(comm), size
