"""Events of one shape as columns: the decoder makes them, the phases turn them into rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ktrace.model.arrays import Int64

#: Members of an event with a column of their own.
MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "bp", "s")

#: Those that should be texts.
TEXTS = frozenset({"ph", "cat", "name", "bp", "s"})

#: Ids reserved for the rows of an event. A slice or an instant (also one of an unknown phase) may have two links (for a
#: bind_id, for a wait), an allocation two counters.
ROOM = 5

#: Phases whose events become one row; a counter has a further row for each series.
ONE_ROW = frozenset("stfMC")


@dataclass(frozen=True, slots=True)
class Events:
    """Some events of a document, in the order of the document, as Arrow arrays of one length.

    `at` is the id of the first row of each event: it increases through the document, is unique, and is the same at
    every reading, whatever the size of batches and the number of processes.

    `columns` has, by name:

        ph, cat, name, bp, s     dictionary<int32, string>: text members (a text of another type as its JSON text)
        ts, dur                  int64 ns, exact, from microseconds as text; null: absent or not a number
        pid, tid, id             int64, or dictionary<int32, string> where the member is a text, or
                                 dictionary<int32, binary>, the JSON text, where it is anything else
        args.<key>               a member of `args`, typed as `ktrace.model.batch.Batch` says
        args.$<key>              a member of the event that isn't in `MEMBERS` ("tts", "cname", "id2", "sf", ...), typed
                                 alike; "$args" if `args` isn't an object; "$ts" and "$dur" keep the source's own text
                                 (binary) if digits below 1 ns were rounded, or if it isn't a number

    A column that no event has is absent. A member that is null or absent in an event is null there.
    """

    at: Int64
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.at)
