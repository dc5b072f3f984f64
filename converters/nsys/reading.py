"""What the readers of all tables share: the database, the names, the places, the batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar.blocks import Batches, Block, timed
from ktrace.converters._shared.sqlite.database import Database
from ktrace.model.arrays import Int64

from .enums import COLUMNS, Enums
from .places import Places, without
from .stacks import Stacks
from .strings import NO_NAME, Strings, Words
from .typed import typed

#: Columns that hold ids of strings, beside the one that is the name.
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
class Reading:
    """One reading of a file."""

    database: Database
    conversion: Conversion
    path: str
    strings: Strings
    enums: Enums
    places: Places
    batches: Batches
    stacks: Stacks
    _words: dict[tuple[str, str, bool], Words] = field(default_factory=dict)

    def blocks(self, table: str) -> Iterator[Block]:
        """The rows of a table, their numbers as such."""
        for block in self.database.blocks(table, self.conversion.batch_rows):
            whole = typed(block, self.database.tables[table], self.conversion)
            if len(whole):
                yield whole

    def timed(
        self,
        table: str,
        *starts: str,
        end: str | None = None,
        open_end: bool = False,
        each: int = 1,
        prepare: Callable[[Block], Block] | None = None,
    ) -> Iterator[tuple[Block, Int64]]:
        """The rows of which the times can be believed, and their ids; the others are reported.

        The time is in the first of the columns `starts` that the table has, ns as is `end`. A row has `each` ids.
        `prepare` is given each block before its times are looked at.
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
        """Columns `name` and, if `short`, `short_name` from the first of these columns of ids that there is."""
        ids = block.take(*spellings)
        if ids is None:
            return {"name": pa.repeat(pa.scalar(NO_NAME), len(block)).dictionary_encode()}
        words = self.words(table, spellings[0], short)
        names = words.column(block, ids, required=True)
        shorts = words.short(names)
        return {"name": names} if shorts is None else {"name": names, "short_name": shorts}

    def words(self, table: str, column: str, short: Callable[[str], str] | None = None) -> Words:
        """The words of a column of a table."""
        key = (table, column, short is not None)
        if key not in self._words:
            self._words[key] = Words(self.strings, self.conversion, short)
        return self._words[key]

    def said(self, block: Block, table: str, words: Mapping[str, str] | None = None) -> dict[str, pa.Array]:
        """Arguments of the columns that aren't taken yet, in words where their numbers stand for words.

        `words` are enumerations that columns have in this table alone.
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
        """The enumeration of a column's numbers, "" for none."""
        return words.get(column, COLUMNS.get(column, ""))

    def correlation(self, block: Block) -> pa.Array | None:
        """The column `correlation`; 0 means that there is none."""
        numbers = block.take("correlationId")
        return None if numbers is None else without(numbers, 0)


def numbered(word: str, numbers: pa.Array) -> pa.DictionaryArray:
    """ "SM 3" for each 3, the word alone for null."""
    encoded = pc.fill_null(numbers, -1).dictionary_encode()
    words = [word if number < 0 else f"{word} {number}" for number in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, pa.string()))
