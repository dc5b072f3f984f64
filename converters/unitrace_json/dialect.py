"""The dialect of unitrace: categories of device work, calls and the system."""

from __future__ import annotations

from ktrace.kit.trace_json.dialect import Dialect, Rule

DIALECT = Dialect(
    cats={
        "gpu_op": Rule("kernel"),
        "cpu_op": Rule("api"),
        "os_op": Rule("range"),
    },
)
