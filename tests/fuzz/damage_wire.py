"""Damages messages of protobuf field by field, without knowing what the fields mean."""

from __future__ import annotations

from random import Random

from ktrace.converters.perfetto.wire import varint

_VARINTS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    b"",
    b"\x00",
    b"\xff\xfe\xfd",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"a" * 70_000,
    b"9" * 4400,
    b"\x08",
    b"\x0a\xff\xff\x03x",
)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at
    raise IndexError("a varint of more than ten bytes")


def split(data: bytes) -> list[bytes] | None:
    """Returns the fields of a message, each with its tag; None if the data isn't a message."""
    found, at = [], 0
    try:
        while at < len(data):
            begin = at
            tag, at = _read_varint(data, at)
            if not 0 < tag >> 3 < 2**29:
                return None
            match tag & 7:
                case 0:
                    _, at = _read_varint(data, at)
                case 1:
                    at += 8
                case 2:
                    size, at = _read_varint(data, at)
                    at += size
                case 5:
                    at += 4
                case _:
                    return None
            if at > len(data):
                return None
            found.append(data[begin:at])
    except IndexError:
        return None
    return found


def is_wire(data: bytes) -> bool:
    """Returns whether the data can be a message of several fields."""
    return len(split(data) or ()) > 1


def wire_fields(data: bytes, rng: Random) -> bytes:
    """A field, at any depth, has another value, tag or length, gets lost, is there twice, or is somewhere else."""
    fields = split(data)
    if not fields:
        return data + bytes([rng.randrange(256)])
    at = rng.randrange(len(fields))
    field = fields[at]
    tag, begin = _read_varint(field, 0)
    if tag & 7 == 2:
        _, begin = _read_varint(field, begin)
        content = field[begin:]
        if rng.random() < 0.75 and split(content):
            inner = wire_fields(content, rng)
            size = rng.choice((*_VARINTS, len(inner) + 1, len(inner) - 1)) if rng.random() < 0.03 else len(inner)
            fields[at] = varint(tag) + varint(max(0, size)) + inner
            return b"".join(fields)
        new = rng.choice((*_TEXTS, content[: len(content) // 2], content * 2))
        changed = varint(tag) + varint(len(new)) + new
    elif tag & 7 == 0:
        changed = varint(tag) + varint(rng.choice(_VARINTS))
    else:
        changed = field[:begin] + rng.choice((b"\x00", b"\xff", b"\x7f")) * (len(field) - begin)
    match rng.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(rng.randrange(len(fields) + 1), field)
        case 2:
            fields.insert(at, changed)  # twice, with another value before
        case 3:
            fields[at] = (
                varint(rng.choice((tag ^ 1 << 3, tag + 8, 1 << 3 | tag & 7, tag & ~7 | rng.randrange(8)))) + field[1:]
            )
        case 4:
            fields.insert(rng.randrange(len(fields)), fields.pop(at))
        case _:
            fields[at] = changed
    return b"".join(fields)
