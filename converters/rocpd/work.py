"""Device work: rocpd_kernel_dispatch, rocpd_memory_copy, rocpd_memory_allocate.

kernel_id 17   ->  rocpd_info_kernel_symbol 17: display_name, arch_vgpr_count, sgpr_count, group_segment_size
grid_size_x 1000 (work-items), workgroup_size_x 256    ->  4 blocks of 256
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, nonzero
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.rocm.common import copy_kinds, launch, short_name
from ktrace.model.batch import Batch

from .places import Columns, json_object, plain
from .slices import TableReader, Tables

_SYMBOL = (
    *("display_name", "kernel_name", "group_segment_size", "sgpr_count", "arch_vgpr_count", "accum_vgpr_count"),
    "extdata",
)


class Kernels(TableReader):
    """The rows of rocpd_kernel_dispatch."""

    kind = "kernel_dispatch"

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._symbols = tables.infos.table("info_kernel_symbol", *_SYMBOL)
        self._ids = plain(self._symbols["id"])

    def _batch(self, block: Block) -> Batch:
        tables = self._tables
        common = tables.take_common(block)
        device = tables.infos.device.of(common["place"]["agent"])
        columns = {"kind": "kernel", "device": device} | common["columns"]
        columns |= self._symbol(block) | launch(block) | tables.places.stream(common["place"], device)
        columns["args.region"] = _not_empty(tables.strings.column(block, block.take("region_name_id")))
        for name in ("graph_exec_id", "graph_node_id"):
            columns[f"args.{name}"] = nonzero(block.take(name))
        columns["args.thread_id"] = common["place"]["tid"]
        return tables.spans(self.kind, block, columns)

    def _symbol(self, block: Block) -> Columns:
        """Columns from the kernel's symbol: names, registers, the memory that is requested at the launch."""
        numbers = block.take("kernel_id")
        if numbers is None:
            return {"name": "[no name]"}
        coded = numbers.dictionary_encode()
        at = pc.index_in(coded.dictionary, value_set=self._ids)
        symbol = {name: plain(self._symbols[name]).take(at) for name in _SYMBOL}
        words = self._words(block, coded, symbol)
        shorts = [_short(word, extdata) for word, extdata in zip(words, symbol["extdata"].to_pylist(), strict=True)]
        static = symbol["group_segment_size"].take(coded.indices)
        memory = block.get("group_segment_size")
        columns = {
            "name": pa.DictionaryArray.from_arrays(coded.indices, pa.array(words, pa.string())),
            "short_name": pa.array(shorts, pa.string()).take(coded.indices),
            "registers": small(symbol["arch_vgpr_count"]).take(coded.indices),
            "args.sgpr_count": symbol["sgpr_count"].take(coded.indices),
            "args.accum_vgpr_count": symbol["accum_vgpr_count"].take(coded.indices),
        }
        if memory is not None and pa.types.is_integer(static.type):
            dynamic = pc.subtract(memory, static)
            columns["shared_dynamic"] = pc.if_else(pc.less(dynamic, 0), None, dynamic)
        return columns

    def _words(self, block: Block, coded: pa.DictionaryArray, symbol: dict[str, pa.Array]) -> list[str]:
        """Returns the names of the kernels of a block; reports a kernel without a name."""
        words = []
        shown, mangled = symbol["display_name"].to_pylist(), symbol["kernel_name"].to_pylist()
        for code, number in enumerate(coded.dictionary.to_pylist()):
            word = shown[code] or mangled[code]
            if not word:
                word = f"[kernel {number}]"
                lost = pc.equal(coded.indices, code)
                where = block.where(pc.index(lost, True).as_py())
                self._tables.conversion.report.issue("missing-string", where, word, lost.true_count)
            words.append(str(word))
        return words


def _short(name: str, extdata: object) -> str | None:
    """The short name: the one that rocprofiler truncated, else the name without its descriptor's suffix."""
    truncated = json_object(extdata).get("truncated_kernel_name")
    return truncated if isinstance(truncated, str) and truncated and truncated != name else short_name(name)


