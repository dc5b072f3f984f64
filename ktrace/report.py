"""The report of a conversion: records read, rows written, and what was repaired or skipped, where and why.

The chain of accounts, each link of which `Report.balanced()` checks:

    text     bytes          = bytes of records + structure + skipped
    reader   records read   = records that gave rows + records with another outcome or skipped
    stage    rows in + rows added = rows out + rows removed
    writer   rows in        = rows written + rows that the format can't represent
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, NoReturn

from ktrace.byte_account import ByteAccount
from ktrace.errors import InputError, InternalError, StrictFailure


class Severity(IntEnum):
    """How much an issue affects the result. `--strict` fails from REPAIR upwards."""

    NOTE = 0
    REPAIR = 1
    SKIP = 2
    CUT = 3


class Kind(NamedTuple):
    """A kind of issue: its severity, and a sentence for users on what happened and what it means."""

    severity: Severity
    sentence: str


#: Every kind of issue that ktrace itself reports. Kinds of other packages begin with "x_".
KINDS: dict[str, Kind] = {
    # Notes: nothing is wrong with the result.
    "rounded": Kind(Severity.NOTE, "A time below 1 ns was rounded; the source's own number is kept in args."),
    "rounded-size": Kind(
        Severity.NOTE,
        "Sizes printed in MB are read as 10^6 bytes; they are rounded, so the printed text is kept in args.",
    ),
    "folded": Kind(Severity.NOTE, "A table repeats rows of another table; its figures were joined to those rows."),
    "disagreement": Kind(
        Severity.NOTE, "Two places in the source contain different figures for the same thing; both are kept."
    ),
    "unit-corrected": Kind(
        Severity.NOTE, "The tool printed a wrong unit with a figure; it was read in the unit that the tool measures in."
    ),
    "wrapped-lines": Kind(
        Severity.NOTE,
        "What another program put before the lines of the text, such as a time or a rank, was left out.",
    ),
    "no-nulls": Kind(
        Severity.NOTE,
        "The file can't mark a value as missing; zeros in columns that may lack values were read as missing.",
    ),
    "misfit": Kind(Severity.NOTE, "A value that its field can't represent was kept in args."),
    "wrapped": Kind(
        Severity.NOTE,
        "The source truncated a value to 32 bits; the full value was used where the source contains it elsewhere, and "
        "the truncated one is kept in args.",
    ),
    "unknown-column": Kind(Severity.NOTE, "A column that the format doesn't define was kept in args."),
    "unknown-kind": Kind(Severity.NOTE, "A record of a type that the format doesn't define was kept unchanged."),
    "newer-minor": Kind(
        Severity.NOTE, "The file was written for a newer minor version of the model; unknown fields are kept in args."
    ),
    "unknown-version": Kind(
        Severity.NOTE, "The file has a version that ktrace doesn't know; the parts that match known versions were read."
    ),
    "unknown-field": Kind(Severity.NOTE, "A field that no row needs, or that the format doesn't define, was left out."),
    "not-kept": Kind(Severity.NOTE, "What was read couldn't be kept for the next time (KTRACE_CACHE)."),
    "cycles": Kind(
        Severity.NOTE,
        "Times are cycles of a clock whose frequency isn't stated. If you know it: ktrace query IN "
        "'select name, total / HZ as seconds from summaries'.",
    ),
    "guessed": Kind(
        Severity.NOTE,
        "Keys or lines state what is read, without a mapping; ktrace map FILE shows it, and --map states another one.",
    ),
    "mapped": Kind(
        Severity.NOTE,
        "The table was read by the mapping in the file next to it; --map or --from with another format overrides it.",
    ),
    "unlikely-unit": Kind(
        Severity.NOTE,
        "Starts and durations probably aren't in the units that the mapping states: durations add up to a thousand "
        "times the time that they span, or to less than a millionth of it.",
    ),
    "no-trace": Kind(Severity.NOTE, "A file in the folder isn't a trace that ktrace can read; it was left out."),
    "empty-table": Kind(Severity.NOTE, "A table in the source has no rows."),
    "same-run": Kind(Severity.NOTE, "An input that repeats another's data, by another name or format, was left out."),
    "no-whole": Kind(Severity.NOTE, "Shares are drawn as parts of 100 ms, since the source states no total."),
    "begin-guessed": Kind(
        Severity.NOTE,
        "Nothing relates the clock of a source to the clock of the first one; they are assumed to begin together.",
    ),
    "local-time": Kind(Severity.NOTE, "Times of an unknown zone were read as UTC; merge --offset corrects that."),
    "not-stored": Kind(
        Severity.NOTE,
        "The tool counted more events than it stored: statistics are of all, the timeline has the stored.",
    ),
    "no-times": Kind(
        Severity.NOTE,
        "Readings without times became their count, mean and range; with times they are shown beside kernels.",
    ),
    "not-aligned": Kind(
        Severity.NOTE,
        "A table keeps the times of each input, by its own clock; ktrace merge aligns their clocks.",
    ),
    "residual-large": Kind(
        Severity.NOTE,
        "After the alignment by collectives the ends of the same collective still differ by much; "
        "don't trust times between these sources, and compare with --align unix.",
    ),
    "canonical-json": Kind(
        Severity.NOTE,
        "The output is canonical JSON, which viewers of traces don't open; for these name it .trace.json, or use --to chrome.",
    ),
    "times-apart": Kind(
        Severity.NOTE,
        "A source begins so long after the others that a viewer can't show both in detail; "
        "use --align 'marker NAME' or --offset to bring them together.",
    ),
    "clock-moved": Kind(
        Severity.NOTE,
        "The times of a device were moved (--repair-clock), since its work began before the calls that launched it.",
    ),
    "clock-kept": Kind(
        Severity.NOTE,
        "The times of a device weren't moved (--repair-clock), since nothing shows that its clock differs from the host's.",
    ),
    "no-overlap": Kind(
        Severity.NOTE,
        "A source begins after all earlier ones have ended: it doesn't overlap any of them in time.",
    ),
    "shift-undone": Kind(
        Severity.NOTE,
        "The times of an input were shifted manually at export; aligning by unix time undoes the shift, --keep-shift keeps it.",
    ),
    "relabelled": Kind(Severity.NOTE, "Two inputs have the same source label; the later one got a new label."),
    "origin": Kind(Severity.NOTE, "All times of the output were shifted by a constant, which its metadata states."),
    "lane": Kind(Severity.NOTE, "Slices that overlap without nesting were put on a separate lane of their track."),
    "unfinished": Kind(Severity.NOTE, "A slice has no end; it is drawn to the end of the trace, marked as unfinished."),
    "uncompiled": Kind(
        Severity.NOTE, "Packets are made one by one, slowly, since the compiled part of ktrace is missing."
    ),
    "counters-capped": Kind(
        Severity.NOTE, "Only the longest kernels keep their counters, since many counters slow viewers down."
    ),
    "other-files": Kind(
        Severity.NOTE, "Files in the output folder that ktrace didn't write stayed; only its own were replaced."
    ),
    "left-out": Kind(Severity.NOTE, "Rows were left out as requested by the options."),
    "coarsened": Kind(Severity.NOTE, "Short slices were merged with their neighbours, as --budget asks."),
    "cropped": Kind(Severity.NOTE, "Only this interval was converted, counted from the start of the trace."),
    "capture-warning": Kind(Severity.NOTE, "The profiler warned about its capture; data may be missing."),
    "incomplete-report": Kind(
        Severity.NOTE, "A bug in the program that wrote the file lost data; another of its outputs is complete."
    ),
    "environment": Kind(Severity.NOTE, "Environment variables were left out, since they may contain secrets."),
    "broken-format": Kind(
        Severity.NOTE,
        "A format failed while it looked at the input; the format was chosen from the others.",
    ),
    "joined-node": Kind(Severity.NOTE, "Operators of the execution trace were attached to rows of the timeline."),
    "captured": Kind(Severity.NOTE, "Replayed kernels of graphs got the operators of the calls that were captured."),
    "uncaptured": Kind(Severity.NOTE, "Not all kernels of a replayed graph match a capture; none got an operator."),
    "other-run": Kind(Severity.NOTE, "Replays match the capture of another process or recording; shapes may differ."),
    "unexplained": Kind(Severity.NOTE, "The trace doesn't have what --explain asks for, such as gaps of devices."),
    "row-without-node": Kind(Severity.NOTE, "The execution trace lacks the record-function id of a row."),
    # Repairs: the source was damaged, but the meaning is clear.
    "encoding": Kind(Severity.REPAIR, "Bytes that aren't valid text were replaced by U+FFFD."),
    "no-duration": Kind(Severity.REPAIR, "A complete slice has no duration; it was given a duration of 0."),
    "text-number": Kind(Severity.REPAIR, "A number in quotes was read as a number."),
    "rounded-time": Kind(
        Severity.REPAIR,
        "Times were rounded before they were written, as spreadsheets do. Times exact to less than 1 us are marked as "
        "derived; other rows are written without their times, which are kept in args.",
    ),
    "json-repair": Kind(Severity.REPAIR, "Invalid JSON was repaired and read."),
    "duplicate-key": Kind(Severity.REPAIR, "An object contains a key twice; the last value counts."),
    "missing-string": Kind(
        Severity.REPAIR, "The file doesn't contain a name that it refers to; the name's number was used instead."
    ),
    # Skips: a record of the source isn't in the result.
    "unrecognised": Kind(Severity.SKIP, "Text, a table or a file that isn't part of the format was left out."),
    "bad-file": Kind(Severity.SKIP, "A file of the folder can't be read, or not to its end; the rest was read."),
    "bad-record": Kind(Severity.SKIP, "A record that can't be understood was left out."),
    "unread-packet": Kind(Severity.SKIP, "Packets or events of types that ktrace doesn't read were left out."),
    "negative-duration": Kind(Severity.SKIP, "A record that ends before it begins was left out."),
    "time-range": Kind(Severity.SKIP, "A time beyond 2^62 ns was left out."),
    "not-executed": Kind(Severity.SKIP, "A record of work that never ran (start and end are 0) was left out."),
    "end-without-begin": Kind(Severity.SKIP, "The end of a slice that never began was left out."),
    "unbound-link": Kind(Severity.SKIP, "An arrow's end that isn't on a slice was left out."),
    "unmatched-launch": Kind(
        Severity.SKIP,
        "Metrics of a launch were left out, since no single kernel of the timeline could be matched with it.",
    ),
    "no-launch": Kind(Severity.SKIP, "A row of the metrics file that doesn't belong to a launch was left out."),
    "unmatched-node": Kind(
        Severity.SKIP, "An operator of the execution trace was left out, since no row of the timeline belongs to it."
    ),
    "not-representable": Kind(Severity.SKIP, "The output format has no place for the row."),
    # Cuts: the source ends too early.
    "cut": Kind(Severity.CUT, "The input is cut off; everything before the cut was converted."),
    "elided": Kind(Severity.CUT, "The source left out rows of a table; figures are of those that it shows."),
}

#: The stages between a reader and a writer, in the order in which rows pass through them.
CHAIN = (
    *("own-captures", "align", "metrics", "execution-trace", "captures", "classify", "pair", "clock", "explain"),
    *("crop", "filter", "coarsen", "layout", "order", "--table"),
)

#: How many places of one kind are kept as examples.
EXAMPLES = 20


@dataclass
class Issue:
    """All occurrences of one kind: the number of rows, and the first places."""

    kind: str
    severity: Severity
    sentence: str
    rows: int = 0
    places: list[tuple[str, str]] = field(default_factory=list)


#: Issues that speak against the figures of a source, besides those of a cut.
_WARNED = "capture-warning"
_BAD = "bad-record"
#: Of records that were left out since their time can't be right.
IMPOSSIBLE_TIMES = ("time-range", "negative-duration", "not-executed")
_DOUBTED = (_WARNED, _BAD, *IMPOSSIBLE_TIMES)


@dataclass
class Doubts:
    """What speaks against the figures of a source, which checks look at: a fact of it, so that it outlasts conversion.

    `issues` counts the records of each kind of issue, `warnings` are texts of the profiler about its capture, `remarks`
    what else it said: ERROR, WARNING or "", and the text.
    """

    issues: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_issues(
        cls, issues: Iterable[Issue], before: Mapping[str, tuple[int, int]] | None = None, *, tables: bool = True
    ) -> Doubts:
        """The doubts of a report; `before` is the number of rows and of places of each kind before this input.

        Records that can't be read change the shares of tables; beside events with times they are a record less.
        """
        doubts = cls()
        for one in issues:
            rows, places = (before or {}).get(one.kind, (0, 0))
            is_doubt = (one.kind in _DOUBTED or one.severity == Severity.CUT) and (tables or one.kind != _BAD)
            if is_doubt and (one.rows, len(one.places)) != (rows, places):
                doubts.issues[one.kind] = one.rows - rows
                doubts.warnings += [text for _, text in one.places[places:]] if one.kind == _WARNED else []
        return doubts

    @property
    def cut(self) -> list[int]:
        """The records that each kind of a cut cost; also none."""
        return [rows for kind, rows in self.issues.items() if kind in KINDS and KINDS[kind].severity == Severity.CUT]


#: The fact of a source with a `MovedClock` for each device whose times were moved, so that it outlasts conversion.
MOVED_CLOCKS = "moved_clocks"


@dataclass
class MovedClock:
    """By how much the times of a device were moved (`--repair-clock`), in ns, since work was `early`, `of` so much.

    The least and the most of any row, the drift, and how much more it could be until work ends after a call that waited
    for it; None without drift, and where nothing waits.
    """

    device: int | None
    early: int
    of: int
    offset_ns: int
    most_ns: int
    drift_ppm: float | None = None
    slack_ns: int | None = None


@dataclass
class Ledger:
    """The account of one stage of the chain. The reader counts records, the others rows."""

    stage: str
    taken: int = 0
    given: int = 0
    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)

    def balanced(self) -> bool:
        """Returns whether everything that came in went out or was reported."""
        return self.taken + self.added.total() == self.given + self.removed.total()

    def add(self, part: Ledger) -> None:
        """Adds the account of the same stage of a part."""
        self.taken += part.taken
        self.given += part.given
        self.added.update(part.added)
        self.removed.update(part.removed)


class Report:
    """The account of a conversion. Readers, stages and writers fill it; users read it.

    `strict` raises StrictFailure at the first issue from REPAIR upwards.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.inputs: list[dict[str, str]] = []
        self.alignment: list[dict[str, Any]] = []  # for each aligned source: rule, offset, residual
        self.clocks: list[dict[str, Any]] = []  # for each device: whether it was moved, by how much
        self.output: str | None = None
        self.path: str | None = None
        self.reader = Ledger("reader")
        self.bytes = ByteAccount()
        self.rows: Counter[str] = Counter()
        self.answers: dict[str, list[Any]] = {}  # path of an input -> what the formats that were asked said of it
        self.timed: set[str] = set()  # labels of the inputs that have events
        self.issues: dict[str, Issue] = {}
        self.unmatched: InputError | None = None  # why nothing passed the filter, or got metrics
        self.parts: list[dict[str, Any]] = []
        self.events_drawn = self.launches_joined = 0  # of a timeline: its events, launches that an arrow joins to work
        self.at: Callable[[], str] | None = None  # where the reader is, in words, for errors that don't say it
        self._stages: list[Ledger] = []

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"at": None}  # where another process reads says nothing here

    def record(self, count: int = 1) -> None:
        """Counts records of the source, before they are parsed."""
        self.reader.taken += count

    def used(self, count: int = 1, *, outcome: str | None = None) -> None:
        """Counts records that gave rows, or with `outcome` became something else: structure, catalog, folded."""
        if outcome is None:
            self.reader.given += count
        else:
            self.reader.removed[outcome] += count

    def issue(self, kind: str, where: str, detail: str = "", rows: int = 1, *, stage: Ledger | None = None) -> None:
        """Reports `rows` records (rows, for a later stage) of one kind of issue.

        From SKIP upwards they are entered as removed in the account of `stage`, by default the reader's.
        Raises KeyError for an undeclared kind, and StrictFailure if the conversion is strict.
        """
        severity, sentence = KINDS[kind] if not kind.startswith("x_") else Kind(Severity.SKIP, detail)
        if severity >= Severity.SKIP:
            (stage or self.reader).removed[kind] += rows
        issue = self.issues.setdefault(kind, Issue(kind, severity, sentence))
        issue.rows += rows
        if len(issue.places) < EXAMPLES:
            issue.places.append((where, detail))
        if self.strict and severity >= Severity.REPAIR:
            self._refuse(sentence, where, detail)

    def merge(self, part: Report) -> None:
        """Adds the reader's account and the issues of a range that another process read. Raises as `issue` does."""
        self.bytes.merge(part.bytes)
        self.reader.add(part.reader)
        for kind, other in part.issues.items():
            issue = self.issues.setdefault(kind, Issue(kind, other.severity, other.sentence))
            issue.rows += other.rows
            issue.places += other.places[: EXAMPLES - len(issue.places)]
            if self.strict and other.severity >= Severity.REPAIR:
                self._refuse(other.sentence, *next(iter(other.places), ("", "")))

    def _refuse(self, sentence: str, where: str, detail: str) -> NoReturn:
        raise StrictFailure(
            f"{sentence} ({detail})" if detail else sentence,
            path=self.path,
            where=where,
            remedy="without --strict the rest is converted and this is reported",
        )

    def require_match(self) -> None:
        """Raises InputError if there were rows and nothing passed the filter, or no launch with metrics matched."""
        if self.unmatched is not None:
            raise self.unmatched

    def stage(self, name: str) -> Ledger:
        """Opens the account of a stage at its place in the chain; a writer's comes last."""
        ledger = Ledger(name)
        self._stages.append(ledger)
        self._stages.sort(key=lambda opened: CHAIN.index(opened.stage) if opened.stage in CHAIN else len(CHAIN))
        return ledger

    def add_part(self, part: Report) -> None:
        """Adds the stages and issues of one of several outputs that took their rows from here."""
        ledgers = {ledger.stage: ledger for ledger in self._stages}
        for ledger in part.stages:
            (ledgers.get(ledger.stage) or self.stage(ledger.stage)).add(ledger)
        self.events_drawn += part.events_drawn
        self.launches_joined += part.launches_joined
        self.merge(part)

    @property
    def stages(self) -> list[Ledger]:
        """The accounts after the reader's, in the order of the chain."""
        return list(self._stages)

    def balanced(self) -> bool:
        """Returns whether every stage adds up and passes on as many rows as the next one takes."""
        rows = self.rows_read
        for ledger in self._stages:
            if ledger.taken != rows or not ledger.balanced():
                return False
            rows = ledger.given
        return self.reader.balanced() and self.bytes.balanced()

    def require_balance(self) -> None:
        """Raises InternalError if the account doesn't add up, which is a bug in ktrace."""
        if self.balanced():
            return
        rows = f"rows doesn't add up: reader {_sums(self.reader)}, {counted(self.rows_read, 'row')}"
        rows += "".join(f"; {one.stage} {_sums(one)}" for one in self._stages)
        raise InternalError(
            f"the account of the {rows if self.bytes.balanced() else self.bytes.fault()}",
            path=self.inputs[0]["path"] if len(self.inputs) == 1 else None,
            remedy="report this bug in ktrace with the output of --debug, and the input if you can share it",
        )

    @property
    def read(self) -> int:
        """Records of the source without structure (headings, rules, blank lines)."""
        return self.reader.taken - self.reader.removed["structure"]

    @property
    def written(self) -> int:
        """Rows in the output, or rows read if there is no writer. Rows of the catalog aren't counted."""
        return self._stages[-1].given if self._stages else self.rows_read

    @property
    def rows_read(self) -> int:
        """Rows from the reader, without those of the catalog."""
        return sum(self.rows[record] for record in ("events", "summaries", "links"))

    def total(self, severity: Severity) -> int:
        """Returns the number of rows with issues of one severity."""
        return sum(issue.rows for issue in self.issues.values() if issue.severity == severity)

    @property
    def is_cut(self) -> bool:
        """Whether an input ends too early, also where that cost no record: between two of them."""
        return any(issue.severity == Severity.CUT for issue in self.issues.values())

    def __repr__(self) -> str:
        output = f" {self.output}" if self.output else ""
        return f"<Report{output}: {self.line()}>"

    def line(self) -> str:
        """Returns the line printed at the end of a conversion or a reading."""
        done = "wrote" if self._stages else "gave"
        skipped = self.total(Severity.SKIP)
        cut = ", input cut off" if self.is_cut else ""
        explained = sum(ledger.added.total() for ledger in self._stages if ledger.stage == "explain")
        added = f"added {counted(explained, 'row')} by --explain, " if explained else ""
        return (
            f"read {counted(self.read, 'record')}, {added}{done} {counted(self.written, 'row')}, "
            f"repaired {self.total(Severity.REPAIR):,}, skipped {skipped:,}{cut}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the whole report as plain values, for `--report`."""
        return {
            "inputs": self.inputs,
            "output": self.output,
            "read": self.read,
            "written": self.written,
            "repaired": self.total(Severity.REPAIR),
            "skipped": self.total(Severity.SKIP),
            "cut": self.is_cut,
            "balanced": self.balanced(),
            **({"bytes": self.bytes.to_dict()} if self.bytes.size else {}),
            **({"parts": self.parts} if self.parts else {}),
            "rows": dict(self.rows),
            "chain": [
                {
                    "stage": ledger.stage,
                    "in": ledger.taken,
                    "added": dict(ledger.added),
                    "out": ledger.given,
                    "removed": dict(ledger.removed),
                }
                for ledger in (self.reader, *self._stages)
            ],
            **({"alignment": self.alignment} if self.alignment else {}),
            **({"clocks": self.clocks} if self.clocks else {}),
            "issues": [
                {
                    "kind": issue.kind,
                    "severity": issue.severity.name.lower(),
                    "sentence": issue.sentence,
                    "rows": issue.rows,
                    "places": [{"where": where, "detail": detail} for where, detail in issue.places],
                }
                for issue in sorted(self.issues.values(), key=lambda issue: -issue.severity)
            ],
        }


def counted(number: int, noun: str) -> str:
    """Returns a number with a noun of its number: "1 row", "1,200 rows", "2 launches"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("ch") else "s")


def _sums(ledger: Ledger) -> str:
    """The sums of an account, for a message: what came in, and what became of it."""
    return f"{ledger.taken + ledger.added.total():,} = {ledger.given:,} + {ledger.removed.total():,}"
