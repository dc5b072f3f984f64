"""rocpd_api: calls of HIP and HSA, the user's ranges, the tracer's own work.

UserMarker        args "forward"                       range forward
hipMalloc         args "ptr=0x7f.. | size=0x2000000"   api
OpTable::writeRows                                     overhead
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, Block, timed
from ktrace.kit.sqlite.database import Database
from ktrace.kit.sqlite.lookup import FirstId
from ktrace.model.batch import Batch

from .launches import Details, Launches, nonempty, numbered, strings

_MARKER = "UserMarker"


class Calls:
    """The rows of rocpd_api."""

    def __init__(
        self, database: Database, table: str, ids: FirstId, launches: Launches, conversion: Conversion
    ) -> None:
        self._database = database
        self._table = table
        self._ids = ids
        self._launches = launches
        self._conversion = conversion
        self._texts = strings(database, conversion)
        self._details = Details(database)

    def read(self) -> Iterator[Batch]:
        """Yields all calls, in the order of the table."""
        batches = Batches(self._conversion)
        for block in self._database.blocks(self._table, self._conversion.batch_rows):
            sound = timed(block, self._conversion, "start", "end")
            if len(sound):
                yield self._batch(batches, sound)

    def _batch(self, batches: Batches, block: Block) -> Batch:
        start, end = block.take("start"), block.take("end")
        api = numbered(block)
        called = block.take("apiName_id")
        names = self._texts.column(block, called, required=True)
        arguments = self._texts.column(block, block.take("args_id"))
        texts = None if arguments is None else nonempty(arguments)
        assert names is not None
        kinds = pa.array([_kind(name) for name in names.dictionary.to_pylist()]).take(names.indices)
        if texts is not None:
            marker = pc.and_(pc.equal(kinds, "range"), texts.is_valid())
            if marker.true_count:
                names = pc.if_else(marker, texts, names.dictionary_decode())
                texts = pc.if_else(marker, None, texts)
        starts = self._launches.starts(api)
        details = self._details.get(pc.if_else(starts, None, api), called)
        name = details.pop("kernelName_id", None)
        if name is not None and name.null_count < len(name):
            details["args.kernelName"] = self._texts.column(block, name)
        return batches.events(
            block,
            self._ids.of(block.numbers),
            kind=kinds,
            name=names,
            ts=start,
            dur=pc.subtract(end, start),
            pid=block.take("pid"),
            tid=block.take("tid"),
            correlation=pc.if_else(starts, api, None),
            **{"args.args": texts} if texts is not None and texts.null_count < len(texts) else {},
            cat=self._texts.column(block, block.take("domain_id")),
            **details,
        )


def _kind(name: str) -> str:
    if name == _MARKER:
        return "range"
    return "overhead" if "Table::" in name or name == "hcc_activity_callback" else "api"
