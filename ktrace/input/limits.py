"""Limits of what an input may make ktrace hold: no file of a few kilobytes fills the memory or the disk.

    ktrace convert big.json -o big.perfetto --limits value=2GiB
    ktrace.convert("big.json", "big.perfetto", limits="value=2GiB,ratio=none")

line         bytes of one line of a text, and of one row of a CSV
value        bytes of one value: an event of a JSON, a cell of a database, a compressed packet once it is decompressed
unpacked     bytes that any compressed input may give
references   bytes that references may give: frames of which many stacks consist, a text that many rows name
ratio        bytes that either may give beyond these, for each byte that is stored
depth        how deep compressed packets may be nested in compressed packets

The defaults are far above what profilers write, and far below what one machine has. All are here, and here alone.

Copies of inputs never fill the temporary folder: other programs need it, too.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import IO, Any, BinaryIO, ParamSpec, TypeVar

from ktrace.errors import DamagedInput, InputError, UsageError
from ktrace.scratch import Held, new_folder

#: The value of a limit that is switched off.
NONE = 1 << 62

#: The deepest nesting that any limit allows: Python's own stack ends somewhere.
_DEEPEST = 64

#: Bytes that are read at once of what may be much.
_PART = 1 << 20

_UNITS = {
    **{"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40},
    **{"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}
_EXAMPLE = "line=1GiB, value=2GiB, unpacked=4GiB, ratio=2000, depth=8; none switches a limit off"

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Limits:
    """The limits of one conversion; sizes in bytes.

    JSON in gzip is stored in a tenth to a thirtieth of its size, repeated text in a hundredth. What is all zeros is
    stored in a thousandth by gzip, and in even less by zstd. So a ratio of 500 is that of a bomb, above 256 MiB.
    """

    line: int = 128 << 20
    value: int = 256 << 20
    unpacked: int = 256 << 20
    ratio: int = 500
    references: int = 64 << 20
    depth: int = 4

    def replace(self, text: str) -> Limits:
        """Returns these limits with those that a text names: `line=1GiB,ratio=none`. Raises UsageError."""
        names = {one.name for one in fields(self)}
        sizes: dict[str, int] = {}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = (part.strip() for part in pair.partition("="))
            if name not in names:
                raise UsageError(f"there is no limit '{name}'", expected=", ".join(sorted(names)), remedy=_EXAMPLE)
            sizes[name] = _parsed(name, value)
        return replace(self, **sizes)

    def check_line(self, size: int, path: str | None, number: int) -> None:
        """Raises DamagedInput where a line, by its number from 1, has more bytes than allowed."""
        if size > self.line:
            raise exceeded("line", f"the line has more than {sized(self.line)}", path, f"line {number}", self)

    def check_inflated(self, given: int, stored: int, path: str | None) -> None:
        """Raises DamagedInput where `stored` bytes gave so many that they are a bomb."""
        if given > self.unpacked and given > stored * self.ratio:
            what = f"{sized(stored)} of compressed data give {sized(given)} and more"
            raise exceeded("ratio", f"{what}, {given // max(stored, 1):,} times as much", path, None, self)

    def check_references(self, given: int, stored: int, path: str | None) -> None:
        """Raises DamagedInput where references in `stored` bytes gave so many that they are a bomb."""
        if given > self.references and given > stored * self.ratio:
            what = f"references in {sized(stored)} give {sized(given)} and more"
            raise exceeded("references", what, path, None, self)

    def lines(self, stream: BinaryIO, size: int, number: int = 1) -> bytes:
        """Returns whole lines of about `size` bytes, b"" at the end; `number` is that of the first one.

        Raises as `check_line` does.
        """
        text = stream.read(size)
        last = self.readline(stream) if text[-1:] not in (b"", b"\n") else b""
        if len(text) + len(last) > self.line:
            begin = text.rfind(b"\n") + 1
            self.check_line(len(text) - begin + len(last), None, number + text.count(b"\n"))
        return text + last

    def readline(self, stream: BinaryIO) -> bytes:
        """Returns the next line of a stream; of a longer line than allowed a byte more than that."""
        return stream.readline(self.line + 1)

    def whole(self, stream: BinaryIO, path: str | None = None, where: str | None = None) -> bytes:
        """Returns the rest of a stream, which is one value. Raises DamagedInput if it is larger than allowed."""
        parts, size = [], 0
        while size <= self.value and (part := stream.read(_PART)):
            parts.append(part)
            size += len(part)
        if size > self.value:
            raise exceeded("value", f"has more than {sized(self.value)} that are read as a whole", path, where, self)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def sized(size: int) -> str:
    """Returns a number of bytes in words: `128 MiB`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _UNITS[unit.upper()]:
            return f"{size / _UNITS[unit.upper()]:.4g} {unit}"
    return f"{size:,} bytes"


