"""The WebSocket protocol (RFC 6455), as much as a server of one page needs: bytes in both directions.

81 or 82    the only or last frame of a message of text or bytes        01, 02, 00    further ones follow, or it is one
8n          bit 80: masked (all that a client sends); n: the length, or 126 or 127 before one of two or eight bytes
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.message import Message
from typing import BinaryIO

#: Joined to the key of a client, whose digest shows that the server speaks this protocol.
_PROTOCOL = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

_CONTINUED, _BYTES, _CLOSE, _PING, _PONG = 0, 2, 8, 9, 10

#: The most bytes of a message of the protocol itself.
_SHORT = 125

#: Bytes of a payload that are handed on at a time.
_PIECE = 1 << 18


def accepted(headers: Message) -> str | None:
    """Returns the value of Sec-WebSocket-Accept that answers these headers, None if they aren't this protocol's."""
    key = headers.get("Sec-WebSocket-Key", "")
    with suppress(Error, ValueError):
        if (
            headers.get("Upgrade", "").lower() == "websocket"
            and headers.get("Sec-WebSocket-Version") == "13"
            and len(b64decode(key, validate=True)) == 16
        ):
            return b64encode(hashlib.sha1(key.encode() + _PROTOCOL, usedforsecurity=False).digest()).decode()
    return None


def frame(payload: bytes, opcode: int = _BYTES) -> bytes:
    """Returns a whole message of the server in one frame."""
    size = len(payload)
    if size <= _SHORT:
        length = bytes([size])
    else:
        length = b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + payload


def received(stream: BinaryIO, send: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yields the bytes of a client's messages in pieces, until it closes or leaves, or breaks the protocol.

    Answers its pings and its goodbye by `send`.
    """
    while len(head := stream.read(2)) == 2:
        opcode, size = head[0] & 0x0F, head[1] & 0x7F
        if head[0] & 0x70 or not head[1] & 0x80 or opcode not in (_CONTINUED, _BYTES, _CLOSE, _PING, _PONG):
            return
        if size > _SHORT:
            if opcode >= _CLOSE:
                return
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        mask = stream.read(4)
        if opcode < _CLOSE:
            yield from _unmasked(stream, size, mask)
            continue
        payload = b"".join(_unmasked(stream, size, mask))
        if opcode != _PONG:
            send(frame(payload, _PONG if opcode == _PING else _CLOSE))
        if opcode == _CLOSE:
            return


def _unmasked(stream: BinaryIO, size: int, mask: bytes) -> Iterator[bytes]:
    """Yields a payload in pieces, as far as it arrives."""
    whole = mask * (_PIECE // 4)
    while size > 0:
        piece = stream.read(min(size, _PIECE))
        if not piece:
            return
        size -= len(piece)
        key = int.from_bytes(whole[: len(piece)], "little")
        yield (int.from_bytes(piece, "little") ^ key).to_bytes(len(piece), "little")
