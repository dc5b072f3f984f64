"""The errors that ktrace raises: one hierarchy, each message with file, place, expectation and remedy."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


#: How users are allowed to read the counters of NVIDIA's devices, without which ncu and nvprof profile no kernel.
ALLOW_COUNTERS = (
    "profile with sudo, or allow it for all users: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in "
    "/etc/modprobe.d/, then reboot (Windows: NVIDIA Control Panel, Developer, Manage GPU Performance Counters)"
)


class KtraceError(Exception):
    """An error with its place, the expectation and a remedy.

    Every part but the first is optional; `str()` joins them into one message.
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

    @property
    def kind(self) -> str:
        """The kind of error for programs: `unknown_format`, `damaged_input`, `usage`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__.removesuffix("Error")).lower()

    def document(self) -> dict[str, str | None]:
        """Returns the error for programs; a part that isn't known is None."""
        parts = {"file": self.path, "place": self.where, "expected": self.expected, "remedy": self.remedy}
        return {"kind": self.kind, "message": self.what, **parts}

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.path, self.where) if part).replace("\n", "\\n")
        lines = [f"{place}: {self.what}" if place else self.what]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.remedy:
            lines.append(f"  hint: {self.remedy}")
        return "\n".join(lines)


class InputError(KtraceError):
    """The input can't be opened: it is missing, empty or a folder, or access is denied."""


class UnknownFormat(InputError):
    """No format recognises the input. The message names the nearest formats and why they don't match."""


class AmbiguousFormat(InputError):
    """Two formats claim the input with equal certainty."""


class ClosedFormat(InputError):
    """The input is a vendor's closed format. The remedy is the vendor's export command."""


class DamagedInput(InputError):
    """The input has the format, but is too damaged to read."""


class VersionError(InputError):
    """The input was written for another major version of the model."""


class StrictFailure(KtraceError):
    """Something had to be repaired or skipped, or the input is cut off, and `--strict` forbids it."""


class OutputError(KtraceError):
    """The output can't be written: it exists, the disk is full, or ktrace doesn't write the format."""


class InternalError(KtraceError):
    """An invariant of ktrace is broken, such as an account that doesn't add up: a bug, whatever the input."""


class UsageError(KtraceError):
    """The call itself is wrong: an unknown format name, or options that contradict each other."""


def import_extra(
    module: str,
    extra: str,
    purpose: str,
    *,
    hint: str = "",
    path: str | None = None,
    error: type[KtraceError] = InputError,
) -> Any:
    """Imports and returns a module of an optional package, which the extra `ktrace[extra]` installs.

    Raises `error` if the package isn't installed. Its remedy is the pip command, followed by `hint`.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise error(f"{purpose} needs {package}", path=path, remedy=f'pip install "ktrace[{extra}]"{hint}') from None


def error_text(error: BaseException) -> str:
    """An exception as one line for a message: `ValueError: no digits`."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
