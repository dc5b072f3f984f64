"""Profiles of pprof (github google/pprof, proto/profile.proto): Go, JAX's memory, Node.js, Rust and others.

A protobuf message Profile, most often compressed by gzip:

sample_type { type: 1 unit: 2 }  sample_type { type: 3 unit: 4 }              indices of string_table
sample { location_id: 1 location_id: 2 value: 14 value: 140000000 label { key: 7 str: 8 } }
location { id: 1 mapping_id: 1 address: 4202496 line { function_id: 1 line: 12 } }
function { id: 1 name: 5 filename: 6 }
string_table: ""  string_table: "samples"  string_table: "count"  string_table: "cpu"  ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.kit import Format, Match, Sample, Score

#: The fields of a Profile: those that are messages, texts or packed numbers, and numbers.
_MESSAGES, _NUMBERS = frozenset((1, 2, 3, 4, 5, 6, 11, 13)), frozenset((7, 8, 9, 10, 12, 13, 14, 15))

#: Fields that are looked at.
_MOST = 64

#: A ValueType, of indices below 2^14; and how a Sample begins.
_TYPE = re.compile(rb"(?=.)(?:\x08[\x80-\xff]?[\x00-\x7f])?(?:\x10[\x80-\xff]?[\x00-\x7f])?", re.DOTALL)
_SAMPLE = re.compile(rb"[\x08\x0a\x10\x12]")


def probe(sample: Sample) -> Match | None:
    """DIALECT for fields of a Profile, with types of samples, and samples or the empty text that texts begin with."""
    types, samples, texts = 0, 0, 0
    try:
        for number, value in _fields(sample.head):
            if number == 1 and _TYPE.fullmatch(value):
                types += 1
            elif number == 2 and _SAMPLE.match(value):
                samples += 1
            elif number in (1, 2) or (number == 6 and value and not texts):
                return None
            texts += number == 6
    except IndexError:  # the end of the sample
        pass
    except ValueError:
        return None
    if types and (samples or texts):
        return Match(Score.DIALECT, "has the types of samples and the samples of a pprof profile")
    return None


def _fields(head: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the first fields with their bytes. Raises ValueError for one that a Profile doesn't have."""
    at = 0
    for _ in range(_MOST):
        if at >= len(head):
            return
        tag, value, shift = head[at], 0, 0
        byte = 128
        while byte & 128:
            at += 1
            byte = head[at]
            value, shift = value | (byte & 127) << shift, shift + 7
        at += 1
        number, wire = tag >> 3, tag & 7
        if wire == 2 and number in _MESSAGES:
            yield number, head[at : at + value]
            at += value
        elif wire == 0 and number in _NUMBERS and shift <= 70:
            yield number, b""
        else:
            raise ValueError("no field of a Profile")


FORMAT = Format(
    "pprof",
    "pprof profiles: Go, JAX's memory, Node.js",
    patterns=("*.pprof", "*.pb", "*.prof"),
    probe=probe,
    read="ktrace.converters.pprof.reader:read",
    prose=True,
    binary=True,
)
