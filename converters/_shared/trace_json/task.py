"""What the makers of rows share: the dialect, the label of the source, the report."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.report import Report

from .dialect import Dialect
from .draft import Draft, valid

#: Times are between -LIMIT and LIMIT (ns).
LIMIT = 1 << 62


@dataclass(frozen=True)
class Task:
    """Some events to be mapped: by which table, for which source, with which report."""

    dialect: Dialect
    label: str
    report: Report

    def skip(self, kind: str, detail: str, at: Int64) -> None:
        """Reports events that give no rows, the first of them with their ids."""
        for number in at[:20].tolist():
            self.report.issue(kind, f"record {number}", detail)
        if len(at) > 20:
            self.report.issue(kind, f"record {int(at[20])}", detail, len(at) - 20)

    def timed(self, draft: Draft) -> Draft:
        """The events of the draft that have a time, and a duration that is none or not negative; `ts` is filled.

        The others are reported.
        """
        ts = draft.left.pop("ts", None)
        if ts is None:
            ts = pa.nulls(len(draft), pa.int64())
        if self.dialect.origin:
            ts = pc.add(ts, self.dialect.origin)
        draft.columns["ts"] = ts
        draft = self._without(draft, ~valid(ts), "bad-record", "no time")
        for name in ("ts", "dur"):
            column = draft.columns["ts"] if name == "ts" else draft.left.get("dur")
            if column is None or not len(draft):
                continue
            ends = pc.min_max(column)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is None:
                continue
            if low <= -LIMIT or high >= LIMIT:
                values = column.fill_null(0).to_numpy(zero_copy_only=False)
                draft = self._without(
                    draft, (values <= -LIMIT) | (values >= LIMIT), "time-range", f"{name} of {high} ns"
                )
            if name == "dur" and low < 0 and len(draft):
                values = draft.left["dur"].fill_null(0).to_numpy(zero_copy_only=False)
                draft = self._without(draft, values < 0, "negative-duration", f"{low} ns")
        return draft

    def _without(self, draft: Draft, mask: Bools, kind: str, detail: str) -> Draft:
        if not mask.any():
            return draft
        self.skip(kind, detail, draft.at[mask])
        return draft.where(~mask)
