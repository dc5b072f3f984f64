"""What DeepSpeed prints of its own: the flops profiler's report, the wall-clock breakdown, the communication logger.

    -------------------------- DeepSpeed Flops Profiler --------------------------
    fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    6.38 TFLOPS
    LeNet5(
      61.71 K = 100% Params, 439.56 MMACs = 100% MACs, 25.7 ms = 100% latency, 34.2 GFLOPS
      (0): Tanh(0 = 0% Params, 0 MACs = 0% MACs, 2.85 ms = 11.08% latency, 0 FLOPS)

    [2024-01-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 5.54 | bwd: 22.35
    steps: 10 loss: 5.5508 lm loss: 5.5103 iter time (s): 0.936 samples/sec: 136.706
    Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)
    broadcast
                        2.0 KB              146                 11.12               0.08                0.43

The writers: profiling/flops_profiler/profiler.py (until 0.3.16 in other words, until 0.10.0 with commas for " = "),
utils/timer.py (since 0.18.0 timers are printed without the logger's time), utils/comms_logging.py (since 0.7.0).

Reads what was measured as summaries, the throughput of steps as counters where the log has times.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, Lines
from ktrace.kit.text.numbers import unix_ns
from ktrace.kit.text.titles import likely_lines
from ktrace.model.row_builder import RowBuilder

_Columns = dict[str, Any]

_NUMBER = r"[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,2})?"
_CENTS = r"[0-9]{1,15}\.[0-9]{2}"  # always two decimals: where there are fewer, the line breaks off
_SIZE = r"[0-9]{1,9}(?:\.[0-9]{1,2})? ?[KMGTPEZY]?B"

_TITLE = re.compile(r"(?P<prefix>.{0,80}?)-{20,40} DeepSpeed Flops Profiler -{20,40}\s*")
_TIMERS = "time (ms) | "
#: A timer, and what may be left of a code of colours behind the last one.
_TIMER = re.compile(rf"(?P<name>[^:|]{{1,100}}): (?P<ms>{_CENTS})(?: \((?P<inner>[^()|]{{1,400}})\))?[mM]?\s*")
#: Timers of the engine; other programs print lines of the same form.
_ENGINE = re.compile(r"(?:fwd|forward|bwd|backward|step)_microstep: |fwd: |optimizer_(?:allgather|gradients|step): ")
_RANK = re.compile(r"(?:\[Rank |rank=)(?P<rank>[0-9]{1,9})\b")
_STAMP = re.compile(r"\[([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}),([0-9]{3})\]")
_SPEED = re.compile(
    r"(?:(?:epoch=)?([0-9]{1,12})/(?:micro_step=)?([0-9]{1,12})(?:/global_step=(?P<all>[0-9]{1,12}))?, "
    r"(?=\w{0,10}SamplesPerSec=|vm )|steps: ([0-9]{1,12}) (?=loss: ))(?P<figures>.{1,400})"
)
_SPEED_FIGURE = re.compile(
    r"(?P<name>iter time \(s\)|samples/sec|(?:\w{1,30} ){0,3}loss|\w{1,30}|(?:vm|swap) (?:%|percent))(?:=|: )"
    rf"(?P<number>-?{_NUMBER})(?P<unit>GB)?(?=,|\s|$)"
)
_SPEED_UNITS = {"GB": "B", "PerSec": "samples/s", "/sec": "samples/s", "%": "%", "percent": "%", "(s)": "ns"}
_STEP = re.compile(r"step=(?P<step>[0-9]{1,12}), skipped=(?P<skipped>[0-9]{1,12}), lr=(?P<rates>.{1,4000})")
_VERSION = re.compile(r"DeepSpeed info: version=(?P<version>([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})[^,\s]{0,60}),")
_COMM = re.compile(
    rf"comm op: (?P<name>.{{1,300}}) \| time \(ms\): (?P<ms>{_CENTS}) \| msg size: (?P<size>{_SIZE})"
    rf" \| algbw \(Gbps\): (?P<algbw>{_CENTS}) {{1,2}}\| busbw \(Gbps\): (?P<busbw>{_CENTS})\s*"
)
_TABLE = re.compile(
    r"(?P<prefix>.{0,80}?)Comm\. Op\s+Message Size\s+Count\s+Total (?:Latency|(?P<least>comm lat))\(ms\)\s.{0,200}"
)
_ROW = re.compile(rf"\s{{8,40}}({_SIZE})\s+([0-9]{{1,18}})\s+({_CENTS})\s+({_CENTS})\s+({_CENTS})\s+({_CENTS})\s*")
_OF_ONE = ("Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)")
_OF_RANKS = ("Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)")
_OPERATION = re.compile(r"[a-z]\w{0,80}(?: \| \[Caller Func: .{1,200}\])?\s*")
_RULES = re.compile(r"_{20,40}|-{20,40}|Breakdown with straggler effect")
_WORDS = ("deepspeed flops profiler -", _TIMERS, "comm. op ", "comm op: ", "samplespersec=", ", skipped=", "iter time ")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a report, timers or communication; SHAPE for steps alone, which logs have beside anything else."""
    steps = 0
    for number, text in likely_lines(sample, _WORDS):
        before, timers, after = text.partition(_TIMERS)
        if _TITLE.fullmatch(text):
            return Match(Score.DIALECT, f"has a report of DeepSpeed's flops profiler (line {number})")
        if timers and (_RANK.search(before) or _ENGINE.match(after)) and _TIMER.match(after):
            return Match(Score.DIALECT, f"has timers of DeepSpeed (line {number})")
        if _TABLE.fullmatch(text) or _COMM.search(text):
            return Match(Score.DIALECT, f"has operations of DeepSpeed's communication logger (line {number})")
        steps = steps or (number if _SPEED.search(text) or _STEP.search(text) else 0)
    return Match(Score.SHAPE, f"has steps of DeepSpeed (line {steps})") if steps else None


