"""Gives the replayed kernels of a graph the operators that launched them when the graph was captured.

    the capture                                         the replay
    aten::addmm                                         hipGraphLaunch   correlation 9
      hipExtModuleLaunchKernel  kernel Cijk_...    ──►    Cijk_...       correlation 9     args.operator  aten::addmm
    StreamBeginCapture ... StreamEndCapture

gather     finds captures and replays among the rows of a trace
matching   finds the captured call of each replayed kernel
attach     does both, and attaches what is known of the calls to the rows
"""

from __future__ import annotations

from ktrace.stages.replays.attach import Arrows, captures_of, with_captures, with_own_captures

__all__ = ["Arrows", "captures_of", "with_captures", "with_own_captures"]
