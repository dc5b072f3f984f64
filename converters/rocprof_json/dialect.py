"""The dialect of rocprof's JSON: kernels have their name in the arguments, HIP's operations the number of their GPU."""

from __future__ import annotations

import re

from ktrace.kit.trace_json.dialect import Dialect, Rule, Sign

_NAMED = (
    (re.compile(r"(async[-_ ]?)?(mem)?copy", re.IGNORECASE), "memcpy"),
    (re.compile(r"fill|memset", re.IGNORECASE), "memset"),
    (re.compile(r"<?barrier|marker", re.IGNORECASE), "sync"),
)

DIALECT = Dialect(
    cats={},
    signs=(Sign(("KernelName",), Rule("kernel")), Sign(("dev-id",), Rule("kernel", named=_NAMED))),
    other=Rule("api", named=_NAMED),
    flows={"DataFlow": "launch"},
    quoted=True,
)
