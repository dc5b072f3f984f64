"""The stage that brings the times of several sources to the clock of the first one.

wanted        the rule that the user asks for
moves         how times move: an offset, and drift; by unix time, which clocks of sources record
collectives   moves by the collectives that ranks take part in together, and which of these are the same one
stage         moves the batches that pass
"""

from __future__ import annotations

from ktrace.stages.align.stage import aligned
from ktrace.stages.align.wanted import Align

__all__ = ["Align", "aligned"]
