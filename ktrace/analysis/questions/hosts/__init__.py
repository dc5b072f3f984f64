"""What the host's operators, modules, ranges and calls cost on devices, source by source: collects, nests and adds up.

spans ──► here ──► forest ──► answer

forest    the span around each span and around each launching call, and the call tree
passes    forward and backward pass, recomputation, optimizer; the forward operators of backward ones
answer    the answers and their tables

Each different name is looked at once:

aten::mm, op_id = 314286, seq = 12         group aten::mm, an operator
nn.Module: LlamaMLP_0                      module LlamaMLP, of which this is an instance
model.layers.9.self_attn                   module model.layers.*.self_attn; model.norm next to it is one, too
torch/nn/modules/linear.py(125): forward   a frame of Python
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.questions.hosts.answer import INNERMOST, SHAPE, TITLES, CallCosts, HostCost, HostCosts
from ktrace.analysis.questions.hosts.forest import Forest, Outer, Paths, SpanColumns
from ktrace.analysis.questions.hosts.passes import PASS, Ends, ForwardArrows, ForwardModules, ForwardRanges, PassCosts
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.launching import graph_calls
from ktrace.analysis.work.question import Answer, Labels
from ktrace.analysis.work.replayed import Replayed, without_capture
from ktrace.analysis.work.spans import KINDS, LINE, MARKER, MODULE, SIZES, grouped, line_of, shaped
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.store import Spill
from ktrace.store.joins import positions
from ktrace.tables import duration

#: A path of attributes; that of a module if a part of it is a number.
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")

#: Frames of Python: of Kineto (file.py(12): f, <built-in ...>) and of JAX ($file.py:12 f).
_FRAME = re.compile(
    r"nn\.Module: |<built-in |<frozen |<string>|\$\S+:\d+ |[^(]*\.(?:py|pyx|pyi)\(\d+\): |\S+\(\d+\): [\w<>]+$"
)

#: The window of a recording, which Kineto writes as a slice of no thread.
_RECORDING = re.compile(r"PyTorch Profiler \(\d+\)$")

#: The number of an instance, and numbers in paths.
_INSTANCE = re.compile(r"_\d+$")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

#: Operators of PyTorch by their namespaces, and what autograd calls.
_OPERATOR = re.compile(r"(?:aten|prim|c10d|autograd::engine)::|[A-Za-z_][\w.]*(?:::\w+)+$|(?=\w+$)\w+Backward")

_ENGINE = "autograd::engine::evaluate_function"

#: Arguments that only PyTorch's operators have.
_OF_OPERATORS = ("seq", "op_id", "sizes")


class HostNames(NamedTuple):
    """The meaning of each name by its number: the number of its group, and what it is.

    `words` are the groups. `frame` are frames of Python, modules as Kineto writes them, and the recording itself:
    they aren't ranges. `arguments` are names that have a list of arguments, which their group leaves out. `engine` is
    what PyTorch's autograd does around a backward operator.
    """

    words: list[str]
    group: Int64
    module: Bools
    operator: Bools
    frame: Bools
    arguments: Bools
    engine: Bools
    line: Bools

    @classmethod
    def for_questions(cls, names: Sequence[str], by: str = "") -> HostNames:
        """The meanings of different names; by "shape" operators of other shapes, by "line" lines are other groups."""
        numbers: dict[str, int] = {}
        group = np.empty(len(names), np.int64)
        module, operator, frame, arguments, engine, line = (np.zeros(len(names), np.bool_) for _ in range(6))
        paths = (name.split(".") for name in names if "." in name and _PATH.fullmatch(name))
        roots = {parts[0] for parts in paths if any(part.isdecimal() for part in parts)}
        for place, name in enumerate(names):
            word, key = grouped(name)
            arguments[place] = bool(key) and key not in (MODULE, SIZES, LINE)
            module[place] = key in (MODULE, MARKER) or _is_path(word, roots)
            if module[place]:
                word = _INSTANCE.sub("", word) if key == MODULE else _NUMBER.sub("*", word)
            text = shaped(name) if by == SHAPE and not module[place] else word
            if by == LINE and (of_code := line_of(name)):
                line[place], text = True, of_code
            group[place] = numbers.setdefault(text, len(numbers))
            operator[place] = bool(_OPERATOR.match(word)) and (key in _OF_OPERATORS or word.startswith("aten::"))
            engine[place] = name.startswith(_ENGINE)
            frame[place] = bool(_FRAME.match(name) or _RECORDING.match(name))
        return cls(list(numbers), group, module, operator, frame, arguments, engine, line)


def _is_path(name: str, roots: set[str]) -> bool:
    return bool(roots) and name.split(".", 1)[0] in roots and bool(_PATH.fullmatch(name))


#: The columns of the model that the answers need.
COLUMNS = frozenset(
    (*TRACK_COLUMNS, "id", "kind", "name", "ts", "dur", "correlation", "link", "key", "role", "event", "args")
)

#: What spans can be, from the outside in; the number of a level is part of the code of a name.
LEVELS = ("range", "module", "line", "op")
_OTHER = len(LEVELS)  # kernels, and work outside
_CODES = len(LEVELS) + 1

_OP, _RANGE, _API = (KINDS.index(kind) for kind in ("op", "range", "api"))


def questions(names: tuple[str, ...], spill: Spill) -> HostQuestion:
    """Answers "op", "shape", "module", "range", "line", "pass" and "api"."""
    levels: dict[str, tuple[str, ...]] = {name: (name,) for name in names if name in LEVELS}
    levels |= {SHAPE: ("op",)} if SHAPE in names else {}
    return HostQuestion(levels, spill, calls="api" in names, passes=PASS in names)


def tree(names: Sequence[str], spill: Spill) -> HostQuestion:
    """Answers "tree": the call tree of these levels, with the kernels in it if "kernel" is among them."""
    return HostQuestion({"tree": tuple(names)}, spill)


class HostQuestion:
    """What each of some levels costs, or several levels as a tree."""

    spans = True

    def __init__(
        self, levels: dict[str, tuple[str, ...]], spill: Spill, *, calls: bool = False, passes: bool = False
    ) -> None:
        self._wanted, self._spill, self._calls, self._passes = levels, spill, calls, passes
        self._arrows = ForwardArrows(spill, f"backward of {' '.join(levels)}")
        self._replayed = Replayed(spill, f"replayed of {' '.join(levels)}", shapes=SHAPE in levels)

    def see(self, batch: Batch) -> None:
        """Collects the arrows from forward to backward operators, and the operators of replayed kernels."""
        self._arrows.see(batch)
        self._replayed.see(batch)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers for which there are spans."""
        gathered = work.gathered
        words = [*gathered.spans.names, *self._replayed.names]
        names = HostNames.for_questions(words)
        has_device = len(gathered.work) > 0
        sums = {
            by: _HostSum(by, levels, HostNames.for_questions(words, by) if by in (SHAPE, LINE) else names, work, labels)
            for by, levels in self._wanted.items()
        }
        calls = CallCosts(self._spill, gathered.spans.names) if self._calls else None
        passes = PassCosts(gathered.spans.names) if self._passes and has_device else None
        for source in dict.fromkeys([*gathered.spans.sources, *gathered.work.sources]):
            events = work.for_source(source) if has_device else None
            spans = gathered.spans.for_source(source)
            if calls:
                calls.add(source, spans, events)
            if sums or passes:
                host = _Host(source, spans, names, work, self._arrows)
                if passes and events is not None:
                    passes.add(host.spans, spans["kind"] != _API, host.nests, host.ends, events)
                for one in sums.values():
                    one.add(host, events, self._replayed)
        answers: dict[str, Answer] = {by: answer for by, one in sums.items() if (answer := one.answer(has_device))}
        if calls and (table := calls.answer(has_device)):
            answers["api"] = table
        if passes and (of_passes := passes.answer()):
            answers[PASS] = of_passes
        return answers


