"""The three ways to an answer. Each returns what an agent takes from it, with the calls and the bytes that it read."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from ktrace.analysis.answers.mcp.access import Access
from ktrace.analysis.answers.mcp.server import answered, as_text
from ktrace.analysis.answers.mcp.session import Session
from ktrace.cli import cli

from .questions import CATEGORIES, Question, events_of

#: Bytes of a file that one looks at before one writes code for it.
_LOOKED_AT = 2_000


class Told(NamedTuple):
    """An answer, and what it cost: calls, and bytes that were read."""

    answer: int | str | None
    calls: int
    bytes: int


class Cost:
    """Counts calls and bytes."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0

    def read(self, text: str) -> Any:
        """The document of an answer."""
        self.calls, self.bytes = self.calls + 1, self.bytes + len(text.encode())
        return json.loads(text)


def _taken(kind: str, findings: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]]) -> int | str | None:
    """What one takes from findings and tables, where it stands."""
    by_code = {one["code"]: one for one in reversed(findings)}
    devices = tables.get("devices", [])
    if kind == "total":
        return int(tables["overview"][0]["total_ns"])
    if kind in ("top", "launches"):
        top = by_code["heaviest.kernel"]
        return (
            str(top["subject"].get("name", top["subject"]["kernel"])) if kind == "top" else int(top["details"]["count"])
        )
    if kind in ("busy", "idle"):
        return int(by_code[kind]["value"]) if len(devices) < 2 else sum(int(one[f"{kind}_ns"]) for one in devices)
    if kind == "exposed":
        return int(by_code["exposed.communication"]["value"]) if "exposed.communication" in by_code else 0
    if kind == "cause":
        return str(tables["idle"][0]["cause"])
    if kind == "late":
        return str(by_code["straggler"]["subject"]["rank"]) if "straggler" in by_code else None
    slower = [
        one for one in findings if one["code"] == "change.clear" and one["value"] > 0 and "kernel" in one["subject"]
    ]
    return str(slower[0]["subject"]["kernel"]) if slower else None


def by_shell(question: Question) -> Told:
    """`ktrace summary` and `ktrace diff` with `--format json`."""
    words = ["diff"] if question.kind == "slower" else ["summary"]
    cost, tables = Cost(), {"cause": "idle", "total": "overview"}.get(question.kind, "findings")
    asked = ["--by", "idle"] if question.kind == "cause" else []
    names = [str(path) for path in question.paths]
    limits = [] if question.kind == "slower" else ["--tables", tables, "--rows", "3"]
    done = CliRunner().invoke(cli, [*words, *names, *asked, *limits, "--format", "json"])
    document = cost.read(done.stdout)
    return Told(_taken(question.kind, document["findings"], document["tables"]), cost.calls, cost.bytes)


def by_mcp(question: Question) -> Told:
    """The tools of `ktrace mcp`, whose functions are called as the server does."""
    cost = Cost()
    folder = question.paths[0].parent
    with closing(Session(Access([folder]), 1 << 31)) as session:

        def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            document: dict[str, Any] = cost.read(as_text(answered(session, tool, arguments)))
            return document

        opened = [str(path) for path in question.paths]
        if question.kind == "late":
            opened = [str(folder)]
        handles = [ask("open", path=path)["handle"] for path in opened]
        tables: dict[str, list[dict[str, Any]]] = {}
        findings: list[dict[str, Any]] = []
        if question.kind in ("total", "cause"):
            tool = "overview" if question.kind == "total" else "idle"
            for table in ask(tool, handle=handles[0], rows=3)["tables"]:
                tables[table["name"]] = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        elif question.kind == "slower":
            findings = ask("findings", handle=handles[1], before=handles[0])["findings"]
        else:
            findings = ask("findings", handle=handles[0])["findings"]
        return Told(_taken(question.kind, findings, tables), cost.calls, cost.bytes)


def by_python(question: Question) -> Told:
    """Plain JSON with Python: the code that one writes first, after a look at the head of the file."""
    answer = _computed(question)
    return Told(answer, 1 + len(question.paths), _LOOKED_AT * len(question.paths) + len(f"{answer}\n"))


def _computed(question: Question) -> int | str | None:
    """Sums, means and merged intervals of the events of device work; nothing of what overlaps what."""
    runs = [_work(path) for path in question.paths]
    work = runs[0]
    every = [one for of_device in work.values() for one in of_device]
    kernels: defaultdict[str, list[float]] = defaultdict(list)
    for _, dur, category, name in every:
        if category == "kernel":
            kernels[name].append(dur)
    top = max(kernels, key=lambda name: sum(kernels[name]))
    if question.kind == "total":
        return round(1000 * sum(dur for _, dur, *_ in every))
    if question.kind in ("top", "launches"):
        return top if question.kind == "top" else len(kernels[top])
    if question.kind in ("busy", "idle"):
        return _used(work, question.kind)
    if question.kind == "exposed":
        return round(1000 * sum(dur for _, dur, _, name in every if "nccl" in name))
    if question.kind == "late":  # who waits least in collectives
        waits = [sum(dur for rows in run.values() for _, dur, _, name in rows if "nccl" in name) for run in runs]
        return str(waits.index(min(waits)))
    if question.kind == "slower":
        means = [_means(run) for run in runs]
        return max(means[0].keys() & means[1].keys(), key=lambda name: means[1][name] / means[0][name])
    return None  # why a device is idle takes more than a script


_Work = dict[Any, list[tuple[float, float, str, str]]]


def _work(path: Path) -> _Work:
    work: defaultdict[Any, list[tuple[float, float, str, str]]] = defaultdict(list)
    for one in events_of(path):
        if one.get("ph") == "X" and one.get("cat") in CATEGORIES:
            work[one["pid"]].append((float(one["ts"]), float(one["dur"]), one["cat"].lower(), one["name"]))
    return work


def _used(work: _Work, kind: str) -> int:
    busy = idle = 0.0
    for rows in work.values():
        spans = sorted((begin, begin + dur) for begin, dur, *_ in rows)
        first, reached, took = spans[0][0], spans[0][0], 0.0
        for begin, end in spans:
            took += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        busy, idle = busy + took, idle + reached - first - took
    return round(1000 * (busy if kind == "busy" else idle))


def _means(work: _Work) -> dict[str, float]:
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for _, dur, category, name in (one for rows in work.values() for one in rows):
        if category == "kernel":
            times[name] += dur  # type: ignore[assignment]
            counts[name] += 1
    return {name: times[name] / counts[name] for name in times}


#: Each way by its name.
WAYS = {"ktrace mcp": by_mcp, "shell": by_shell, "plain JSON with Python": by_python}


def is_right(question: Question, answer: int | str | None) -> bool:
    """Whether an answer is the truth: names by their words, times to 1 us and a thousandth."""
    if isinstance(question.true, int) and isinstance(answer, int):
        return abs(answer - question.true) <= max(1_000, question.true // 1_000)
    if isinstance(question.true, str) and isinstance(answer, str):
        return answer in question.true or question.true in answer
    return question.true == answer