#: Since this version the communication logger adds the times of all operations before to that of an operation.
_ADDS_UP = (0, 18, 3)


class _Log(LineReader):
    """What was read before a line: the version, the report and the table that are open."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._tables = -1
        self._flops: _Report | None = None
        self._headings: tuple[str, ...] = ()  # of the last columns of the table that is open
        self._prefix, self._operation = "", ""
        self._adds_up = True  # unless the log says otherwise
        self._has_times = self._has_each = False
        self._rows.fact("source", facts={"tool": "DeepSpeed"})

    def take(self, line: Line) -> None:
        text = line.text
        if title := _TITLE.fullmatch(text):
            self._tables += 1
            self._flops, self._headings = _Report(self._lines, self._rows, title["prefix"].rstrip(), self._tables), ()
            self._lines.structure()
        elif self._flops and self._flops.read(text):
            self._flops = None if self._flops.is_over else self._flops
        elif not text.removeprefix(self._prefix.rstrip()).strip():
            self._headings, self._prefix = (), ""
            self._lines.structure()
        elif not (self._take_line(text) or self._take_table(text)) and self._is_last_and_open():
            is_row = bool(self._headings) and text.removeprefix(self._prefix).startswith(" ")
            is_report = self._flops is not None and _BROKEN.match(text.strip())
            if is_row or is_report or any(word in text.lower() for word in _WORDS):
                self._lines.skip("cut", "the last line is cut off")

    def _is_last_and_open(self) -> bool:
        """Whether nothing follows this line, not even its end: it may be cut."""
        return self._lines.peek() is None and self._lines.is_open

    def _take_line(self, text: str) -> bool:
        """Reads a line of timers, of an operation, or of steps; returns False for any other line."""
        before, timers, after = text.partition(_TIMERS)
        if timers:
            return self._take_timers(after, before)
        if match := _COMM.search(text):
            args: _Columns = {"Message Size": match["size"]}
            args |= {f"{name} (Gbps)": float(match[name]) for name in ("algbw", "busbw")}
            self._add_operation(match["name"], "latency", match["ms"], 1, args, self._place(text))
        elif match := _SPEED.search(text):
            return self._take_speed(match, self._place(text))
        elif match := _STEP.search(text):
            self._add_step(match, self._place(text))
        elif match := _VERSION.search(text):
            self._adds_up = tuple(int(part) for part in match.groups()[1:]) >= _ADDS_UP
            self._rows.fact("source", facts={"version": match["version"]})
            self._lines.became("catalog")
        else:
            return False
        return True

    def _take_timers(self, text: str, before: str) -> bool:
        """Adds the timers of a line; those in brackets are parts of the one before them."""
        match = [_TIMER.fullmatch(part) for part in text.rstrip(" |").split(" | ")]
        timers = [timer for timer in match if timer]
        if len(timers) < len(match):
            return False
        self._tables += 1
        columns = {"unit": "ns", "table": self._tables, **self._place(before)}
        for timer in timers:
            parts = filter(None, map(_TIMER.fullmatch, (timer["inner"] or "").split(", ")))
            for part, scope in ((timer, None), *((part, [timer["name"]]) for part in parts)):
                total = float(Decimal(part["ms"]).scaleb(6))
                self._rows.summary("range", part["name"], total=total, scope=scope, **columns)
        self._lines.used()
        return True

    def _take_speed(self, match: re.Match[str], place: _Columns) -> bool:
        """Adds the figures of the throughput timer: counters where the line has a time."""
        names = ("epoch", "micro_step" if match["all"] else "step", "global_step", "step")
        args = {name: int(count) for name, count in zip(names, match.groups(), strict=False) if count}
        figures = list(_SPEED_FIGURE.finditer(match["figures"]))
        for one in figures:
            name, number = one["name"], Decimal(one["number"])
            unit = next((unit for end, unit in _SPEED_UNITS.items() if (one["unit"] or name).endswith(end)), None)
            value = float(number * {"B": 1 << 30, "ns": 10**9}.get(unit or "", 1))
            columns = {"unit": unit, "value": value, "args": args, **place}
            if "ts" in place:
                self._rows.event("counter", name, **columns)
            else:
                self._rows.summary("metric", name, metric=name, **columns)
        if figures:
            self._lines.used()
        return bool(figures)

    def _add_step(self, match: re.Match[str], place: _Columns) -> None:
        """Adds what a line has of a step: its number, how many steps were skipped, the learning rates."""
        rate, _, momenta = match["rates"].partition(", mom=")
        args = {"step": int(match["step"]), "skipped": int(match["skipped"]), "lr": rate, "mom": momenta.rstrip()}
        if "ts" in place:
            self._rows.event("instant", "step", args=args, **place)
        else:
            self._rows.summary("note", "step", metric="note", args=args, **place)
        self._lines.used()

    def _place(self, text: str) -> _Columns:
        """The time and the rank that a line begins with, as columns. The first time states the clock."""
        rank, stamp = _RANK.search(text), _STAMP.search(text)
        place: _Columns = {"track": f"rank {int(rank['rank'])}"} if rank else {}
        ts = unix_ns(stamp[1], stamp[2]) if stamp else None
        if stamp and ts is not None:
            place["ts"] = ts
            if not self._has_times:
                self._has_times = True
                self._rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
                self._report.issue("local-time", self._lines.at(), stamp[1])
        return place

    def _take_table(self, text: str) -> bool:
        """Reads a line of a table of operations; returns False for any other line."""
        if match := _TABLE.fullmatch(text):
            self._tables += 1
            self._headings = _OF_RANKS if match["least"] else _OF_ONE
            self._prefix, self._operation = match["prefix"], ""
            self._lines.structure()
            return True
        text = text.removeprefix(self._prefix)
        if not self._headings:
            return False
        if (row := _ROW.fullmatch(text)) and self._operation:
            size, count, total, *cells = row.groups()
            args = dict(zip(("Message Size", *self._headings), (size, *map(float, cells)), strict=True))
            metric = "comm lat" if self._headings == _OF_RANKS else "latency"
            self._add_operation(self._operation, metric, total, int(count), args, {"table": self._tables})
        elif _RULES.fullmatch(text.strip()) or _OPERATION.fullmatch(text):
            self._operation = text.strip()
            self._lines.structure()
        else:
            return False
        return True

    def _add_operation(self, name: str, metric: str, ms: str, count: int, args: _Columns, place: _Columns) -> None:
        """Adds the time of operations: as time that was spent if the log's version is one that measures it."""
        time = float(Decimal(ms).scaleb(6))
        self._has_each |= "table" not in place
        if self._adds_up or metric == "comm lat":
            args |= {"Count": count}
            self._rows.summary("metric", name, metric=metric, unit="ns", value=time, args=args, **place)
        else:
            kind = "total" if self._has_each and "table" in place else "op"
            self._rows.summary(kind, name, unit="ns", total=time, count=count, args=args, **place)
        self._lines.used()


