"""What the host's operators, modules, ranges and calls cost on devices.

spans ──► costs ──► forest ──► answer

costs     the question: collects, nests and adds up; what the name of a span means
forest    the span around each span and around each launching call, and the call tree
answer    the answers and their tables
passes    forward and backward pass, recomputation, optimizer; the forward operators of backward ones
"""

from __future__ import annotations

from ktrace.analysis.hosts.costs import COLUMNS, questions, tree

__all__ = ["COLUMNS", "questions", "tree"]
