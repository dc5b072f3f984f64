"""Has nsys export a report to SQLite, in a folder of its own that is gone once the database is read."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat, DamagedInput, InputError, OutputError
from ktrace.input.source import Source

from .probe import command
from .programs import VARIABLE, programs

#: How an nsys says that a report was made by a newer one, and which one it was: 2022.4, since 2023.
_NEWER = re.compile(r"Version number is invalid: ([0-9@]+)|created in Nsight Systems version \(([0-9.]+)")

_VERSION = re.compile(r"version ([0-9][0-9.]*)")
_PERCENT = re.compile(rb"(\d{1,3})%")

#: Seconds that an nsys has to end when it is told to.
_PATIENCE = 5

#: Characters of what it says that are told.
_WORDS = 400


@dataclass
class Failure:
    """Why an nsys could not export a report; `made_by` is the newer release that made it, "" where that isn't why."""

    program: Path
    words: str
    made_by: str = ""


@contextmanager
def exported(source: Source, conversion: Conversion) -> Iterator[Source]:
    """The source by its SQLite export.

    With the option `keep_export` that stands beside the report, else in a temporary folder. Raises ClosedFormat where
    there is no nsys, or all are older than the report, DamagedInput where one of them can't read it.
    """
    with (
        source.local_path() as report,
        tempfile.TemporaryDirectory(prefix="ktrace.", ignore_cleanup_errors=True) as folder,
    ):
        kept = _beside(source) if conversion.options.get("keep_export") else None
        if kept is not None and kept.exists():
            yield source.with_stand_in(kept)
            return
        made = Path(folder) / f"{report.stem}.sqlite"
        _export(source, report, made, conversion)
        if kept is not None:
            shutil.move(made, kept)
        yield source.with_stand_in(kept or made)


def _beside(source: Source) -> Path:
    """Where the export of a report is kept. Raises OutputError where that can't be it."""
    report = Path(source.path)
    if not report.is_file():
        raise OutputError(
            "has no folder in which its export could be kept", path=source.path, remedy="leave out --keep-export"
        )
    kept = report.with_suffix(".sqlite")
    if kept.exists() and kept.stat().st_mtime < report.stat().st_mtime:
        raise OutputError(
            f"is older than {report.name}", path=str(kept), remedy="remove it, or leave out --keep-export"
        )
    return kept


def _export(source: Source, report: Path, made: Path, conversion: Conversion) -> None:
    """Exports by the first nsys that can."""
    failures: list[Failure] = []
    for program in programs():
        failure = _export_by(program, report, made, conversion)
        if failure is None:
            return
        made.unlink(missing_ok=True)  # what an older nsys makes of a newer report holds no events
        failures.append(failure)
    if not failures:
        raise ClosedFormat(
            "is a report of NVIDIA Nsight Systems, which only nsys can read, and none was found",
            path=source.path,
            remedy=f"name it in {VARIABLE}, or: {command(source.name)}",
        )
    raise _refusal(source, failures)


def _refusal(source: Source, failures: list[Failure]) -> InputError:
    newer = [failure.made_by for failure in failures if failure.made_by]
    told = "; ".join(f"{failure.program} ({_version(failure.program)}): {failure.words}" for failure in failures)
    if not newer:
        return DamagedInput(
            f"can't be exported: {told}",
            path=source.path,
            expected="a whole report of NVIDIA Nsight Systems",
            remedy=f"export it with the nsys that made it, named in {VARIABLE}, or: {command(source.name)}",
        )
    release = ".".join(newer[0].split(".")[:2])
    return ClosedFormat(
        f"was made by Nsight Systems {newer[0]}, which is newer than the nsys of this machine: "
        + ", ".join(f"{_version(failure.program)} ({failure.program})" for failure in failures),
        path=source.path,
        remedy=f"install Nsight Systems {release} or newer, or name its nsys in {VARIABLE}, or where it was made: "
        + command(source.name),
    )


def _export_by(program: Path, report: Path, made: Path, conversion: Conversion) -> Failure | None:
    """Exports by one nsys; why it couldn't, None where all is well."""
    arguments = ["export", "--type", "sqlite", "--force-overwrite=true", "-o", str(made)]
    try:
        if "--lazy" in _said_by(program, "export", "--help"):
            arguments.append("--lazy=false")
        arguments += ["-q", "false" if conversion.progress else "true", str(report)]
        with tempfile.TemporaryFile() as words:
            code = _run([str(program), *arguments], words.fileno(), made.parent, _advancing(report, conversion))
            words.seek(0)
            said = words.read().decode("utf-8", "replace").strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Failure(program, f"can't be run: {getattr(error, 'strerror', None) or error}")
    if code == 0 and made.is_file():
        if said:
            conversion.report.issue("capture-warning", "nsys export", said[-_WORDS:])
        return None
    found = _NEWER.search(said)
    made_by = (found[1] or found[2]).replace("@", ".").strip(".") if found else ""
    ended = f"it ended with exit code {code}" if code else "it wrote nothing"
    last = " ".join(said[max(0, said.rfind("Exportation error")) :].split())
    return Failure(program, f"{last[:_WORDS]} ({ended})".strip(), made_by)


def _run(command: list[str], words: int, folder: Path, advance: Callable[[bytes], None]) -> int:
    """Runs a command to its end, with its own temporary files in `folder`; it ends with us."""
    environment = os.environ | {"TMPDIR": str(folder)}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, env=environment)
    try:
        assert process.stdout is not None
        while said := os.read(process.stdout.fileno(), 4096):
            advance(said)
        return process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _advancing(report: Path, conversion: Conversion) -> Callable[[bytes], None]:
    """What takes the progress that nsys prints, as bytes of the report."""
    size, told = report.stat().st_size, 0

    def advance(said: bytes) -> None:
        nonlocal told
        percents = _PERCENT.findall(said)
        if percents and conversion.progress:
            now = size * min(int(percents[-1]), 100) // 100
            conversion.progress(max(0, now - told))
            told = max(told, now)

    return advance


def _said_by(program: Path, *arguments: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [str(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _version(program: Path) -> str:
    """The release of an nsys."""
    try:
        found = _VERSION.search(_said_by(program, "--version"))
    except (OSError, subprocess.SubprocessError):
        return "unknown release"
    return found[1] if found else "unknown release"
