"""Detects the format of an input: every format probes a sample of it, and gives a score and a reason."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.errors import (
    AmbiguousFormat,
    ClosedFormat,
    DamagedInput,
    InputError,
    StrictFailure,
    UnknownFormat,
    UsageError,
    error_text,
)
from ktrace.input.format import (
    Detected,
    Format,
    Score,
    all_formats,
    builtin_formats,
    plugin_failures,
    plugin_formats,
)
from ktrace.input.mapping import FORMAT as MAPPED
from ktrace.input.mapping import NO_UNIT
from ktrace.input.source import Sample, Source, printable
from ktrace.input.sqlite_file import DATABASES
from ktrace.input.unwrapping import Bare, bare_samples, behind_objects, common_layers, ended, fenced
from ktrace.input.wrapping import AROUND_LINES, OUTER, Wrapping, has_layer, is_text

if TYPE_CHECKING:
    from ktrace.report import Report

#: A smaller input is converted in less than half a second; loading the plug-ins that there are would add 40 ms to that.
SMALL = 32 << 20

#: Words in these first characters, or in the tail, decide which formats are asked first: a search of a whole sample
#: for the words of all formats takes 50 ms.
EARLY = 1 << 16

#: Characters of a text whose lines are looked at for a message.
_SHOWN = 8192

#: How often a format is asked from words on that it knows: those that are in each line are no sign of it.
_MOST_TIMES = 400

#: Lines with equally many separators that are called a table.
_ALIKE = 6

#: The format that reads tables without a mapping.
ANY_TABLE = "table"

#: Documents without anything in them.
_EMPTY = {"[]": "list", "{}": "object"}
_KEY = re.compile(r'\s*(?:,\s*)?"((?:[^"\\]|\\.){0,1000})"\s*:\s*')

#: What the headings of a table don't have: keys with values, figures with decimals.
_ROW = re.compile(r"\w ?= ?[\w.]|\d\.\d")

#: Lines of a text, and characters of one, that are searched for times; such a time. Columns of a table, at least.
_EXAMINED, _LONGEST, _AROUND, _FEWEST_COLUMNS = 2000, 2000, 60, 3
_TIME = re.compile(
    r"(?<![\w.])\d[\d.,]{0,40}\s{0,4}(?:[nuµμm]?s|[NUM]S|[mun]?secs?|(?:milli|micro|nano)?seconds?)(?![\w/])"
    r"|_(?:[num]?s|[mun]?secs?)[\"']?\s?[=:]\s?\d"
)

_EXPECTED = "one of the formats that `ktrace formats` lists"

#: Start of the pointer that Git LFS stores in place of a file.
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def detect_sample(sample: Sample, formats: tuple[Format, ...]) -> list[Detected]:
    """Returns the answers of the probes, best first; near misses and probes that raised (Score.NEAR) come last."""
    matches = [match for fmt in formats if fmt.reads and (match := _probed(fmt, sample))]
    return _best_first(matches)


def _probed(fmt: Format, sample: Sample) -> Detected | None:
    """Returns the answer of a format's probe, or what it raised."""
    try:
        match = fmt.recognised(sample)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        why = f"its probe, of {fmt.origin}, raised {error_text(error)}"
        return Detected(fmt.name, Score.NEAR, why, failed=True)
    return Detected(fmt.name, match.score, match.reason, match.remedy) if match else None


def _best_first(matches: list[Detected]) -> list[Detected]:
    return sorted(matches, key=lambda detected: -detected.score)


def detect_all(sample: Sample) -> list[Detected]:
    """Returns the answers of all formats, those of other packages included, best first."""
    return [*detect_sample(sample, all_formats()), *plugin_failures()]


def detect(path: str | Path) -> list[Detected]:
    """Lists the formats that an input may have, best first.

    Parameters
    ----------
    path : path
        The input.

    Returns
    -------
    list of Detected
        Each with a score and a reason. Near misses come last, with Score.NEAR, and say what is missing.

    Raises
    ------
    InputError
        The input can't be opened.

    Examples
    --------
    >>> import ktrace
    >>> [found.format for found in ktrace.detect("samples/doppler/prefill-and-three-decodes.log")][0]
    'doppler'
    """
    return detect_all(Source(str(path)).sample())


