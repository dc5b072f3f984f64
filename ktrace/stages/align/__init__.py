"""The stage that brings the times of several sources to the clock of the first one.

wanted        the rule that the user asks for
moves         how times move: an offset, and drift
clocks        moves by unix time, which clocks of sources record
matching      which collectives of two ranks are the same one
collectives   moves by the collectives that ranks take part in together
stage         moves the batches that pass
"""

from __future__ import annotations

from ktrace.stages.align.stage import aligned
from ktrace.stages.align.wanted import Align

__all__ = ["Align", "aligned"]