class _Host:
    """The spans of one source."""

    def __init__(
        self, source: str, columns: dict[str, Any], names: HostNames, work: Work, arrows: ForwardArrows
    ) -> None:
        self._source, self._columns, self._arrows = source, columns, arrows
        gathered = work.gathered
        self._threads, self.nests = gathered.threads, work.nesting_threads
        kind, self.name = columns["kind"], columns["name"]
        self.dur: Int64 = np.maximum(columns["dur"], 0)
        last = gathered.span[1] if gathered.span else 0
        ts = columns["ts"]
        end = np.where(columns["dur"] < 0, np.maximum(last, ts), ts + self.dur)
        self.spans = SpanColumns(columns["thread"], ts, end, self.name)
        operator = kind == _OP
        self.has_operators = bool(operator.any())
        ranges = (kind == _RANGE) & ~names.frame[self.name]
        if not self.has_operators:
            operator = ranges & names.operator[self.name]
        self.levels: dict[str, Bools] = {
            "range": ranges,
            "module": (kind != _API) & names.module[self.name],
            "op": operator,
        }

    def mask(self, levels: Sequence[str], names: HostNames) -> Bools:
        """Which spans are of some levels; those with a line of code are by the meanings of names."""
        lines = names.line[self.name]
        of_levels: Bools = np.logical_or.reduce([lines if level == LINE else self.levels[level] for level in levels])
        return of_levels

    @cached_property
    def ends(self) -> Ends:
        """The arrows from forward to backward operators."""
        return self._arrows.for_source(self._source, self._threads, self._columns)

    @cached_property
    def operators(self) -> SpanColumns:
        """The operators."""
        return self.spans.where(self.levels["op"])


