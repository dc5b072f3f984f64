"""The alignment that the user asks for: a rule, and additional offsets of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktrace.errors import UsageError
from ktrace.tables.figures import parse_time

#: The rules, and how each is written.
RULES = ("auto", "unix", "collective", "marker", "none")


@dataclass(frozen=True)
class Align:
    """How the times of sources are converted to the clock of the first one, whose times stay.

    Parameters
    ----------
    rule : {"auto", "unix", "collective", "marker", "none"}
        auto: by unix time where the clocks have it. A source without it whose clock is of another kind begins when the
        first one does, which is a guess and reported as one.
        unix: by unix time; an error where a source doesn't have it.
        collective: by the ends of the collectives that ranks take part in together, offset and drift.
        marker: by the first event with the name `marker` (a name or a pattern) in each source.
        none: times stay as they are.
    marker : str, optional
        The name for the rule "marker".
    offsets : mapping
        Path, file name or label of an input -> ns, or text such as "+1.5ms", added to its times.
    keep_shift : bool
        By unix time: keep what was added to an input's times by hand when it was exported (nsys export --ts-shift).

    Raises
    ------
    UsageError
        The rule doesn't exist, a marker comes without the rule or the rule without a marker, an offset isn't a time.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.Align.of("marker step 3").marker
    'step 3'
    """

    rule: str = "auto"
    marker: str | None = None
    offsets: Mapping[str, int | str] = field(default_factory=dict)
    keep_shift: bool = False

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"there is no alignment '{self.rule}'", expected=", ".join(RULES))
        if (self.rule == "marker") != bool(self.marker):
            raise UsageError("a marker is for the alignment 'marker', and needed there", expected="marker NAME")
        found = {name: _ns(time) for name, time in self.offsets.items()}
        object.__setattr__(self, "offsets", found)

    @classmethod
    def of(cls, text: str, offsets: Mapping[str, int | str] | None = None) -> Align:
        """Parses a text: "auto", "unix", "collective", "none", "marker NAME" or "marker:NAME"."""
        rule, _, name = text.partition(":") if text.startswith("marker:") else text.partition(" ")
        return cls(rule, name.strip() or None, offsets or {})


def _ns(time: int | str) -> int:
    if isinstance(time, str):
        return parse_time(time)
    if type(time) is not int:
        raise UsageError(f"'{time}' isn't an offset", expected="whole ns, or text such as '+1.5ms'")
    return time
