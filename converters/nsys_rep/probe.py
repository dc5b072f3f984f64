"""Recognises a report by its first bytes, else by the ending of the file's name."""

from __future__ import annotations

from shlex import quote

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

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
