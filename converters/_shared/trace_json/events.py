"""Events of one shape, as columns: what the decoder gives, and the phases take."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ktrace.model.arrays import Int64

#: Members of an event that have a column of their own, if any of the events has the member.
MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "bp", "s")

#: Those that should be texts.
TEXTS = frozenset({"ph", "cat", "name", "bp", "s"})

#: Rows that an event may give; ids are counted so that each has one. A slice or instant, that of a phase which nobody
#: knows as well, may have two ends of arrows (a bind_id, a wait), an allocation two counters.
ROOM = 5

#: Phases of which an event gives one row; a counter has a further one for each series.
ONE_ROW = frozenset("stfMC")


@dataclass(frozen=True, slots=True)
class Events:
    """Some events of a document, in the order of the document, as Arrow arrays of one length.

    `at` is the id of the first row that each event may give: it rises through the document, is unique, and is the
    same at every reading, whatever the size of batches and the number of processes.

    `columns` has, by name:

        ph, cat, name, bp, s     dictionary<int32, string>: text members (a text of another type as its JSON text)
        ts, dur                  int64 ns, exact, of microseconds as text; null: absent or no number
        pid, tid, id             int64, or dictionary<int32, string> where the member is a text, or
                                 dictionary<int32, binary>, the JSON text, where it is anything else
        args.<key>               a member of `args`, typed as `ktrace.model.batch.Batch` says
        args.$<key>              a member of the event that is none of `MEMBERS` ("tts", "cname", "id2", "sf", ...),
                                 typed alike; "$args" where `args` is no object; "$ts" and "$dur" hold the source's
                                 own number (binary) where digits below 1 ns were rounded, or where it is no number

    A column that none of the events has is absent. An event of which a member is null or absent is null there.
    """

    at: Int64
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.at)
