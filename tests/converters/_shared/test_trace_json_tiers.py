"""Compiled code, Python and any number of processes read the same rows in the same order, damaged or not.

`KTRACE_TIERS=5000` damages so many documents instead of a few.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

from ktrace.converters._shared.trace_json import chunks, compiled_events, containers, document, ranges
from ktrace.errors import KtraceError
from ktrace.pipeline.convert import convert

CASES = int(os.environ.get("KTRACE_TIERS", "48"))

#: Small samples, by format.
TEXTS = [
    (folder, path.read_bytes())
    for folder in ("kineto", "chrome", "onnxruntime", "ascend-json", "xprof-json")
    for path in sorted((SAMPLES / folder).glob("*.json"))
    if path.stat().st_size < 60_000
]

WORDS = [
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"nan",
        b"null",
        b"\\u0043",
        b"1e30",
        b"99999999999",
        b"-1",
        b'"X"',
        b'"C"',
    ),
    *(b"1.0005", b'{"ph":"X","name":"z","ts":1,"dur":1},', b"\xff", b"\\ud800", b"},{", b"-0", b"1.50", b"}\n,{"),
]
NUMBERS = [b"null", b"1e3", b'"7"', b"1.5", b"99999999999999999999", b"[1]", b"true", b"-1", b"1.2345"]
NAMES = [b'"\\u0063at"', b'"kernel"', b'"X"', b'"C"', b'"ph"', b'"a\\\\n"', b'"a\\n"', b"5", b'"s"']

pytestmark = pytest.mark.skipif(compiled_events.compiled is None, reason="ktrace.native isn't built here")


def damaged(text: bytes, chance: random.Random) -> bytes:
    """The text with up to four faults: words inserted, bytes lost, values and keys replaced, an end cut off."""
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(7)
        if kind < 2:
            text = text[:at] + chance.choice(WORDS) + text[at:]
        elif kind == 2:
            text = text[:at] + text[at + chance.choice([1, 2, 5, 40, 300]) :]
        elif kind == 3:
            text = text[:at] + text[max(0, at - chance.randrange(200)) : at] + text[at:]
        elif kind == 4:
            text = replaced(text, rb"(?<=[:,])\s*-?\d+\.?\d*(?=[,}])", NUMBERS, chance)
        elif kind == 5:
            text = replaced(text, rb'"[a-z]{1,12}"(?=[,}:])', NAMES, chance)
        elif not chance.randrange(4):
            text = text[:at]
    return text


def replaced(text: bytes, pattern: bytes, words: list[bytes], chance: random.Random) -> bytes:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(words) + text[one.end() :]


def outcome(path: Path, fmt: str, jobs: int) -> list[Any]:
    """What a conversion writes and reports, or why it refuses."""
    told: list[Any] = []
    for name in ("out.jsonl", "out.perfetto"):
        out = path.with_name(name)
        try:
            report = convert(path, out, from_=fmt, jobs=jobs, overwrite=True)
        except KtraceError as error:
            told.append(str(error))
        else:
            told += [out.read_bytes(), {**report.to_dict(), "parts": None}]
    return told


@pytest.mark.parametrize("seed", range(CASES))
def test_who_reads_makes_no_difference(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "CHUNK", 700)
    monkeypatch.setattr(chunks, "CHUNKS", 3)
    monkeypatch.setattr(ranges, "LEAST", 1000)
    monkeypatch.setattr(document, "LEAST_STORED", 500)
    chance = random.Random(seed)
    fmt, text = chance.choice(TEXTS)
    path = tmp_path / "run.json"
    path.write_bytes(damaged(text, chance))
    wanted = outcome(path, fmt, 1)
    if not seed % 4:
        assert outcome(path, fmt, 2) == wanted
    monkeypatch.setattr(compiled_events, "compiled", None)
    assert outcome(path, fmt, 1) == wanted
