"""Timelines written by hand, as lines of the model, and the path that ktrace finds in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ktrace
from ktrace.analysis.questions.critical_path import CriticalPathAnswer

Piece = tuple[int, int, str, str]


@dataclass
class Timeline:
    """Rows of the model. Times are ns; a kernel is launched by the call with its correlation."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, record: str = "event", **columns: Any) -> int:
        """Adds a row and returns its id."""
        number = len(self.rows) + 1
        known = {name: value for name, value in columns.items() if value is not None}
        self.rows.append({"record": record, "source": "run", "id": number} | known)
        return number

    def host(self, kind: str, name: str, ts: int, end: int, tid: int = 1, corr: int | None = None, pid: int = 9) -> int:
        """Adds a call, an operator or a range."""
        place = {"pid": pid, "tid": tid}
        return self.add(kind=kind, name=name, ts=ts, dur=end - ts, timing="measured", correlation=corr, **place)

    def step(self, number: int, ts: int, end: int, tid: int = 1) -> None:
        """Adds a step of a profiler."""
        self.host("range", f"ProfilerStep#{number}", ts, end, tid)

    def work(self, name: str, ts: int, end: int, stream: int = 7, corr: int | None = None, kind: str = "kernel") -> int:
        """Adds device work, or a synchronisation on a stream."""
        place = {"device": 0, "stream": stream}
        return self.add(kind=kind, name=name, ts=ts, dur=end - ts, timing="measured", correlation=corr, **place)

    def arrow(self, link: str, key: str, out: int, into: int) -> None:
        """Adds both ends of an arrow between two rows."""
        for role, event in (("out", out), ("in", into)):
            self.add("link", link=link, key=key, role=role, event=event)

    def answer(self, folder: Path, **options: Any) -> CriticalPathAnswer:
        """What ktrace answers."""
        path = folder / "run.jsonl"
        header = {"ktrace": "1.0"}
        path.write_text("\n".join(json.dumps(row) for row in (header, *self.rows)) + "\n")
        found = ktrace.summary(path, by=["critical-path"], **options).answers["critical-path"]
        assert isinstance(found, CriticalPathAnswer)
        return found

    def path(self, folder: Path) -> list[Piece]:
        """The pieces of the path: begin, end, kind and name."""
        return pieces(self.answer(folder))


def pieces(answer: CriticalPathAnswer) -> list[Piece]:
    """The pieces of an answer."""
    assert answer.path is not None
    rows = answer.path.to_pylist()
    return [(row["ts"], row["ts"] + row["dur"], row["kind"], row["name"]) for row in rows]
