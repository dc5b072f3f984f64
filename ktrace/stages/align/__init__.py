"""Times of several sources in the clock of the first one.

`wanted` says which rule, `moves` how times move, `clocks` moves by the time of day, `collectives` by what all ranks
wait for together, `stage` applies it to the batches that pass.
"""

from __future__ import annotations

from ktrace.stages.align.stage import aligned
from ktrace.stages.align.wanted import Align

__all__ = ["Align", "aligned"]
