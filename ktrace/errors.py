"""The errors that ktrace raises: one tree, each message with file, place, expectation and remedy."""

from __future__ import annotations


class KtraceError(Exception):
    """What went wrong, where, what was expected and what to do about it.

    Every part but the first is optional; `str()` joins them into one message for people.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.path = path
        self.where = where
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.path, self.where) if part)
        lines = [f"{place}: {self.what}" if place else self.what]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


class InputError(KtraceError):
    """The input can't be opened: it is missing, empty, a folder, not permitted."""


class UnknownFormat(InputError):
    """No format knows the input. The message names those that came nearest, and why not."""


class AmbiguousFormat(InputError):
    """Two formats claim the input with equal certainty."""


class ClosedFormat(InputError):
    """The input is a vendor's closed format. The remedy is the vendor's export command."""


class DamagedInput(InputError):
    """The input is of the format, but too broken to go on."""


class VersionError(InputError):
    """The input was written to another major version of the model."""


class StrictFailure(KtraceError):
    """Something had to be repaired, skipped or cut off, and `--strict` forbids it."""


class OutputError(KtraceError):
    """The output can't be written: it exists, the disk is full, the format can't be written."""


class UsageError(KtraceError):
    """The call itself is wrong: an unknown format name, options that contradict each other."""
