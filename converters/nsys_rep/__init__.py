"""Reports of Nsight Systems: a closed format that NVIDIA's own program exports to SQLite.

run.nsys-rep     NVIDIA Tegra Profiler Report 1.…    nsys export --type sqlite -o run.sqlite run.nsys-rep
run.qdrep        the same, before 2021.4

ktrace doesn't parse the report itself. Without an nsys on this machine, the error names the command.
"""

from __future__ import annotations

from shlex import quote

from ktrace.kit import Format, Match, Sample, Score

from .programs import programs

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
