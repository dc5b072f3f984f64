"""The path through host and device that decides how long a step takes.

work ──► device, host_threads ──► walk ──► path ──► shares

device        what allowed each piece of device work to begin; where the host waits for devices, and streams for events
host_threads  what the threads of the host did, and which one the path goes on in
walk          the times whose path is looked for, and the walk from their end back to their start
path          the path as columns, with the names of its pieces, and as slices of a timeline
shares        the question of `ktrace summary --by critical-path`, its answer and tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Explanation
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at, in addition to those of any summary.
COLUMNS = frozenset({"args"})


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question what decides how long steps take."""
    from ktrace.analysis.critical_path.shares import CriticalPath

    return CriticalPath()
