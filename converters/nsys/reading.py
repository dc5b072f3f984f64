"""The state that the readers of all tables share: the database, the names, the places, the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, Block, timed
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Int64

from .enums import COLUMNS, Enums
from .graph_nodes import GraphNodes
from .places import NsysTracks, without
from .stacks import Stacks
from .strings import NO_NAME, Strings, Words
from .typed import typed

#: Columns that contain ids of strings, besides the one that is the name.
_TEXTS = (
    "nameId",
    "endNameId",
    "textId",
    "srcFile",
    "funcName",
    "varName",
    "kernelName",
    "objectNameId",
    "module",
    "CpuInstruction",
    "mangledName",
    "sourceFile",
)


@dataclass
class ExportReader:
    """The reading of one file."""

    database: Database
    conversion: Conversion
    path: str
    strings: Strings
    enums: Enums
    places: NsysTracks
    batches: Batches
    stacks: Stacks
    nodes: GraphNodes
    _words: dict[tuple[str, str, bool], Words] = field(default_factory=dict)

    def blocks(self, table: str) -> Iterator[Block]:
        """Yields the rows of a table with the types that their columns should have."""
        for block in self.database.blocks(table, self.conversion.batch_rows):
            rows = typed(block, self.database.tables[table], self.conversion)
            if len(rows):
                yield rows

    def timed(
        self,
        table: str,
        *starts: str,
        end: str | None = None,
        open_end: bool = False,
        each: int = 1,
        prepare: Callable[[Block], Block] | None = None,
    ) -> Iterator[tuple[Block, Int64]]:
        """Yields the rows with valid times, and their ids; reports the others.

        The time is in the first of the columns `starts` that the table has, in ns, and so is `end`. A row has `each`
        ids. `prepare` is applied to each block before its times are checked.
        """
        has = self.database.has
        start = next((name for name in starts if has(table, name)), starts[0])
        last = end if end is not None and has(table, end) else None
        for block in self.blocks(table):
            ready = block if prepare is None else prepare(block)
            good = timed(ready, self.conversion, start, last, open_end=open_end)
            if len(good):
                yield good, self.batches.ids(len(good), each)

    def name(
        self, block: Block, table: str, *spellings: str, short: Callable[[str], str] | None = None
    ) -> dict[str, pa.Array]:
        """Returns the columns `name` and, with `short`, `short_name` from the first of these columns that exists."""
        ids = block.take(*spellings)
        if ids is None:
            return {"name": pa.repeat(pa.scalar(NO_NAME), len(block)).dictionary_encode()}
        words = self.words(table, spellings[0], short)
        names = words.column(block, ids, required=True)
        shorts = words.short(names)
        return {"name": names} if shorts is None else {"name": names, "short_name": shorts}

    def words(self, table: str, column: str, short: Callable[[str], str] | None = None) -> Words:
        """Returns the words of a column of a table."""
        key = (table, column, short is not None)
        if key not in self._words:
            self._words[key] = Words(self.strings, self.conversion, short)
        return self._words[key]

    def args(self, block: Block, table: str, words: Mapping[str, str] | None = None) -> dict[str, pa.Array]:
        """Returns the columns not yet used whose numbers mean words, as arguments with these words.

        `words` are enumerations of columns in this table only.
        """
        columns: dict[str, pa.Array] = {}
        for name, enum in {**COLUMNS, **(words or {})}.items():
            numbers = block.take(name) if block.is_left(name) else None
            if numbers is not None and numbers.null_count < len(block):
                columns[f"args.{name}"] = self.enums.column(enum, numbers)
        for name in _TEXTS:
            ids = block.get(name)
            if ids is not None and pa.types.is_int64(ids.type) and block.is_left(name):
                block.take(name)
                if ids.null_count < len(block):
                    columns[f"args.{name}"] = self.words(table, name).column(block, ids)
        return columns

    @staticmethod
    def enum_of(column: str, words: Mapping[str, str]) -> str:
        """Returns the enumeration of a column's numbers, "" for none."""
        return words.get(column, COLUMNS.get(column, ""))

    def correlation(self, block: Block) -> pa.Array | None:
        """Returns the column `correlation`; 0 in the file means null."""
        numbers = block.take("correlationId")
        return None if numbers is None else without(numbers, 0)


def numbered(word: str, numbers: pa.Array) -> pa.DictionaryArray:
    """Returns "SM 3" for each 3, and the word alone for null."""
    return mapped_words(pc.fill_null(numbers, -1), lambda number: word if number < 0 else f"{word} {number}")