def exceeded(
    name: str, what: str, path: str | None = None, where: str | None = None, limits: Limits | None = None
) -> DamagedInput:
    """Returns the error for what exceeds a limit: what was met, the limit, the option that changes it."""
    limits = limits or current()
    limit = getattr(limits, name)
    more = "none" if name in ("ratio", "depth") else sized(4 * limit).replace(" ", "").removesuffix("bytes")
    shown = {"ratio": f"at most {limit:,} times what is stored, above {sized(limits.unpacked)}"}
    shown |= {"depth": f"at most {limit:,} levels"}
    shown |= {"references": f"at most {sized(limit)}, or {limits.ratio:,} times what is stored"}
    return DamagedInput(
        what,
        path=path,
        where=where,
        expected=f"{shown.get(name, f'at most {sized(limit)}')} (the limit '{name}')",
        remedy=f'if you trust the file, allow more: --limits {name}={more}, in Python limits="{name}={more}"',
    )


def _parsed(name: str, text: str) -> int:
    if text.lower() == "none":
        return _DEEPEST if name == "depth" else NONE
    digits = text.rstrip("BbKkMmGgTtIi ")
    unit = text[len(digits) :].strip().upper()
    is_plain = name in ("ratio", "depth")
    try:
        size = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        size = 0.0
    if not 1 <= size < (_DEEPEST + 1 if name == "depth" else NONE) or (is_plain and unit):
        expected = "a whole number from 1 on, or none" if is_plain else "a size, such as 512MiB or 4GB, or none"
        raise UsageError(f"'{text}' isn't a value of the limit '{name}'", expected=expected, remedy=_EXAMPLE)
    return int(size)


class References:
    """The bytes that references in an input gave. `stored` returns how many it has; it is asked once they are many."""

    def __init__(self, path: str, stored: Callable[[], int]) -> None:
        self._path, self._stored, self._given, self._limits = path, stored, 0, current()

    def give(self, size: int) -> None:
        """Counts bytes. Raises DamagedInput if there are more than the limits allow."""
        self._given += size
        if self._given > self._limits.references:
            self._limits.check_references(self._given, self._stored(), self._path)


DEFAULT = Limits()

_current: ContextVar[Limits] = ContextVar("limits", default=DEFAULT)


def current() -> Limits:
    """Returns the limits in force."""
    return _current.get()


def limits_of(given: Limits | Mapping[str, Any] | str) -> Limits:
    """Returns limits as they are written in calls: "line=1GiB", {"line": "1GiB"}. Raises UsageError."""
    if isinstance(given, Limits):
        return given
    text = given if isinstance(given, str) else ",".join(f"{name}={value}" for name, value in given.items())
    return current().replace(text)


@contextmanager
def in_force(given: Limits | Mapping[str, Any] | str | None) -> Iterator[Limits]:
    """Applies these limits inside the block; None keeps the current ones. Raises UsageError."""
    token = _current.set(current() if given is None else limits_of(given))
    try:
        yield current()
    finally:
        _current.reset(token)


def limited(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Makes a function work under the limits of its argument `limits`, or of that of its `selection`."""

    @functools.wraps(function)
    def under_limits(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        given: Any = kwargs.get("limits")
        if given is None:
            given = getattr(kwargs.get("selection"), "limits", None)
        with in_force(given):
            return function(*args, **kwargs)

    return under_limits


#: Bytes that stay free: a twentieth of the disk, at most 256 MiB.
_LEFT_FREE, _PART_LEFT_FREE = 256 << 20, 20

#: Bytes that are copied at once, and those after which the free space is looked at again.
_BLOCK = 1 << 20
_BETWEEN = 16 << 20


def require_disk_space(size: int, folder: str, path: str) -> None:
    """Raises InputError if a copy of so many bytes of the input would fill the disk of the folder."""
    total, _, free = shutil.disk_usage(folder)
    if free - size < min(_LEFT_FREE, total // _PART_LEFT_FREE):
        raise InputError(
            f"is too small for its copy: {folder} has {sized(free)} left",
            path=path,
            expected="disk space for the decompressed input in the folder of temporary files",
            remedy="set TMPDIR to a folder on a larger disk, or decompress it yourself",
        )


def copied(stream: IO[bytes], target: IO[bytes], folder: str, path: str) -> None:
    """Copies a stream to a file in the folder of temporary files. Raises InputError before the disk is full."""
    done = 0
    while block := stream.read(_BLOCK):
        if done % _BETWEEN < len(block):
            require_disk_space(_BETWEEN, folder, path)
        target.write(block)
        done += len(block)


def temporary_copy(stream: IO[bytes], name: str, path: str) -> Held:
    """Copies a stream to a file of this name in a new temporary folder; returns the folder, which the caller removes.

    Raises as `copied` and the stream do; then no folder stays.
    """
    held = new_folder()
    try:
        with (held.path / name).open("wb") as target:
            copied(stream, target, str(held.path), path)
    except BaseException:
        held.remove()
        raise
    return held
