"""The forms of the lines."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

TITLE = re.compile(r"=== (?P<what>API|Device|Kernel Submission|Kernel Properties|Kernel)\b.* ===")
BACKEND = re.compile(r"== (?P<backend>.+?) Backend:? ==")
SECTION = re.compile(r"=+ .+ =+")
TOTAL = re.compile(r"Total (?P<what>Execution|\w+) Time(?: for (?P<backend>.+?) backend)? \(ns\): +(?P<ns>\d{1,18})")
HEADINGS = re.compile(r"(?:Kernel|Function), +.*", re.DOTALL)
NOTE = re.compile(r"\[(?:INFO|WARNING|ERROR|DEBUG)\]")

_COUNT, _NS, _SHARE, _GAP = r"\d{1,18}", r"\d{1,18}", r"(?:\d{1,12}(?:\.\d{1,9})?|-?nan|inf)", r"(?:, *| +)"
TIMING = re.compile(
    rf"(?P<name>\S.*?), *(?P<count>{_COUNT}){_GAP}(?P<total>{_NS}){_GAP}(?P<percent>{_SHARE}){_GAP}"
    rf"(?P<avg>{_NS}){_GAP}(?P<min>{_NS}){_GAP}(?P<max>{_NS}),?"
)
SUBMISSION = re.compile(
    rf"(?P<name>\S.*?), *(?P<count>{_COUNT}){_GAP}(?P<append>{_NS}){_GAP}(?P<append_share>{_SHARE}){_GAP}"
    rf"(?P<submit>{_NS}){_GAP}(?P<submit_share>{_SHARE}){_GAP}(?P<execute>{_NS}){_GAP}(?P<execute_share>{_SHARE}),?"
)

_TIMES = (
    r" \[ns\] (?:= )?(?P<append>\d{1,20}) \((?P<first>append|queued)\) (?P<submit>\d{1,20}) \(submit\) "
    r"(?P<start>\d{1,20}) \(start\) (?P<end>\d{1,20}) \(end\)"
)
TIMELINE = re.compile(
    r"(?:<PID:(?P<pid>\d{1,10})> )?Thread (?P<tid>\d{1,18}) Device (?P<device>\S+) : (?P<name>.+)" + _TIMES
)
ONETRACE = re.compile(
    r"(?:<PID:(?P<pid>\d{1,10})> )?Device Timeline(?: for \S+)? \(queue: (?P<queue>\S+)\): (?P<name>.+?)"
    r"(?:<(?P<id>[\d.]+)>)?" + _TIMES
)
START = re.compile(r"(?:<PID:\d{1,10}> )?(?:Device )?Timeline: start time \[ns\] = (?P<ns>\d{1,19})")

_WHO = r"\[(?P<ns>\d{1,20})\] (?:<PID:(?P<pid>\d{1,10})> )?(?:<TID:(?P<tid>\d{1,18})> )?"
BEGIN = re.compile(rf">>>> {_WHO}(?P<name>\w+):(?P<rest>.*)", re.DOTALL)
END = re.compile(rf"<<<< {_WHO}(?P<name>\w+) \[(?P<dur>\d{{1,20}}) ns\](?P<rest>.*)", re.DOTALL)


class Properties(NamedTuple):
    """A row of the properties of kernels: columns of the model and arguments."""

    registers: int | None
    shared_memory: int | None
    args: dict[str, int | str]


#: Headings of properties -> key of an argument; two of them are columns.
_KEYS = {
    "Compiled": "compiled",
    "SIMD": "simd",
    "Number of Arguments": "arguments",
    "SLM Per Work Group": "",
    "Private Memory Per Thread": "private_memory",
    "Spill Memory Per Thread": "spill_memory",
    "Register File Size Per Thread": "",
}


def properties(headings: list[str], cells: list[str]) -> Properties:
    """Returns the properties of a kernel from the cells below the headings."""
    found = dict(zip(headings, cells, strict=False))
    args: dict[str, int | str] = {}
    for heading, cell in found.items():
        key = _KEYS.get(heading, heading)
        if key and cell != "unknown":
            args[key] = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else cell.lower()
    whole = {
        heading: int(cell) for heading, cell in found.items() if cell.isascii() and cell.isdigit() and len(cell) < 10
    }
    return Properties(whole.get("Register File Size Per Thread"), whole.get("SLM Per Work Group"), args)


def share(text: str) -> float | None:
    """A percentage; None for nan."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return float(number) if number.is_finite() else None
