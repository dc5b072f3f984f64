"""The dialect of rpd2tracing: `desc` is the operation's kind for device work, the arguments for calls."""

from __future__ import annotations

import re

from ktrace.kit.trace_json.dialect import Dialect, Rule, Sign

_DESC = ("desc",)

#: Only flows of category api_op connect calls with the work that they started.
DIALECT = Dialect(
    cats={},
    signs=(
        Sign(_DESC, Rule("kernel", place="device"), re.compile(r"KernelExecution|Task")),
        Sign(_DESC, Rule("memcpy", place="device"), re.compile(r"Copy(Host|Device)To(Host|Device)(2D|3D)?")),
        Sign(_DESC, Rule("memset", place="device"), re.compile(r"FillBuffer")),
        Sign(_DESC, Rule("sync", place="device"), re.compile(r"Barrier|MarkerDispatch")),
    ),
    other=Rule("api", kinds={"UserMarker": "range"}),
    flows={"api_op": "launch"},
    quoted=True,
)