def choose(source: Source, report: Report | None = None) -> Format:
    """Returns the format of the source.

    Other packages' formats are asked where none of ours is sure; those of a small file, which is to be read at once,
    only where none of ours knows its words. `--from` names them all. Formats that couldn't be asked are left out and
    noted in the report, as `note_failures` does.
    The report keeps the answers of those that were asked.
    Raises UnknownFormat, AmbiguousFormat, ClosedFormat or InputError (empty input, unclaimed folder).
    """
    sample = source.sample()
    source.wrapping, matches = _within(sample, _asked)
    enough = Score.DIALECT if _is_small(source) else Score.MAGIC
    if not matches or matches[0].score < enough:
        matches = _best_first([*matches, *detect_sample(sample, plugin_formats()), *plugin_failures()])
    if _best(matches) < Score.DIALECT:
        least = Score.SUFFIX if _best(matches) == Score.NEAR else Score.DIALECT
        source.wrapping, matches = unwrapped(sample, builtin_formats(), least) or (source.wrapping, matches)
    source.wrapping = _with_end(sample, source.wrapping, matches)
    chosen = decide(source, sample, matches)
    if report is not None:
        report.answers[source.path] = matches
    note_failures(matches, source, report)
    return chosen


def wrapping_for(source: Source, fmt: Format) -> Wrapping | None:
    """Returns what is around a text whose format is known, None if there is nothing or the format isn't sure."""
    if source.is_folder or not fmt.probe or fmt.package:
        return None
    sample = source.sample()
    if not is_text(sample.head):
        return None
    wrapping, matches = _within(sample, lambda bare: detect_sample(bare, (fmt,)))
    if _best(matches) < min(Score.DIALECT, fmt.max_score):
        wrapping, matches = unwrapped(sample, (fmt,), Score.DIALECT) or (wrapping, matches)
    return _with_end(sample, wrapping, matches)


#: Asks formats of a sample.
Ask = Callable[[Sample], list[Detected]]


def _within(sample: Sample, ask: Ask) -> tuple[Wrapping | None, list[Detected]]:
    """What is around a text of which formats are sure, though it may be read wrongly, and their answers without it."""
    matches = ask(sample)
    if not is_text(sample.head):
        return None, matches
    for remove in (_in_fences, _without_objects, _without_layers):
        if unwrapped_matches := remove(sample, matches, ask):
            return unwrapped_matches
    return None, matches


def unwrapped(sample: Sample, formats: tuple[Format, ...], least: Score) -> tuple[Wrapping, list[Detected]] | None:
    """Returns what is around a text, and the answers for the text without it; None if no format has the least score."""
    best: tuple[Wrapping, list[Detected]] | None = None
    times: Counter[str] = Counter()
    for bare in bare_samples(sample):
        candidates = tuple(fmt for fmt in formats if fmt.reads and bare.may_be(fmt) and times[fmt.name] < _MOST_TIMES)
        times.update(fmt.name for fmt in candidates if bare.window)
        if best or least >= Score.DIALECT:  # formats that are never so sure change nothing any more
            sure = tuple(fmt for fmt in candidates if fmt.max_score >= Score.DIALECT and _knows_start(fmt, bare))
            if not sure or _best(detect_sample(bare.sample, sure)) < Score.DIALECT:
                continue
        candidates = tuple(fmt for fmt in candidates if _knows_start(fmt, bare))
        matches = detect_sample(bare.sample, candidates) if candidates else []
        if not matches or matches[0].score < least:
            continue
        best = best or (bare.wrapping, matches)
        if matches[0].score >= Score.DIALECT:
            return bare.wrapping, matches
    return best


def _knows_start(fmt: Format, bare: Bare) -> bool:
    """Whether a format is to be asked about all of a text: it knows the start of one that begins at a later line."""
    if not bare.asks_at_start(fmt) or bare.start is None:
        return True
    match = _probed(fmt, bare.start)
    return match is not None and match.score > Score.NEAR


def _asked(sample: Sample) -> list[Detected]:
    """The answers of our formats, of the likely ones first."""
    matches: list[Detected] = []
    for formats in _in_turn(sample):
        if _best(matches) < Score.DIALECT:
            matches = _best_first([*matches, *detect_sample(sample, formats)])
    return matches


def _best(matches: list[Detected]) -> Score:
    return matches[0].score if matches else Score.NEAR