_HEADING = re.compile(
    r"-{20,40} (?P<section>Aggregated|Detailed) Profile(?: per \w{1,20})? -{20,40}|(?P<end>-{60,100})"
    r"|Profile Summary at step (?P<step>[0-9]{1,12}):|depth (?P<depth>[0-9]{1,6}):"
)
_SUMMARY = re.compile(r"(?P<key>[A-Za-z][^:]{2,100}):\s+(?P<value>[0-9TF]\S{0,30}(?: [A-Za-z]{1,6})?)")
_SETTING = re.compile(r"(?:world|(?:data|model) parall?el) size|batch size per GPU|expert tensor .{0,60}|Profile step")
#: Words of a name -> the unit; the first one counts.
_UNITS = {"latency": "ns", "Latency": "ns", "samples/second": "samples/s", "FLOPS": "FLOP/s", "flops": "FLOP"}
_UNITS |= {"floating point": "FLOP", "MACs": "MAC", "params": "count", "parameters": "count"}
_TOP = re.compile(
    r"(?:Top [0-9]{1,9} modules in )?(?P<what>params|MACs|fwd latency|latency)"
    r"(?:\s{1,20}-| at depth (?P<depth>[0-9]{1,6}) are) \{(?P<items>.*)\}"
)
_ITEM = re.compile(r"'(?P<name>[^']{1,200})': '(?P<value>[^']{1,40})'")
_MODULE = re.compile(
    r"(?:\((?P<key>[^()]{1,200})\): )?(?:(?P<times>[0-9]{1,6}) x )?(?P<type>[A-Za-z_][\w.]{0,200})\((?P<rest>.*)"
)
_MEASURED = rf"{_NUMBER} ?[KkMGBTmu]?"
_FIGURE = re.compile(rf"(?P<number>{_NUMBER}) ?(?P<prefix>[KkMGBTmu]?)(?:MACs|FLOPS|s)?")
_FIGURES = re.compile(
    rf"({_MEASURED})(?: = |, )({_NUMBER})% Params, ({_MEASURED}MACs)(?: = |, )({_NUMBER})% MACs, "
    rf"({_MEASURED}s?)(?: = |, )({_NUMBER})% latency, ({_MEASURED}FLOPS)(?:,.*)?"
)
_POWERS = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "B": 9, "T": 12, "m": -3, "u": -6}
_PROSE = re.compile(
    r"Notations:|data parallel size \(|number of (?:parameters|floating)|umber of floating|fwd latency \("
    r"|step \(weights|Summary of|Each module profile|params, percentage|Note:|[123]\. [NAT]"
    r"|Top (?:[0-9]{1,9} )?modules in terms|\([^()]{1,200}\): None$"
)
#: Models have fewer levels, and fewer modules that are alike.
_DEEPEST, _MOST = 100, 10**9
_BROKEN = re.compile(r"\(|[0-9]|fwd|params|MACs")
#: A latency of more seconds is the time of day: the module had begun before the profiler did.
_LONGEST = 10**9


