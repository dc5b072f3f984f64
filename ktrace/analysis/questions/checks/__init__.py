"""Checks of a recording: where it contradicts itself or lacks what was launched, and which findings that takes away.

    check.cause_after_effect   12 of 20 device activities start before the calls that launched them ...
        takes idle.*           nothing can be said of the time between a call and its work

A check that fails is a `Finding` whose code begins with "check."; `CHECKS` says what each looks at, in words, which
findings can't be made where it fails, which may be wrong, and how to record what is missing. The rules of PyTorch's
torch/profiler/_trace_validator.py are among them: launches without kernels, kernels before their launch, work of one
stream that overlaps. `examine` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ktrace.analysis.work.findings import Finding
from ktrace.tables import brief

#: What the codes of failed checks begin with.
PREFIX = "check."


class Check(NamedTuple):
    """A check. `law` is what holds in a sound recording, `says` the sentence where it doesn't.

    `takes` are the beginnings of the codes of findings that can't be made then, `doubts` of those that may be wrong;
    "little" is the claim that little time is lost. `remedy` says how to record what is missing. A recording that is
    `partial` is sound as far as it goes.
    """

    law: str
    says: Callable[[Finding], str]
    takes: tuple[str, ...]
    doubts: tuple[str, ...]
    remedy: str
    partial: bool = False


def _number(one: Finding, key: str) -> float:
    value = one.details.get(key)
    return value if isinstance(value, (int, float)) else 0


def _time(one: Finding, key: str) -> str:
    return brief(_number(one, key))


#: The days of a year.
_YEAR = 365.25


def _span(ns: float) -> str:
    """A time for people, days and years from two on."""
    days = ns / 86_400_000_000_000
    if days >= 2 * _YEAR:
        return f"{days / _YEAR:,.1f} years"
    return f"{days:,.1f} days" if days >= 2 else brief(ns)


def _of(one: Finding) -> str:
    return f"{one.value:,.0f} of {one.whole or 0:,.0f}"


def _counted(one: Finding, singular: str, plural: str) -> str:
    return f"{one.value:,.0f} {singular if one.value == 1 else plural}"


_ON_DEVICE = ("busy", "idle", "exposed", "straggler", "outside", "little")

#: The checks, in the order in which failures are said.
CHECKS: dict[str, Check] = {
    "profiler_failed": Check(
        "the profiler reports no error",
        lambda one: f"The profiler reports: {one.subject['message']}",
        (),
        ("heaviest", *_ON_DEVICE),
        "Fix what the profiler reports, and record again.",
    ),
    "records_dropped": Check(
        "the profiler keeps all records",
        lambda one: f"The profiler warns: {one.subject['message']}",
        (),
        ("heaviest", *_ON_DEVICE),
        "Record for a shorter time, less at once, or with larger buffers.",
    ),
    "runs_apart": Check(
        "an input has one run",
        lambda one: (
            f"Nothing happens for {_span(one.value)} between two parts of {one.subject['source']} that last "
            f"{_time(one, 'before_ns')} and {_time(one, 'after_ns')}: these look like two runs, "
            + (f"as {one.details['sign']}" if "sign" in one.details else "or one that paused")
            if "parts" not in one.details
            else f"{one.subject['source']} has {one.details['parts']} parts, with pauses of "
            f"{_span(_number(one, 'shortest_ns'))} to {_span(one.value)} in which nothing happens: these look like "
            "several runs"
        ),
        (*_ON_DEVICE, "heaviest"),
        (),
        "Analyse each run on its own.",
    ),
    "ranks_apart": Check(
        "the ranks of a run are recorded at the same time",
        lambda one: f"{_disjoint(one)}: no rank waited for another, or the clocks of their hosts differ by that",
        ("straggler",),
        ("exposed.communication",),
        "Record the same steps on all ranks, and keep the clocks of hosts synchronised (NTP, PTP).",
    ),
    "time_not_set": Check(
        "every event has a time",
        lambda one: (
            f"{_of(one)} events have no time: start and duration are 0 or -1, {_time(one, 'before_others_ns')} "
            "before all others; they aren't counted"
            if "left_out" not in one.details
            else f"{_counted(one, 'record has', 'records have')} no possible time (an end before the start, both 0, or "
            f"too large) and {'was' if one.value == 1 else 'were'}n't read"
        ),
        (),
        ("heaviest", *_ON_DEVICE),
        "Record again: the profiler lost the times of some records.",
    ),
    "time_as_duration": Check(
        "a duration isn't a timestamp",
        lambda one: f"The duration of {_of(one)} device activities is their timestamp, as if they had started at 0",
        ("heaviest", *_ON_DEVICE),
        (),
        "Look at the times of the records that --format json lists.",
    ),
    "times_made_up": Check(
        "times are measured",
        lambda one: f"The times of {_of(one)} device activities are made up: a table was drawn as a timeline",
        _ON_DEVICE,
        (),
        "Summarise the table itself, or record a timeline.",
    ),
    "cause_after_effect": Check(
        "work starts after the call that launches it",
        lambda one: (
            f"{_of(one)} device activities start before the call that launched them, by up to "
            f"{_time(one, 'early_ns')}: "
            "the clocks of host and device differ by at least that"
        ),
        ("idle.host", "idle.launch", "idle.dependency", "idle.unknown", "idle.queued", "outside"),
        ("little",),
        "Record again with a profiler whose clock follows the device's: a newer driver and profiler. --repair-clock "
        "moves the device's times by the smallest shift that repairs it.",
    ),
    "starts_late": Check(
        "some work starts soon after its call, where the device is idle",
        lambda one: (
            f"All {one.value:,.0f} device activities after gaps start {_time(one, 'late_ns')} or more after their "
            "call, nearly all by the same: the device's clock is late by about that, or what held them isn't recorded"
        ),
        ("idle.host", "idle.launch", "idle.dependency", "outside"),
        ("little",),
        "Record a synchronisation at the end, which tells how late the clock is, or with a newer driver and profiler.",
    ),
    "work_outlasts_wait": Check(
        "a call that waits for a device returns after the work that it waits for",
        lambda one: (
            f"{_of(one)} device activities end after a call returned that had waited for their device, by up to "
            f"{_time(one, 'late_ns')}: durations or clocks are wrong"
        ),
        ("idle.host", "idle.launch", "idle.dependency", "idle.unknown", "little", "outside"),
        ("busy", "heaviest"),
        "Look at the units of the durations, and at the clocks of host and device.",
    ),
    "waits_for_nothing": Check(
        "a device that calls wait for has work",
        lambda one: (
            f"Calls waited for their device for {brief(one.whole or 0)}, {brief(one.value)} of it while nothing ran "
            "there: what it did isn't recorded, or durations are too short"
        ),
        ("idle", "little", "outside", "exposed"),
        ("busy", "heaviest"),
        "Record all that the device does (larger buffers, the nodes of graphs), and look at the units of durations.",
    ),
    "wait_before_record": Check(
        "an event is recorded before it is waited for",
        lambda one: (
            f"{_of(one)} waits for events start before the event was recorded, by up to {_time(one, 'early_ns')}: the "
            "clocks of threads or the numbers of events are wrong"
        ),
        ("idle.dependency",),
        (),
        "Record again with a newer profiler; until then don't trust which work waits for which.",
    ),
    "stream_overlaps": Check(
        "the work of one stream runs one after the other",
        lambda one: (
            f"{one.details['twice']:,} of {one.whole or 0:,.0f} device activities are there twice, with the same "
            "times: counts and totals are too high"
            if "twice" in one.details
            else f"{_of(one)} device activities start before the one before them on their stream has ended, "
            f"{_time(one, 'overlap_ns')} in all: durations are wrong, or several streams are recorded as one"
        ),
        (),
        ("heaviest", "busy", "little"),
        "Look at the units of the durations, and whether the source names the streams.",
    ),
    "launches_lost": Check(
        "every launch has its work",
        lambda one: (
            f"{_of(one)} launches have no kernel{_all_of(one)}: device records are missing"
            if one.value < (one.whole or 0)
            else f"The input has no device work for {_launches(one)}: it wasn't recorded, or is in another file"
        ),
        ("idle", "little", "outside", "exposed"),
        ("busy", "heaviest"),
        "Record the device, too (torch.profiler: ProfilerActivity.CUDA, nsys --trace=cuda, rocprofv3 --sys-trace, "
        "larger buffers), or give all files of the run.",
    ),
    "graphs_whole": Check(
        "graphs are recorded by their nodes",
        lambda one: (
            f"{_counted(one, 'launch', 'launches')} of whole graphs ({one.subject['name']}), {_time(one, 'time_ns')} "
            f"in all, {'are' if one.value != 1 else 'is'} recorded as one piece each: how much of that the device "
            "worked isn't known"
        ),
        (*_ON_DEVICE, "heaviest.kernel"),
        ("heaviest",),
        "Record what is inside: nsys profile --cuda-graph-trace=node, trtexec --dumpProfile.",
    ),
    "graphs_missing": Check(
        "the kernels inside graphs are in the tables",
        lambda one: (
            f"{_counted(one, 'launch', 'launches')} of graphs, and the host waited {_time(one, 'waited_ns')} for "
            f"devices, where the table of kernels has {_time(one, 'kernels_ns')}: it lacks the kernels inside graphs"
        ),
        ("heaviest", *_ON_DEVICE),
        (),
        "Record the nodes: nsys profile --cuda-graph-trace=node.",
    ),
    "table_incomplete": Check(
        "a table lists the rows of its total",
        lambda one: (
            f"The {'shares in the table are of' if one.details.get('by_shares') else 'table states'} "
            f"{brief(one.whole or 0)}, and its rows have {brief(one.value)}: the others aren't listed"
        ),
        (),
        ("heaviest",),
        "Print all rows.",
    ),
    "table_cut": Check(
        "a table is complete",
        lambda one: "The table lacks rows: it ends amid them, or the program that printed it left some out",
        ("heaviest",),
        (),
        "Paste or print all of it.",
    ),
    "rows_unreadable": Check(
        "every row of a table has a readable figure",
        lambda one: (
            f"{one.value:,.0f} row{'s have' if one.value > 1 else ' has'} no readable figure: the total of "
            "the others isn't known"
        ),
        ("heaviest",),
        (),
        "ktrace info and the notes above say which rows, and why.",
    ),
    "little_recorded": Check(
        "the device's work fills a part of the recording",
        lambda one: (
            f"Hardly any device work was recorded: {brief(one.value)} in {brief(one.whole or 0)}; this is "
            + (
                f"graph capture: {one.details['captured']:,} of {one.details['launches']:,} launches went "
                "into them without running"
                if "captured" in one.details
                else "a warm-up, a capture, or only a part of the run"
            )
        ),
        ("busy", "idle", "exposed", "little", "outside"),
        ("heaviest",),
        "Record a few whole steps after the warm-up.",
    ),
    "kernels_serialised": Check(
        "kernels run as they do without the profiler",
        lambda one: (
            f"Counters were collected of {one.value:,.0f} kernels, which the profiler runs one by one for that: the "
            "time between them isn't the program's"
        ),
        ("idle", "exposed", "straggler", "outside"),
        ("heaviest", "busy", "little"),
        "Record without counters (rocprofv3: without --pmc) to know what is lost between kernels.",
    ),
    "ranks_missing": Check(
        "all ranks of a group are there",
        lambda one: (
            "One device with collectives is here; if others take part, how much of the communication is waiting for "
            "them isn't known"
            if one.whole is None
            else f"{_of(one)} ranks {'is' if one.value == 1 else 'are'} here: how much of the communication is waiting "
            "for others isn't known"
        ),
        ("straggler",),
        ("exposed.communication",),
        "Give the traces of all ranks.",
        partial=True,
    ),
    "queued_at_end": Check(
        "the recording ends after the work that it launches",
        lambda one: (
            f"{_of(one)} launches were still queued when the recording of the device ended: their work isn't in it"
        ),
        (),
        ("heaviest", "busy"),
        "Synchronise before the profiler stops.",
        partial=True,
    ),
    "clock_repaired": Check(
        "times of host and device are as recorded",
        lambda one: f"The times of device {one.subject['device']} were moved by {_moved(one)}",
        (),
        ("idle.host", "idle.launch", "idle.dependency", "idle.unknown", "idle.queued", "outside"),
        "Record with clocks that agree to know the times between calls and work.",
        partial=True,
    ),
    "waits_unlinked": Check(
        "an event wait names an event record that is in the trace",
        lambda one: (
            f"{_of(one)} waits for events don't say which record they wait for, or the trace lacks it: what the work "
            "waits "
            "for isn't known there"
        ),
        (),
        ("idle.dependency",),
        "Begin the recording before the events are recorded, with a newer profiler.",
        partial=True,
    ),
    "collectives_undescribed": Check(
        "operators of collectives state what these move",
        lambda one: f"{_of(one)} record_param_comms lack {one.subject['lacking']}: only kernels may say what they move",
        (),
        (),
        "Record with a newer PyTorch.",
        partial=True,
    ),
    "sequence_shared": Check(
        "a sequence number is of one backward operator",
        lambda one: (
            f"{_of(one)} sequence numbers are of several backward operators, such as {one.subject['number']} of "
            f"{one.subject['names']}: which forward operator these belong to isn't known"
        ),
        (),
        (),
        "Don't trust the operator, module or pass of their work.",
        partial=True,
    ),
    "inputs_apart": Check(
        "the inputs were recorded at the same time",
        lambda one: f"{_disjoint(one)}: these are different parts of a run, different runs, or clocks that disagree",
        ("straggler",),
        (),
        "Analyse each on its own, or align their clocks: ktrace merge --align, --offset.",
        partial=True,
    ),
    "times_quantised": Check(
        "times are finer than the work they measure",
        lambda one: (
            f"All durations are multiples of {brief(one.value)}: shorter work looks as if it took no time, or that long"
        ),
        (),
        ("heaviest", "busy", "idle", "little"),
        "Record finer timestamps, or repeat the work often enough (WebGPU: disable timestamp quantisation).",
    ),
    "input_cut": Check(
        "the input is complete",
        lambda one: "The input ends in the middle of its records: what follows is missing",
        (),
        ("heaviest", *_ON_DEVICE),
        "Copy the whole file again.",
    ),
}


def _disjoint(one: Finding) -> str:
    """Which input begins how long after which other, in words."""
    clock = "" if one.details["related"] else ", on clocks that can't be aligned"
    more = f", and {one.details['pauses']:,} such pauses in all" if _number(one, "pauses") > 1 else ""
    return f"{one.subject['source']} begins {_span(one.value)} after {one.subject['before']} has ended{clock}{more}"


def _moved(one: Finding) -> str:
    """By how much times were moved, and how much more it may be."""
    least, most, slack = one.value, _number(one, "most_ns"), one.details["slack_ns"]
    by = brief(least) if least == most else f"{brief(least)} to {brief(most)}, {_number(one, 'drift_ppm'):+.1f} ppm"
    said = f"{by}, the smallest shift after which no work starts before its call"
    if not isinstance(slack, int):
        return f"{said}; no call waited for the device, so the shift has no upper bound"
    if slack < 0:
        late = f"work ends up to {brief(-slack)} after a call that waited for it"
        return f"{said}, and now {late}: durations are wrong, too"
    return f"{said}; up to {brief(slack)} more is possible, judging by the calls that waited for the device"


def _all_of(one: Finding) -> str:
    """What all launches without work have in common: that they launch graphs, that they are in one input."""
    graphs = ", all of them of graphs" if one.details.get("graphs") == one.value else ""
    return f"{graphs}, {'and ' if graphs else ''}all of them in {one.subject['source']}" if one.subject else graphs


def _launches(one: Finding) -> str:
    count = int(one.whole or 0)
    copies = int(_number(one, "copies"))
    words = [f"{count - copies:,} launch{'es' if count - copies != 1 else ''}"] if count > copies else []
    words += [f"{copies:,} cop{'ies' if copies != 1 else 'y'}"] if copies else []
    return " and ".join(words)


def is_check(one: Finding) -> bool:
    """Whether a finding is a check that failed."""
    return one.code.startswith(PREFIX)


def check_of(one: Finding) -> Check:
    """The check that failed."""
    return CHECKS[one.code.removeprefix(PREFIX)]


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """The checks among findings that fail, without those that only a part of a run can't decide."""
    return [one for one in findings if is_check(one) and not check_of(one).partial]


#: The checks whose failure means that work is missing, or wrong, so that totals and counts are too low.
LACKS_WORK = tuple(
    PREFIX + one for one in ("launches_lost", "time_not_set", "records_dropped", "waits_for_nothing", "input_cut")
)


def taken_by(one: Finding) -> tuple[str, ...]:
    """The beginnings of the codes that a failed check takes away; those in doubt, too, where most is lost or wrong."""
    check = check_of(one)
    is_most = one.code in LACKS_WORK and one.whole is not None and one.whole / 2 < one.value < one.whole
    is_most |= 2 * _number(one, "impossible_ns") > _number(one, "device_ns")
    return (*check.takes, *check.doubts) if is_most else check.takes


def sentence(one: Finding) -> str:
    """A failed check in words, with what to do about it."""
    return f"{check_of(one).says(one)}. {one.remedy}"