def _with_end(sample: Sample, wrapping: Wrapping | None, matches: list[Detected]) -> Wrapping | None:
    """The wrapping with what ends the text within it."""
    if not is_text(sample.head) or (not sample.is_json if wrapping is None else wrapping.rest):
        return wrapping
    is_document = any(fmt.document for fmt in builtin_formats() if matches and fmt.name == matches[0].format)
    return ended(sample, wrapping or Wrapping(), is_document) or wrapping


def _in_fences(sample: Sample, matches: list[Detected], ask: Ask) -> tuple[Wrapping, list[Detected]] | None:
    """What is around the only block in fences, and the answers for that; None if they aren't as sure as for all."""
    parts = fenced(sample)
    if parts is None or _best(ask(parts[1])) > Score.NEAR:
        return None
    inner = ask(parts[0].sample)
    return (parts[0].wrapping, inner) if _best(inner) >= max(_best(matches), Score.SUFFIX) else None


def _without_objects(sample: Sample, matches: list[Detected], ask: Ask) -> tuple[Wrapping, list[Detected]] | None:
    """What lines of JSON before a text hide, and the answers without them; None if there are none of another program.

    A format that is sure of such a line alone has it as its own.
    """
    bare = behind_objects(sample)
    if bare is None:
        return None
    first = replace(sample, head=sample.head[: bare.wrapping.size], tail=b"", whole=True)
    if _best(matches) > Score.NEAR and detect_sample(first, (by_name(matches[0].format),)):
        return None
    inner = ask(bare.sample)
    return (bare.wrapping, inner) if _best(inner) >= max(_best(matches), Score.SUFFIX) else None


def _without_layers(sample: Sample, matches: list[Detected], ask: Ask) -> tuple[Wrapping, list[Detected]] | None:
    """The layers that nearly all lines have, and the answers without them; None if these aren't as sure.

    A format that reads what loggers put before its lines keeps that.
    """
    if _best(matches) >= Score.MAGIC:
        return None
    best: tuple[Wrapping, list[Detected]] | None = None
    states = list(common_layers(sample))
    if sample.is_json and states and states[0].wrapping.layers[0] != AROUND_LINES:
        return None
    for number, bare in enumerate(states):
        logged = by_name(matches[0].format).logged if _best(matches) == Score.DIALECT else ""
        if logged and not _may_go(states[number:], logged):
            continue
        inner = ask(bare.sample)
        if _best(inner) >= max(_best(matches), Score.SUFFIX):
            best, matches = (bare.wrapping, inner), inner
    return best


def _may_go(states: list[Bare], logged: str) -> bool:
    """Whether layers may be taken off that lead to the first of these states, of a format that reads one itself.

    Its own layer is below these then, or no format reads them, or they are around JSON.
    """
    first = states[0]
    is_below = any(has_layer(bare.sample.head, logged) for bare in states)
    return is_below or OUTER.issuperset(first.wrapping.layers) or first.sample.is_json


def _in_turn(sample: Sample) -> tuple[tuple[Format, ...], ...]:
    """Our formats as they are asked: by words at the start of the input, by later ones, those that claim any text."""
    turns: tuple[list[Format], ...] = ([], [], [])
    for fmt in builtin_formats():
        claims_any = fmt.max_score <= Score.SHAPE or (fmt.logged and not fmt.words)
        turns[2 if claims_any else 0 if fmt.may_be(sample, EARLY) else 1].append(fmt)
    early, later, others = map(tuple, turns)
    return early, later, others


def note_failures(matches: list[Detected], source: Source, report: Report | None) -> None:
    """Notes in the report which probes raised, each once.

    Raises StrictFailure where the conversion is strict: a format that failed might have been the right one.
    """
    if report is None:
        return
    for match in matches:
        if not match.failed:
            continue
        noted = report.issues.get("broken-format")
        if noted is None or (match.format, match.reason) not in noted.places:
            report.issue("broken-format", match.format, match.reason, rows=0)
        if report.strict:
            raise StrictFailure(
                f"the format {match.format} couldn't be probed: {match.reason}",
                path=source.path,
                remedy="name the format of the input with --from, so that no other is probed, or leave out --strict",
            )