def small(column: pa.Array) -> pa.Array:
    """Whole numbers of at most 31 bits; others are null."""
    if not pa.types.is_integer(column.type):
        return pa.nulls(len(column), pa.int32())
    in_range = pc.and_(pc.less(column, 1 << 31), pc.greater_equal(column, 0))
    return pc.if_else(in_range, column, None).cast(pa.int32())


class Copies(TableReader):
    """The rows of rocpd_memory_copy."""

    kind = "memory_copy"

    def _batch(self, block: Block) -> Batch:
        tables = self._tables
        common = tables.take_common(block)
        names = tables.strings.column(block, block.take("name_id"), required=True)
        device, way, agents = self._ends(block)
        ways = copy_kinds(names)
        columns = {
            "kind": "memcpy",
            "name": names,
            "device": device,
            "bytes": block.take("size"),
            "copy_kind": way if ways is None else ways if way is None else pc.coalesce(ways, way),
        }
        columns |= common["columns"] | tables.places.stream(common["place"], device) | agents
        for name in ("src_address", "dst_address"):
            column = block.take(name)
            if column is not None and pa.types.is_integer(column.type):
                columns[f"args.{name}"] = nonzero(column)
        columns["args.region"] = _not_empty(tables.strings.column(block, block.take("region_name_id")))
        columns["args.thread_id"] = common["place"]["tid"]
        return tables.spans(self.kind, block, columns)

    def _ends(self, block: Block) -> tuple[pa.Array | None, pa.Array | None, Columns]:
        """The device that a copy is shown on (its destination GPU, else its source), its direction, both agents."""
        infos = self._tables.infos
        to, of = block.take("dst_agent_id"), block.take("src_agent_id")
        if to is None or of is None:
            agent = of if to is None else to
            return infos.device.of(agent), None, {}
        kinds = [pc.fill_null(pc.equal(infos.agent_type.at(end).cast(pa.string()), "GPU"), False) for end in (of, to)]
        both_known = pc.and_(infos.agent_type.at(of).is_valid(), infos.agent_type.at(to).is_valid())
        letters = [pc.if_else(gpu, "D", "H") for gpu in kinds]
        way = pc.if_else(both_known, pc.binary_join_element_wise(*letters, "to"), None)
        device = infos.device.of(pc.if_else(pc.or_(kinds[1], pc.invert(kinds[0])), to, of))
        return device, way, {"args.src_agent": infos.device.of(of), "args.dst_agent": infos.device.of(to)}


class Allocations(TableReader):
    """The rows of rocpd_memory_allocate. A free has the size of the allocation at its address."""

    kind = "memory_allocate"

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._sizes: dict[int, int] = {}

    def _batch(self, block: Block) -> Batch:
        tables = self._tables
        common = tables.take_common(block)
        device = tables.infos.device.of(common["place"]["agent"])
        types = block.take("type")
        names = tables.strings.column(block, block.take("name_id"))
        if names is None:
            names = constant("[no name]", len(block)) if types is None else pc.fill_null(types, "[no name]")
        elif types is not None:
            common["columns"]["args.type"] = types
        size = self._bytes(types, block.get("address"), block.take("size"))
        typed = {"kind": "alloc", "name": names, "tid": common["place"]["tid"], "device": device, "bytes": size}
        queues = {f"args.{name}_id": nonzero(common["place"][name]) for name in ("queue", "stream")}
        return tables.spans(self.kind, block, typed | common["columns"] | queues)

    def _bytes(self, types: pa.Array | None, address: pa.Array | None, size: pa.Array | None) -> pa.Array | None:
        """The allocated bytes, negative for a free."""
        if types is None or address is None or size is None:
            return size
        sizes = []
        for kind, at, count in zip(types.to_pylist(), address.to_pylist(), size.to_pylist(), strict=True):
            if kind != "FREE":
                self._sizes[at] = count
                sizes.append(count)
                continue
            freed = count or self._sizes.pop(at, None)
            sizes.append(None if freed is None else -freed)
        return pa.array(sizes, pa.int64())


def _not_empty(words: pa.DictionaryArray | None) -> pa.Array | None:
    """The words, null for empty ones."""
    if words is None or not pc.any(pc.equal(words.dictionary, "")).as_py():
        return words
    return pc.if_else(pc.equal(words.dictionary, ""), None, words.dictionary).take(words.indices)