def figure(text: str) -> Decimal:
    """The number of a figure that `_FIGURE` describes, times its prefix: 439.56 MMACs is 439560000."""
    match = _FIGURE.fullmatch(text.strip())
    return Decimal(match["number"]).scaleb(_POWERS[match["prefix"]]) if match else Decimal(0)


class _Report:
    """A report of the flops profiler of which lines were read: its section, and the modules around the next line."""

    def __init__(self, lines: Lines, rows: RowBuilder, prefix: str, table: int) -> None:
        self._lines, self._rows, self._prefix = lines, rows, prefix
        self._place: _Columns = {"table": table}
        self._section, self._depth = "", ""
        self._has_engine, self._has_shares = False, True
        self._open: list[tuple[str, str, int]] = []  # key, type, and how many alike, with those around it
        self.is_over = False

    def read(self, text: str) -> bool:
        """Accounts for a line of the report and adds its rows; returns False for a line that isn't of it."""
        words = text.removeprefix(self._prefix).strip()
        if match := _HEADING.fullmatch(words):
            self._section, self._depth = match["section"] or self._section, match["depth"] or self._depth
            self._place |= {"run": f"step {match['step']}"} if match["step"] else {}
            self.is_over = match["end"] is not None
        elif self._section == "Detailed" and self._take_module(words):
            return True
        elif self._section == "Aggregated" and (top := _TOP.fullmatch(words)):
            return self._take_top(top)
        elif not self._section and (match := _SUMMARY.fullmatch(words)):
            return self._take_summary(match)
        elif words and not _PROSE.match(words):
            return False
        self._lines.structure()
        return True

    def _take_summary(self, match: re.Match[str]) -> bool:
        """Reads a line of the summary: a setting of the engine, or a figure."""
        key, value = re.split(r" (?:\( )?= ", match["key"])[0], match["value"]
        unit = next((unit for word, unit in _UNITS.items() if word in key), None)
        if _SETTING.fullmatch(key):
            self._has_engine |= key == "world size"
            self._rows.fact(
                "source", facts={{"world size": "world_size"}.get(key, key): int(value) if value.isdecimal() else value}
            )
            self._lines.became("catalog")
        elif unit is None or not _FIGURE.fullmatch(value):
            return False
        elif key.endswith("of model") and not self._has_engine:
            self._lines.became("folded")  # 0, 1, or as per GPU: only the engine knows of more
        else:
            kind = "metric" if unit != "ns" else "total" if key.startswith("iter") else "range"
            self._add(kind, key, key, unit, value)
            self._lines.used()
        return True

    def _take_top(self, match: re.Match[str]) -> bool:
        """Adds the greatest sums over the modules of a type at a depth."""
        what, scope = match["what"], [f"depth {match['depth'] or self._depth}"]
        kind, unit = ("range", "ns") if "latency" in what else ("metric", "MAC" if what == "MACs" else "count")
        for item in _ITEM.finditer(match["items"]):
            if _FIGURE.fullmatch(item["value"].strip()):
                self._add(kind, item["name"], what, unit, item["value"], scope=scope)
        self._lines.used()
        return True

    def _take_module(self, words: str) -> bool:
        """Reads a line of the tree of modules."""
        if words == ")" and self._open:
            self._open.pop()
            self._lines.structure()
        elif self._open and (figures := _FIGURES.fullmatch(words)):
            self._add_module(figures)
        elif (module := _MODULE.fullmatch(words)) and (module["key"] or not self._open) and len(self._open) < _DEEPEST:
            key, times, type_, rest = module.groups()
            around = self._open[-1][2] if self._open else 1
            self._open.append((key or type_, type_, min(around * int(times or 1), _MOST)))
            if figures := _FIGURES.fullmatch(rest.removesuffix(")")):
                self._add_module(figures)
            elif rest in ("", ")"):
                self._lines.structure()
            elif self._lines.peek() is not None:
                self._lines.skip("bad-record", "no figures")
            else:
                self._lines.skip("cut", "the last line is cut off")
            if rest:
                self._open.pop()
        else:
            return False
        return True

    def _add_module(self, figures: re.Match[str]) -> None:
        """Adds the innermost module that is open: its latency, and below it the other figures."""
        params, of_params, macs, of_macs, latency, of_latency, speed = figures.groups()
        scope = [key for key, _, _ in self._open]
        _, type_, times = self._open[-1]
        name, place = ".".join(scope), _Columns(scope=scope, times=times)
        is_time = figure(latency) < _LONGEST
        self._has_shares &= is_time
        share = float(of_latency) if self._has_shares else None
        about: _Columns = {"percent": share, "args": {"type": type_}}
        place["parent"] = self._add("range", name, "latency", "ns", latency, **about, **place)
        self._add("metric", name, "params", "count", params, percent=float(of_params), **place)
        self._add("metric", name, "MACs", "MAC", macs, percent=float(of_macs), **place)
        if is_time:
            self._add("metric", name, "FLOPS", "FLOP/s", speed, **place)
        self._lines.used()

    def _add(self, kind: str, name: str, metric: str, unit: str, printed: str, times: int = 1, **columns: Any) -> int:
        """Adds a figure, or as many equal ones, and returns the id of the row."""
        number = figure(printed)
        columns |= self._place
        if unit == "ns" and number >= _LONGEST:
            args = columns.pop("args", {}) | {"latency": printed}
            return self._rows.summary(kind, name, args=args, **columns)
        each = float(number.scaleb(9) if unit == "ns" else number)
        figures: _Columns = {"total" if unit == "ns" else "value": each}
        if times > 1:
            figures = {"avg": each, "count": times} | ({} if metric == "FLOPS" else {"total": each * times})
        metric = "duration" if unit == "ns" else metric
        return self._rows.summary(kind, name, metric=metric, unit=unit, **figures, **columns)


FORMAT = Format(
    "deepspeed",
    "DeepSpeed: flops profiler's report, wall-clock breakdown, communication log",
    patterns=("*.log", "*.txt", "*.out"),
    probe=probe,
    read=_Log.read,
    words=_WORDS,
    prose=True,
    logged="a time",
)