def decide(source: Source, sample: Sample, matches: list[Detected]) -> Format:
    """Picks the format from the answers of the probes, which are best first. Raises as `choose` does."""
    if sample.listing is None and not sample.head:
        raise InputError(
            "is empty", path=source.path, expected="a log, table or trace", remedy="check the command that wrote it"
        )
    if sample.head.startswith(_LFS_POINTER):
        raise UnknownFormat(
            "is a Git LFS pointer, not the file itself",
            path=source.path,
            expected="the file that it stands for" + _lfs_size(sample.head),
            remedy=f"git lfs pull --include '{sample.name}'",
        )
    claims = [match for match in matches if match.score > Score.NEAR]
    if not claims:
        error = _unknown(source, sample, [match for match in matches if not match.failed])
        error.what += "".join(
            f"; the format {match.format} couldn't be probed: {match.reason}" for match in matches if match.failed
        )
        raise error
    best = claims[0]
    if best.remedy:
        raise ClosedFormat(best.reason, path=source.path, remedy=best.remedy)
    rivals = [match for match in claims[1:] if match.score == best.score > Score.SUFFIX]
    if rivals:
        names = ", ".join(f"{match.format} ({match.reason})" for match in (best, *rivals))
        raise AmbiguousFormat(
            f"may be {names}", path=source.path, remedy=f"choose one: --from {best.format} or --from {rivals[0].format}"
        )
    return by_name(best.format)


def _lfs_size(pointer: bytes) -> str:
    """Returns the size of the file that a Git LFS pointer stands for, for a message."""
    match = re.search(rb"^size ([0-9]{1,18})\r?$", pointer[:1024], re.MULTILINE)
    return f", of {int(match[1]):,} bytes" if match else ""


def _is_small(source: Source) -> bool:
    return not source.is_folder and source.size is not None and source.size < SMALL


def by_name(name: str, *, writes: bool = False) -> Format:
    """Returns the format of that name. Raises UsageError, which lists the names."""
    for formats in (builtin_formats, all_formats):
        for fmt in formats():
            if fmt.name == name and (fmt.writes if writes else fmt.reads):
                return fmt
    able = [fmt.name for fmt in all_formats() if (fmt.writes if writes else fmt.reads)]
    doing = "writes" if writes else "reads"
    why = "".join(f": {failed.reason}" for failed in plugin_failures() if failed.format == name)
    raise UsageError(
        f"no format '{name}' that ktrace {doing}{why}",
        expected=f"one of {', '.join(able)}",
        remedy="see `ktrace formats`",
    )


def _unknown(source: Source, sample: Sample, near: list[Detected]) -> InputError:
    if sample.listing is not None:
        return InputError(
            "is a folder without a trace in it",
            path=source.path,
            expected="files that a format recognises, or a canonical folder (events.parquet, ...)",
            remedy="name a file, and its format with --from",
        )
    if sample.damage:
        return DamagedInput(
            f"the SQLite database can't be read: {sample.damage}",
            path=source.path,
            expected="a whole, unencrypted database",
            remedy="copy or export it again, or try sqlite3 FILE .recover | sqlite3 NEW",
        )
    if sample.whole and (what := _EMPTY.get("".join((sample.text or "").split()))):
        return InputError(
            f"is empty: a JSON {what} without anything in it",
            path=source.path,
            expected="a trace with records",
            remedy="check the command that wrote it: the program may have recorded nothing",
        )
    remediable = next((match for match in near if match.remedy), None)
    if remediable:
        return UnknownFormat(remediable.reason, path=source.path, expected=_EXPECTED, remedy=remediable.remedy)
    lines = [f"{match.format}: {match.reason}" for match in near if match.format != MAPPED]
    nearest = "\n    ".join(["; nearest:", *lines]) if lines else ""
    nearest = f" ({_seen(sample)}{_times_in(sample)}){nearest}"
    remedy = "name the format with --from, if it is one of them"
    lacks, command = _by_mapping(source, sample, {match.format for match in near})
    nearest += f"; ktrace map finds that {lacks}" if lacks and "no unit of time" not in nearest else ""
    remedy = f"{command}; or {remedy}" if command else remedy
    return UnknownFormat("unrecognised format" + nearest, path=source.path, expected=_EXPECTED, remedy=remedy)


