"""Reports of Nsight Systems: a closed format that NVIDIA's own program exports to SQLite.

run.nsys-rep     NVIDIA Tegra Profiler Report 1.…    nsys export --type sqlite -o run.sqlite run.nsys-rep
run.qdrep        the same, before 2021.4

ktrace doesn't parse the report itself. Without an nsys on this machine, the error names the command.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat, DamagedInput, InputError, OutputError
from ktrace.input.files import is_name_of_open
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.scratch import scratch_folder

#: The environment variable with the path of nsys; "" means that no nsys may be used.
VARIABLE = "KTRACE_NSYS"

#: Patterns of folders, in the order in which they are searched; within a pattern the newest comes first.
_FOLDERS = (
    "/opt/nvidia/nsight-systems*/*/bin",
    "/opt/nvidia/nsight-systems*/*/target-linux-*",
    "/usr/local/cuda*/bin",
    "/opt/nvidia/hpc_sdk/*/*/profilers/Nsight_Systems/bin",
    "/usr/lib/nsight-systems/bin",
    "/usr/lib/*-linux-gnu/nsight-systems/target-linux-*",
    "C:/Program Files/NVIDIA Corporation/Nsight Systems */target-windows-*",
)


def programs() -> list[Path]:
    """Returns every nsys on this machine, in the order in which they should be tried."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return [Path(named)] if named else []
    on_path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    homes = [Path(home) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    folders = [Path(one) for pattern in _FOLDERS for one in sorted(glob.glob(pattern), key=_numbers, reverse=True)]  # noqa: PTH207
    # Never the folder that ktrace was started in (an empty element of PATH): the input may have brought an nsys.
    places = [folder for folder in (*on_path, *homes, *folders) if folder.is_absolute()]
    paths = [path for folder in places if (path := folder / _NAME).is_file() and os.access(path, os.X_OK)]
    unique: dict[Path, Path] = {}
    for path in paths:
        unique.setdefault(path.resolve(), path)
    return list(unique.values())


_NAME = "nsys.exe" if os.name == "nt" else "nsys"


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


_MAGIC = b"NVIDIA Tegra Profiler Report"
_ENDINGS = (".nsys-rep", ".qdrep")


def probe(sample: Sample) -> Match | None:
    """MAGIC, with the export command as remedy if this machine has no nsys."""
    name = sample.name.lower()
    if sample.head.startswith(_MAGIC):
        why = f"begins with '{_MAGIC.decode()}'"
    elif sample.listing is None and name.endswith(_ENDINGS):
        why = f"its name ends in '{name[name.rindex('.') :]}'"
    else:
        return None
    what = f"is a report of NVIDIA Nsight Systems, which only nsys can read ({why})"
    return Match(Score.MAGIC, what, None if programs() else command(sample.name))


def command(name: str) -> str:
    """Returns the command that exports a report, to be pasted into a shell."""
    name = f"./{name}" if name.startswith("-") else name
    made = f"{name.rsplit('.', 1)[0] or name}.sqlite"
    return f"nsys export --type sqlite --lazy=false -o {quote(made)} {quote(name)}"


#: The message of an nsys that a newer release made the report, and that release: form of 2022.4, form since 2023.
_NEWER = re.compile(r"Version number is invalid: ([0-9@]+)|created in Nsight Systems version \(([0-9.]+)")

_VERSION = re.compile(r"version ([0-9][0-9.]*)")
_PERCENT = re.compile(rb"(\d{1,3})%")

#: Seconds to wait for nsys after SIGTERM before it is killed.
_PATIENCE = 5

#: The most characters of nsys' output that a message quotes.
_MOST_QUOTED = 400


@dataclass
class Failure:
    """Why an nsys could not export a report; `made_by` is the newer release that made it, "" for any other cause."""

    program: Path
    reason: str
    made_by: str = ""


@contextmanager
def exported(source: Source, conversion: Conversion) -> Iterator[Source]:
    """Provides the source with its SQLite export in place of the report.

    With the option `keep_export` the export is next to the report, else in a temporary folder. Raises ClosedFormat if
    there is no nsys, or all are older than the report, DamagedInput if one of them can't read it.
    """
    with (
        source.local_path() as path,
        scratch_folder() as folder,
    ):
        kept = _kept_path(source) if conversion.options.get("keep_export") else None
        if kept is not None and kept.exists():
            yield source.with_stand_in(kept)
            return
        # A name that is known to this process alone is no name for nsys.
        report = Path(shutil.copyfile(path, folder / source.name)) if is_name_of_open(path) else path
        database = folder / f"{report.stem}.sqlite"
        _export(source, report, database, conversion)
        if kept is not None:
            shutil.move(database, kept)
        yield source.with_stand_in(kept or database)


def _kept_path(source: Source) -> Path:
    """Returns where the export of a report is kept. Raises OutputError if it can't be kept there."""
    report = Path(source.path)
    if not report.is_file():
        raise OutputError(
            "isn't a file, so its export can't be kept next to it", path=source.path, remedy="leave out --keep-export"
        )
    kept = report.with_suffix(".sqlite")
    if kept.exists() and kept.stat().st_mtime < report.stat().st_mtime:
        raise OutputError(
            f"is older than {report.name}", path=str(kept), remedy="remove it, or leave out --keep-export"
        )
    return kept


def _export(source: Source, report: Path, database: Path, conversion: Conversion) -> None:
    """Exports with the first nsys that can."""
    failures: list[Failure] = []
    for program in programs():
        failure = _export_with(program, report, database, conversion)
        if failure is None:
            return
        database.unlink(missing_ok=True)  # an older nsys exports a newer report without events
        failures.append(failure)
    if not failures:
        raise ClosedFormat(
            "is a report of NVIDIA Nsight Systems, which only nsys can read, and none was found",
            path=source.path,
            remedy=f"set {VARIABLE} to its path, or run: {command(source.name)}",
        )
    raise _refusal(source, failures)


def _refusal(source: Source, failures: list[Failure]) -> InputError:
    newer = [failure.made_by for failure in failures if failure.made_by]
    reasons = "; ".join(f"{failure.program} ({_version(failure.program)}): {failure.reason}" for failure in failures)
    if not newer:
        return DamagedInput(
            f"can't be exported: {reasons}",
            path=source.path,
            expected="a complete report of NVIDIA Nsight Systems",
            remedy=f"set {VARIABLE} to the nsys that made it, or export it with that one: {command(source.name)}",
        )
    release = ".".join(newer[0].split(".")[:2])
    return ClosedFormat(
        f"was made by Nsight Systems {newer[0]}, which is newer than the nsys on this machine: "
        + ", ".join(f"{_version(failure.program)} ({failure.program})" for failure in failures),
        path=source.path,
        remedy=f"install Nsight Systems {release} or newer, or set {VARIABLE} to its nsys, or export the report "
        f"where it was made: {command(source.name)}",
    )


def _export_with(program: Path, report: Path, database: Path, conversion: Conversion) -> Failure | None:
    """Exports with one nsys; returns why it failed, None if it succeeded."""
    arguments = ["export", "--type", "sqlite", "--force-overwrite=true", "-o", str(database)]
    try:
        if "--lazy" in _output_of(program, "export", "--help"):
            arguments.append("--lazy=false")
        arguments += ["-q", "false" if conversion.progress else "true"]
        arguments.append(str(report.absolute()))  # a name such as --output=x isn't an option
        with tempfile.TemporaryFile() as errors:
            progress = _progress_reader(report, conversion)
            code = _run([str(program), *arguments], errors.fileno(), database.parent, progress)
            errors.seek(0)
            message = errors.read().decode("utf-8", "replace").strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Failure(program, f"can't be run: {getattr(error, 'strerror', None) or error}")
    if code == 0 and database.is_file():
        if message:
            conversion.report.issue("capture-warning", "nsys export", message[-_MOST_QUOTED:])
        return None
    match = _NEWER.search(message)
    made_by = (match[1] or match[2]).replace("@", ".").strip(".") if match else ""
    ending = f"it ended with exit code {code}" if code else "it wrote nothing"
    last = " ".join(message[max(0, message.rfind("Exportation error")) :].split())
    return Failure(program, f"{last[:_MOST_QUOTED]} ({ending})".strip(), made_by)


def _run(command: list[str], errors: int, folder: Path, advance: Callable[[bytes], None]) -> int:
    """Runs a command, with its temporary files in `folder`, and returns its exit code; an exception here ends it."""
    environment = os.environ | {"TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
    )
    try:
        assert process.stdout is not None
        while output := os.read(process.stdout.fileno(), 4096):
            advance(output)
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


def _progress_reader(report: Path, conversion: Conversion) -> Callable[[bytes], None]:
    """Returns a function that reads the progress nsys prints and passes it on as bytes of the report."""
    size, reported = report.stat().st_size, 0

    def advance(output: bytes) -> None:
        nonlocal reported
        percents = _PERCENT.findall(output)
        if percents and conversion.progress:
            now = size * min(int(percents[-1]), 100) // 100
            conversion.progress(max(0, now - reported))
            reported = max(reported, now)

    return advance


def _output_of(program: Path, *arguments: str) -> str:
    """Returns what a program prints."""
    done = subprocess.run(
        [str(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _version(program: Path) -> str:
    """Returns the release of an nsys."""
    try:
        match = _VERSION.search(_output_of(program, "--version"))
    except (OSError, subprocess.SubprocessError):
        return "unknown release"
    return match[1] if match else "unknown release"


FORMAT = Format(
    "nsys-rep",
    "Nsight Systems report, read through NVIDIA's nsys",
    patterns=("*.nsys-rep", "*.qdrep"),
    probe=probe,
    via="nsys",
    export=exported,
    beside=("{stem}.sqlite",),
    closed=True,
    prose=True,
)
