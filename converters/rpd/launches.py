"""The calls that started work (rocpd_api_ops), and their arguments (rocpd_kernelapi, rocpd_copyapi).

rocpd_api_ops      api_id 29, op_id 3           both get correlation 29
rocpd_kernelapi    api_ptr_id 29, grid 1792 x 782 x 1, workgroup 256 x 1 x 1: blocks, or work-items for some calls
completionSignal   hwq=0x7f.. wg=256,1,1 grid=4096,1,1 in rocpd_op: of rocm-trace-lite, in work-items as in the packet
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.rocm.common import GRIDS_OF_WORK_ITEMS, blocks_of, copy_kinds
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import FirstId, Lookup, Texts
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import positions

#: Arguments of a kernel's launch and of a copy that have no column.
_OF_KERNEL = ("privateSegmentSize", "kernelArgAddress", "aquireFence", "releaseFence")
_OF_COPY = ("width", "height", "dst", "src", "dstDevice", "srcDevice", "sync", "pinned")
_DIMENSIONS = {
    f"{of}{axis.upper()}": f"{to}_{axis}" for of, to in (("grid", "grid"), ("workgroup", "block")) for axis in "xyz"
}

#: The launch of an op in the words of rocm-trace-lite (src/hsa_intercept.cpp).
_PACKET = (
    r"^hwq=(?P<hwq>0x[0-9a-f]{1,16}) wg=(?P<block_x>\d{1,10}),(?P<block_y>\d{1,10}),(?P<block_z>\d{1,10})"
    r" grid=(?P<grid_x>\d{1,10}),(?P<grid_y>\d{1,10}),(?P<grid_z>\d{1,10})$"
)

#: The op of a row without an id: less than any.
_NO_OP = -(1 << 63)

#: Spelling in schema version 1 -> in version 2.
_SPELLED = {"gridz": "gridZ"}


class Launches:
    """The table rocpd_api_ops, read once; the first call for an op is its launch, further ones become links."""

    def __init__(self, database: Database, table: str | None, conversion: Conversion) -> None:
        self._database = database
        self._conversion = conversion
        self._rowid, self._api, self._op = self._read(table)
        order = np.lexsort((np.arange(len(self._op)), self._op))
        first = np.ones(len(order), np.bool_)
        first[1:] = self._op[order[1:]] != self._op[order[:-1]]
        self._further = np.sort(order[~first])
        self._first = order[first]
        self._launched = self._op[self._first]
        self._launching = pa.array(self._api).unique()

    def _read(self, table: str | None) -> tuple[Int64, Int64, Int64]:
        parts: list[tuple[Int64, Int64, Int64]] = [(np.empty(0, np.int64),) * 3]
        report = self._conversion.report
        if table:
            for block in self._database.blocks(table, self._conversion.batch_rows, ["api_id", "op_id"]):
                api, op = block.get("api_id"), block.get("op_id")
                if api is None or op is None:
                    report.issue("bad-record", table, "no column api_id, op_id", len(block))
                    continue
                both = pc.and_(api.is_valid(), op.is_valid())
                if both.false_count:
                    where = block.where(pc.index(both, False).as_py())
                    report.issue("bad-record", where, "api_id or op_id is null", both.false_count)
                columns = (block.numbers, api, op)
                parts.append(tuple(column.filter(both).to_numpy() for column in columns))
        rowid, api_ids, op_ids = (np.concatenate(column) for column in zip(*parts, strict=True))
        return rowid, api_ids, op_ids

    def of(self, op: pa.Int64Array) -> pa.Int64Array:
        """The call that started each op, null for none."""
        at = positions(op.fill_null(_NO_OP).to_numpy(), self._launched)
        return pa.array(self._api[self._first[at]] if len(self._first) else at, mask=at < 0)

    def starts(self, api: pa.Int64Array) -> pa.BooleanArray:
        """Whether each call started an op."""
        return pc.is_in(api, value_set=self._launching)

    def rest(self, ids: dict[str, FirstId]) -> Iterator[Batch]:
        """Yields links for the calls of an op after the first; accounts for all rows of the table."""
        self._conversion.report.used(len(self._op) - len(self._further), outcome="correlation")
        size = self._conversion.batch_rows
        for start in range(0, len(self._further), size):
            rows = self._further[start : start + size]
            self._conversion.report.used(len(rows))
            link = ids["rocpd_api_ops"].of(pa.array(self._rowid[rows]))
            ends = (ids["rocpd_api"].of(pa.array(self._api[rows])), ids["rocpd_op"].of(pa.array(self._op[rows])))
            yield links(self._conversion, link, ends, "launch")


def links(conversion: Conversion, ids: Int64, ends: tuple[Int64, Int64], word: str) -> Batch:
    """Returns arrows between pairs of rows: two links each, with the ids `ids` and `ids` + 1."""
    both = np.stack((ids, ids + 1), 1).ravel()
    events = np.stack(ends, 1).ravel()
    roles = np.tile(["out", "in"], len(ids))
    keys = pa.array(np.repeat(ids, 2)).cast(pa.string())
    return BatchBuilder(conversion).batch("links", both, link=word, key=keys, role=pa.array(roles), event=events)


class Details:
    """The arguments of calls, as columns and arguments of rows.

    In schema version 1 the same details belong to ops, in rocpd_kernelop and rocpd_copyop.
    """

    def __init__(self, database: Database, *, of: str = "api") -> None:
        self._kernel = lookup(
            database,
            f"rocpd_kernel{of}",
            f"{of}_ptr_id",
            (*_DIMENSIONS, *_OF_KERNEL, "groupSegmentSize", "stream", "codeObject_id", "kernelName_id"),
        )
        self._copy = lookup(database, f"rocpd_copy{of}", f"{of}_ptr_id", (*_OF_COPY, "stream", "size", "kind"))
        self._code = lookup(database, "rocpd_kernelcodeobject", "id", ("vgpr", "sgpr", "fbar"))
        self._of_work_items = _named(database, GRIDS_OF_WORK_ITEMS)

    def get(self, api: pa.Int64Array, names: pa.Array | None = None) -> dict[str, pa.Array]:
        """Returns columns of the model, `args.<key>`, and `kernelName_id` for calls, null for calls without details.

        `api` are the ids of the calls, `names` their apiName_id.
        """
        kernel = self._kernel.get(api) if self._kernel else {}
        copy = self._copy.get(api) if self._copy else {}
        kernel = {_SPELLED.get(name, name): column for name, column in kernel.items()}
        columns = {to: numbers(kernel.get(of)) for of, to in _DIMENSIONS.items()}
        columns["shared_memory"] = numbers(kernel.get("groupSegmentSize"))
        columns["bytes"] = numbers(copy.get("size"))
        columns["copy_kind"] = copy_kinds(numbers(copy.get("kind")))
        columns["kernelName_id"] = numbers(kernel.get("kernelName_id"))
        code = self._code.get(numbers(kernel.get("codeObject_id"))) if self._code and kernel else {}
        columns["registers"] = numbers(code.get("vgpr"))
        args = {key: kernel.get(key) for key in _OF_KERNEL} | {key: copy.get(key) for key in _OF_COPY}
        args["stream"] = _either(kernel.get("stream"), copy.get("stream"))
        args["sgpr"], args["fbar"] = code.get("sgpr"), code.get("fbar")
        if copy.get("kind") is not None and columns["copy_kind"] is not None:
            args["kind"] = pc.if_else(columns["copy_kind"].is_valid(), None, numbers(copy["kind"]))
        columns_given = {name: column for name, column in (columns | arguments(args)).items() if column is not None}
        return self._in_blocks(columns_given, names)

    def _in_blocks(self, columns: dict[str, pa.Array], names: pa.Array | None) -> dict[str, pa.Array]:
        """Converts the grids of calls with work-items to blocks.

        Facts: rpd_tracer's RoctracerDataSource.cpp (`globalWorkSizeX` as well as `gridDim.x`).
        """
        items = None if names is None else pc.is_in(names, value_set=self._of_work_items)
        if items is None or not items.true_count:
            return columns
        for axis in "xyz":
            grid = columns.get(f"grid_{axis}")
            made = blocks_of(grid, columns.get(f"block_{axis}"))
            if grid is None or made is None:
                continue
            columns[f"grid_{axis}"] = pc.if_else(items, made.blocks, grid)
            columns[f"args.grid{axis.upper()}"] = pc.if_else(items, made.left, None)
        return columns


def packets(signal: pa.Array | None) -> dict[str, pa.Array]:
    """Returns the launches in the signals of ops, as columns and `args.<key>`. Other signals are arguments."""
    if signal is None or not pa.types.is_string(signal.type):
        return arguments({"completionSignal": signal})
    groups = pc.extract_regex(signal, _PACKET)
    if groups.null_count == len(groups):
        return arguments({"completionSignal": signal})
    parts = {name: pc.struct_field(groups, name) for name in ("hwq", *_DIMENSIONS.values())}
    args = {"hwq": parts.pop("hwq"), "completionSignal": pc.if_else(groups.is_valid(), None, signal)}
    sizes = {name: numbers(column) for name, column in parts.items()}
    for axis in "xyz":
        made = blocks_of(sizes[f"grid_{axis}"], sizes[f"block_{axis}"])
        if made is not None:
            sizes[f"grid_{axis}"], args[f"grid{axis.upper()}"] = made
    return {name: column for name, column in sizes.items() if column is not None} | arguments(args)


def arguments(columns: dict[str, pa.Array | None]) -> dict[str, pa.Array]:
    """Returns the columns as columns of arguments, null for empty texts."""
    return {
        f"args.{key}": pc.if_else(pc.equal(column, ""), None, column) if pa.types.is_string(column.type) else column
        for key, column in columns.items()
        if column is not None
    }


def _either(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    if first is None or second is None:
        return second if first is None else first
    return pc.coalesce(first, second)


def _named(database: Database, names: Collection[str]) -> pa.Int64Array:
    """The ids of texts in rocpd_string."""
    table = next(iter(database.like("rocpd_string")), None)
    if table is None or not (database.has(table, "id") and database.has(table, "string")):
        return pa.array([], pa.int64())
    sql = f"SELECT id FROM {quoted_name(table)} WHERE string IN ({', '.join('?' * len(names))})"
    ids = [number for (number,) in database.query(table, sql, sorted(names)) if isinstance(number, int)]
    return pa.array(ids, pa.int64())


def lookup(database: Database, table: str, key: str, columns: tuple[str, ...]) -> Lookup | None:
    """Finds rows of a table by a key, None if there is no such table."""
    tables = database.like(table)
    return Lookup(database, tables[0], key, columns) if tables and database.has(tables[0], key) else None


def numbered(block: Block) -> pa.Array:
    """The ids of the rows, null if the table has none."""
    column = block.take("id")
    return pa.nulls(len(block), pa.int64()) if column is None else column


def numbers(column: pa.Array | None) -> pa.Array | None:
    """A column as whole numbers; other texts, such as '' for "no value", are null."""
    if column is None or pa.types.is_integer(column.type):
        return column
    if pa.types.is_string(column.type):
        plain = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
        return pc.if_else(plain, column, None).cast(pa.int64())
    return None


def strings(database: Database, conversion: Conversion) -> Texts:
    """The strings in rocpd_string."""
    table = next(iter(database.like("rocpd_string")), None)
    return Texts(database, table, "id", "string", conversion)


def nonempty(column: pa.DictionaryArray) -> pa.StringArray:
    """The texts of a dictionary column, null for empty ones."""
    words = column.dictionary
    return pc.if_else(pc.equal(words, ""), None, words).take(column.indices)