class _HostSum:
    """The costs of some levels, added up over sources."""

    def __init__(self, by: str, levels: Sequence[str], names: HostNames, work: Work, labels: Labels) -> None:
        self._by, self._names = by, names
        self._levels = tuple(level for level in LEVELS if level in levels)
        self._paths = Paths()
        self._used = np.zeros(len(names.group), np.bool_)
        self._kernel, self._kernels = work.by_shape(labels.key("kernel"))
        self._shows_kernels = "kernel" in levels
        self._any = self._from_ranges = False
        self._all = work
        self._unlaunched, self._work, self._time = 0, 0, 0
        self._replays, self._replayed_time = 0, 0  # of graphs whose captures aren't known
        self._device = 0
        self._codes: Int64 | None = None

    def add(self, host: _Host, events: Events | None, replayed: Replayed) -> None:
        """Adds the spans of a source, and its device work."""
        chosen = host.mask(self._levels, self._names)
        code = np.zeros(int(np.count_nonzero(chosen)), np.int64)
        for number, level in enumerate(LEVELS):
            if level in self._levels:
                code[host.mask((level,), self._names)[chosen]] = number
        code += self._names.group[host.name[chosen]] * _CODES
        self._used[host.name[chosen]] = True
        spans = host.spans.where(chosen)
        self._any |= bool(len(spans))
        self._from_ranges |= "op" in self._levels and not host.has_operators and bool(host.levels["op"].any())
        call, used = _launching(events)
        calls = events.calls if events is not None else None
        thread = calls["thread"][used] if calls else spans.thread[:0]
        at = calls["ts"][used] if calls else spans.begin[:0]
        forest = Forest.from_spans(spans, thread, at, host.nests, self._outer(host, spans, chosen))
        path = self._paths.of_spans(forest, code)
        if len(spans):
            self._paths.add_host(path, host.dur[chosen], _self_time(forest, spans, host.dur[chosen]))
        if events is not None and len(events):
            self._add_work(events, call, used, np.append(path, -1)[forest.owner], replayed)

    def _outer(self, host: _Host, spans: SpanColumns, chosen: Bools) -> list[Outer]:
        """The forward ranges and modules around spans on threads of the backward pass."""
        around: list[Outer] = []
        if self._levels == ("op",) or not len(host.ends) or not len(spans):
            return around
        if "range" in self._levels:
            around.append(ForwardRanges(host.ends, spans, host.levels["range"][chosen]))
        if "module" in self._levels:
            modules, engine = host.levels["module"][chosen], self._names.engine[host.operators.name]
            around.append(ForwardModules(host.ends, spans, modules, host.operators, engine))
        return around

    def _add_work(self, events: Events, call: Int64, used: Int64, path: Int64, replayed: Replayed) -> None:
        """Adds device work; `path` is that of each used call."""
        (outside,) = self._paths.number(np.array([-1]), np.array([_OTHER]))
        of_call = np.full(len(events.calls["ts"]) + 1, outside, np.int64)  # the last one is for work without a call
        of_call[used] = np.where(path >= 0, path, outside)
        path_of_work = self._captured(of_call[call], events, replayed, outside)
        lacking = graph_calls(self._all, events)[call] & (path_of_work == of_call[call])
        self._replays += int(np.count_nonzero(lacking))
        self._replayed_time += int(events.dur[lacking].sum())
        if self._shows_kernels:
            path_of_work = self._paths.number(
                path_of_work, (self._kernel[events.shape].astype(np.int64) + 1) * _CODES + _OTHER
            )
        self._paths.add_work(path_of_work, events.dur)
        self._device += int(events.dur.sum())
        self._work += len(events)
        lost = call < 0
        self._unlaunched += int(np.count_nonzero(lost))
        self._time += int(events.dur[lost].sum())

    def _captured(self, path: Int64, events: Events, replayed: Replayed, outside: int) -> Int64:
        """The path of each piece of work; a replayed kernel has that of its graph, then what its capture was in."""
        ids, chain = replayed.for_source(events.source)
        place = positions(events.ids, ids)
        rows = np.flatnonzero(place >= 0)
        if not len(rows):
            return path
        path, chain = path.copy(), chain[place[rows]]
        first, code = self._codes_of(replayed)
        for span in replayed.chains:
            name = span[chain]
            replays, name = rows[code[name] >= 0], name[code[name] >= 0]
            self._used[first + name] = True
            self._any |= bool(len(replays))
            path[replays] = self._paths.number(np.where(path[replays] == outside, -1, path[replays]), code[name])
        return path

    def _codes_of(self, replayed: Replayed) -> tuple[int, Int64]:
        """The number of the first name of what was captured, and the codes of these names; the last one is of none."""
        first = len(self._names.group) - len(replayed.names)
        if self._codes is None:
            level = self._levels_of(replayed.kinds, first)
            self._codes = np.append(np.where(level >= 0, self._names.group[first:] * _CODES + level, -1), -1)
        return first, self._codes

    def _levels_of(self, kinds: list[str], first: int) -> Int64:
        """The number of the innermost wanted level of each name from a number on, -1 for none."""
        kind = np.array(kinds)
        is_range = kind == "range"
        on = {
            "range": is_range,
            "module": (kind == "module") | (is_range & self._names.module[first:]),
            "op": (kind == "op") | (is_range & self._names.operator[first:]),
            LINE: self._names.line[first:],
        }
        level = np.full(len(kinds), -1, np.int64)
        for name in self._levels:
            level[on[name]] = LEVELS.index(name)
        return level

    def answer(self, has_device: bool) -> HostCosts | None:
        """The costs, None if there are no such spans."""
        if not self._any:
            return None
        rows = self._tree(has_device) if self._by == "tree" else self._list(has_device)
        return HostCosts(self._by, rows, self._device if has_device else None, self._notes())

    def _list(self, has_device: bool) -> list[HostCost]:
        """The costs by name, the heaviest first."""
        codes, figures = self._paths.by_name()
        columns = zip(codes.tolist(), *(column.tolist() for column in figures.columns()), strict=True)
        rows = [self._cost(code, row) for code, *row in columns]
        rows = [row for row in rows if row.level or row.launched]
        by_own = self._by in INNERMOST
        time = ("own", "total") if by_own else ("total", "own")
        time = time if has_device else ("host_own", "host") if by_own else ("host", "host_own")
        return sorted(rows, key=lambda row: (*(-(getattr(row, name) or 0) for name in time), -(row.host or 0)))

    def _tree(self, has_device: bool) -> list[HostCost]:
        """The paths, each followed by those in it, the heaviest first."""
        figures = list(zip(*(column.tolist() for column in self._paths.figures().columns()), strict=True))
        parents, codes = self._paths.parent.tolist(), self._paths.code.tolist()
        inside: dict[int, list[int]] = {}
        for path, parent in enumerate(parents):
            inside.setdefault(parent, []).append(path)
        costs = [self._cost(code, row) for code, row in zip(codes, figures, strict=True)]
        weights = [(row.total, row.host or 0) if has_device else (row.host or 0, 0) for row in costs]
        rows: list[HostCost] = []
        open_: list[tuple[int, tuple[str, ...]]] = [(path, ()) for path in inside.get(-1, [])]
        open_.sort(key=lambda one: weights[one[0]])
        while open_:
            path, outer = open_.pop()
            cost = costs[path]
            names = (*outer, cost.name)
            if cost.level or cost.launched:
                rows.append(replace(cost, path=names))
            below = sorted(inside.get(path, []), key=lambda one: weights[one])
            open_ += [(one, names) for one in below]
        return rows

    def _cost(self, code: int, figures: Sequence[int]) -> HostCost:
        """The row of a name or path."""
        number, level = divmod(code, _CODES)
        if level < _OTHER:
            return HostCost(self._names.words[number], LEVELS[level], *figures, instances=self._instances.get(number))
        name = "no " + " or ".join(TITLES[level] for level in self._levels)
        name, kind = (self._kernels[number - 1], "kernel") if number else (name, "")
        return HostCost(name, kind, None, None, None, *figures[3:])

    @cached_property
    def _instances(self) -> dict[int, int]:
        """How many modules each group of them has."""
        modules = self._names.group[self._used & self._names.module]
        return dict(zip(*(column.tolist() for column in np.unique(modules, return_counts=True)), strict=True))

    def _notes(self) -> list[str]:
        notes = []
        if self._from_ranges:
            notes.append("Operators are ranges here, as PyTorch's emit_nvtx writes them.")
        grouped = int(np.count_nonzero(self._names.arguments & self._used))
        if grouped and self._by != SHAPE:
            notes.append(f"{grouped:,} names with arguments, as in 'aten::mm, seq = 12', count without them.")
        if self._replays and {"op", "module", LINE} & {*self._levels}:
            notes.append(without_capture(self._replays, self._replayed_time))
        if self._unlaunched:
            many = f"{self._unlaunched:,} of {self._work:,} device activities ({duration(self._time)})"
            notes.append(f"The call that launched {many} isn't known.")
        return notes


def _launching(events: Events | None) -> tuple[Int64, Int64]:
    """The call of each piece of work, and the calls that launched any."""
    if events is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    call = events.call
    launches = np.zeros(len(events.calls["ts"]) + 1, np.bool_)
    launches[call] = True
    return call, np.flatnonzero(launches[:-1])


def _self_time(forest: Forest, spans: SpanColumns, dur: Int64) -> Int64:
    """The duration of each span without those in it on its thread."""
    inner = np.flatnonzero(forest.parent >= 0)
    inner = inner[spans.thread[inner] == spans.thread[forest.parent[inner]]]
    inside = np.bincount(forest.parent[inner], weights=dur[inner], minlength=len(dur)).astype(np.int64)
    own_time: Int64 = np.maximum(dur - inside, 0)
    return own_time
