"""Worlds with known truth: a simulator of hosts, threads, streams, copies, events, graphs and ranks, with a seed.

    from worlds import Truth, build, plants, write

    world = build(7)                                                # some hundred to two thousand kernels, no fault
    world = build(7, plants=[plants.slow_kernel("gemm", 1.1)])      # the same with one thing planted
    world = build(7, run=1)                                         # the same with other noise
    path = write(world, tmp_path / "a.json")                        # Kineto; `rank=` for one of several
    ktrace.summary(path, by=["idle"]).answers["idle"]               # ask
    Truth(world).gaps()                                             # what is true

`databases` writes nsys SQLite, rocpd and XPlane. `graph` says when things happen, `programs` what hosts do, `world`
carries it out, `plants` changes it, `truth` tells.
"""

from __future__ import annotations

from . import plants
from .kineto import write
from .truth import Collective, Gap, Truth, Use, collectives, waited_for
from .world import World, build

__all__ = ["Collective", "Gap", "Truth", "Use", "World", "build", "collectives", "plants", "waited_for", "write"]