def _by_mapping(source: Source, sample: Sample, near: AbstractSet[str]) -> tuple[str, str]:
    """What a table lacks for a mapping of its columns, and the command that shows one; both '' without a table.

    The command for a text with times in its lines, but without a table, shows a pattern of these.
    """
    if sample.text is None:
        return "", ""
    try:
        proposal = by_name(MAPPED).function("propose")(sample, source.path)
    except InputError as error:
        return "", error.remedy if error.remedy and "--line" in error.remedy else ""
    named = sum(guess.because.startswith("by its heading") for guess in proposal.guesses)
    is_small = len(proposal.columns) < _FEWEST_COLUMNS and named < len(proposal.columns)
    if not near & {MAPPED, ANY_TABLE} and (proposal.lacks or is_small):
        return "", ""
    path = shlex.quote(source.path)
    if proposal.lacks and proposal.stated:
        return proposal.lacks, f"state it, such as ktrace map {path} --map {shlex.quote(proposal.stated)}"
    if proposal.lacks:
        return proposal.lacks, ""
    bare = [one.cell.column for one in proposal.guesses if NO_UNIT in one.because]
    lacks = f"{' and '.join(map(printable, bare))} {'has' if len(bare) == 1 else 'have'} no unit" if bare else ""
    return lacks, f"ktrace map {path} shows how a table with these columns could be read, and the command that does it"


def _times_in(sample: Sample) -> str:
    """How many lines of a text have a time with its unit, and the first one; '' for what isn't a text."""
    if sample.text is None or sample.is_json:
        return ""
    lines = enumerate(sample.lines[:_EXAMINED], 1)
    timed = [(number, time) for number, line in lines if (time := _TIME.search(line[:_LONGEST]))]
    if not timed:
        return "; no number in it has a unit of time" if any(map(str.isdigit, sample.text)) else ""
    number, time = timed[0]
    first = time.string[max(time.end() - _AROUND, 0) : time.end()].strip()
    have = f"{len(timed)} lines have" if len(timed) > 1 else "1 line has"
    return f"; {have} times, first {printable(first)!r} in line {number}"


def _seen(sample: Sample) -> str:
    """Returns what kind of file an input is, and what it has: tables, keys, headings or the beginning."""
    if sample.tables is not None:
        return "an SQLite database with " + (_listed("tables", list(sample.tables)) if sample.tables else "no table")
    if sample.text is None:
        if sample.name.lower().endswith(DATABASES):
            return "it doesn't start like an SQLite database: it may be encrypted, or something else"
        return f"binary data that begins with the bytes {sample.head[:8].hex(' ')}"
    if sample.is_json and (keys := _keys(sample.text)):
        what = "a JSON list of objects" if sample.text.lstrip().startswith("[") else "a JSON object"
        return f"{what} with {_listed('keys', keys)}"
    lines = [line for line in sample.text[:_SHOWN].splitlines() if line.strip()][:_ALIKE]
    for mark, name in (("\t", "tabs"), (",", "commas"), (";", "semicolons")):
        counts = {line.count(mark) for line in lines if '"' not in line}
        is_prose = mark == "," and counts == {1} and any(", " in line for line in lines)
        is_row = _ROW.search(lines[0]) if lines else None
        if len(lines) > 1 and len(counts) == 1 and min(counts) > 0 and not is_prose and not is_row:
            cells = [cell.strip().strip('"') for cell in lines[0].split(mark)]
            return f"a table separated by {name} with {_listed('headings', cells)}"
    shown = " and ".join(repr(line.strip()[:60]) for line in lines[:2])
    return f"a text that begins with {shown}" if lines else "a text with only blank lines"


def _listed(what: str, names: list[str]) -> str:
    """Returns the first of the names, for a message: `the keys a, b, ...`."""
    shown = [printable(name[:60]) for name in names[:8]] + ["..."] * (len(names) > 8)
    return f"the {what[:-1] if len(names) == 1 else what} {', '.join(shown)}"


def _keys(text: str) -> list[str]:
    """Returns the first keys of the object that a text of JSON begins with; the text may be cut."""
    decoder = json.JSONDecoder()
    keys: list[str] = []
    place = text.find("{") + 1
    while len(keys) < 9 and (match := _KEY.match(text, place)):
        keys.append(match[1])
        try:
            place = decoder.raw_decode(text, match.end())[1]
        except (ValueError, RecursionError):
            break
    return keys
