"""The words of rpd2tracing: work has the kind of its operation in `desc`, calls have their arguments there."""

from __future__ import annotations

import re

from ktrace.converters._shared.trace_json.dialect import Dialect, Rule, Sign

_DESC = ("desc",)

#: Flows of category api_op say which call started which work; nothing else does.
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
