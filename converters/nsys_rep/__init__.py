"""Reports of Nsight Systems: a closed format that NVIDIA's own program exports to SQLite.

run.nsys-rep     NVIDIA Tegra Profiler Report 1.…    nsys export --type sqlite -o run.sqlite run.nsys-rep
run.qdrep        the same, before 2021.4

ktrace doesn't parse the report itself. Without an nsys on this machine, the error names the command.

Finds NVIDIA's nsys: named in KTRACE_NSYS, on PATH, or in a folder where it is usually installed.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from shlex import quote

from ktrace.kit import Format, Match, Sample, Score

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
    folders = [Path(path) for pattern in _FOLDERS for path in sorted(glob.glob(pattern), key=_version, reverse=True)]  # noqa: PTH207
    # Never the folder that ktrace was started in (an empty element of PATH): the input may have brought an nsys.
    places = [folder for folder in (*on_path, *homes, *folders) if folder.is_absolute()]
    found = [path for folder in places if (path := folder / _NAME).is_file() and os.access(path, os.X_OK)]
    unique: dict[Path, Path] = {}
    for path in found:
        unique.setdefault(path.resolve(), path)
    return list(unique.values())


_NAME = "nsys.exe" if os.name == "nt" else "nsys"


def _version(path: str) -> list[int]:
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


FORMAT = Format(
    "nsys-rep",
    "Nsight Systems report, read through NVIDIA's nsys",
    patterns=("*.nsys-rep", "*.qdrep"),
    probe=probe,
    via="nsys",
    export="ktrace.converters.nsys_rep.export:exported",
    closed=True,
)
