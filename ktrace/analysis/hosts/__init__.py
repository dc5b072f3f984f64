"""What the host's operators, modules, ranges and calls cost on devices.

spans ──► names ──► forest ──► paths ──► tables

names     what a name means: its group without arguments, whether it is a module, an operator, a frame of Python
backward  the forward operators of backward ones, by arrows
forest    the span around each span and around each launching call
paths     the call tree, and the figures of each path in it
calls     the calls themselves
costs     the question: collects, nests and adds up
tables    the answers as tables
"""

from __future__ import annotations

from ktrace.analysis.hosts.costs import COLUMNS, questions, tree

__all__ = ["COLUMNS", "questions", "tree"]
