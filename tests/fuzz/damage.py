"""Damages the bytes of a file: as bytes, in its own structure, or by bytes of another file."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from random import Random

from .damage_stores import arrow_values, is_database, sqlite_pages, sqlite_values
from .damage_texts import deepen, json_values, lines, numbers, pickled_values, punctuation, texts, words
from .damage_wire import is_wire, wire_fields

Damage = Callable[[bytes, Random], bytes]

#: Bytes that mean something to one format or another.
_EXTREMES = (
    b"\x00",
    b"\xff" * 8,
    b"\x80" * 12 + b"\x01",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r",
    b"\n\n\n",
    b"\x1b[2J",
    b"\x1f\x8b\x08",
    b"NaN",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x00" * 4096,
    b"9" * 400,
)


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    """Returns start and end of a piece of the data: mostly short, sometimes as long as all of it."""
    begin = rng.randrange(len(data) + 1)
    longest = rng.choice((1, 4, 16, 64, 1024, len(data)))
    return begin, min(len(data), begin + rng.randint(1, max(1, longest)))


def flip(data: bytes, rng: Random) -> bytes:
    """Other bits in some bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def delete(data: bytes, rng: Random) -> bytes:
    """A piece is missing."""
    begin, end = _span(data, rng)
    return data[:begin] + data[end:]


def double(data: bytes, rng: Random) -> bytes:
    """A piece is there several times."""
    begin, end = _span(data, rng)
    times = rng.choice((2, 2, 3, 30))
    return (data[:begin] + data[begin:end] * times + data[end:])[: len(data) + 1_000_000]


def truncate(data: bytes, rng: Random) -> bytes:
    """The end is missing, or the beginning."""
    at = rng.randrange(len(data) + 1)
    return data[at:] if rng.random() < 0.15 else data[:at]


def insert(data: bytes, rng: Random) -> bytes:
    """Bytes that mean something are put in or written over others."""
    at, what = rng.randrange(len(data) + 1), rng.choice(_EXTREMES)
    return data[:at] + what + data[at + (len(what) if rng.random() < 0.5 else 0) :]


def move(data: bytes, rng: Random) -> bytes:
    """A piece is somewhere else."""
    begin, end = _span(data, rng)
    rest = data[:begin] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[begin:end] + rest[at:]


BYTES: tuple[Damage, ...] = (flip, delete, double, truncate, insert, move)
TEXTS: tuple[Damage, ...] = (numbers, numbers, texts, words, punctuation, lines, lines, deepen)


def splice(data: bytes, other: bytes, rng: Random) -> bytes:
    """The beginning of one file and the end of another, or a piece of one in the other."""
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    begin, end = _span(other, rng)
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[begin:end] + data[at:]


def in_gzip(data: bytes, rng: Random) -> bytes:
    """Compressed, in one member or in two, whole or damaged."""
    at = rng.randrange(len(data) + 1)
    packed = [gzip.compress(part, 1, mtime=0) for part in rng.choice(((data,), (data[:at], data[at:])))]
    if rng.random() < 0.7:
        which = rng.randrange(len(packed))
        packed[which] = rng.choice(BYTES)(packed[which], rng)
    return b"".join(packed)


def in_zip(data: bytes, rng: Random, name: str) -> bytes:
    """In an archive with other files, whole or damaged."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        names = [name, rng.choice((f"../{name}", f"/{name}", "a/b.json", name, "x" * 300, "\x1b[2J", ""))]
        for inside in names[: rng.choice((1, 1, 2))]:
            entry = zipfile.ZipInfo(inside)
            entry.compress_type = archive.compression
            archive.writestr(entry, data)
    packed = out.getvalue()
    return rng.choice(BYTES)(packed, rng) if rng.random() < 0.7 else packed


def fitting(data: bytes) -> list[tuple[Damage, ...]]:
    """Returns the families of damage that know the structure of the data; the bytes come last."""
    if is_database(data):
        return [(sqlite_values,), (sqlite_values,), (sqlite_pages,), BYTES]
    if data[:4] == b"PAR1" or data[:6] == b"ARROW1":
        return [(arrow_values,), (arrow_values,), BYTES]
    if data[:1] == b"\x80" and data[-1:] == b".":
        return [(pickled_values,), (pickled_values,), BYTES]
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-8-sig")
        tree = text.lstrip()[:1] in ("{", "[") and text.count("\n") < len(text)
        return [TEXTS, TEXTS, TEXTS, (json_values,), (json_values,), BYTES] if tree else [TEXTS, TEXTS, TEXTS, BYTES]
    return [(wire_fields,), (wire_fields,), BYTES] if is_wire(data) else [BYTES]


def damaged(data: bytes, rng: Random, other: Callable[[], bytes], name: str) -> tuple[bytes, list[str]]:
    """Returns the data after one or several kinds of damage, and the names of these."""
    inner, packed = data, False
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.7:  # what is inside a compressed sample is damaged, too
        inner, packed = gzip.decompress(data), True
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if rng.random() < 0.06:
            inner, step = splice(inner, other(), rng), "splice"
        else:
            damage = rng.choice(rng.choice(fitting(inner)))
            inner, step = damage(inner, rng), damage.__name__
        done.append(step)
    if packed:
        inner = gzip.compress(inner, 1, mtime=0)
    elif rng.random() < 0.03:
        inner = in_gzip(inner, rng)
        done.append("gzip")
    elif rng.random() < 0.02:
        inner = in_zip(inner, rng, name)
        done.append("zip")
    return inner, done
