"""What is compiled, where it could be built: `compiled` is the extension module, or None.

Where there was no compiler, or `KTRACE_NATIVE=0` is set, Python gives the same rows, lanes and messages. Compiled code
raises TypeError or ValueError, with the name of the argument, for arrays of another type or length, with gaps or not
aligned, and for numbers that point outside of others.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

#: INTERFACE of module.h. A checkout that was updated and not installed again has an older build.
_INTERFACE = 3


def _compiled() -> Any:
    if os.environ.get("KTRACE_NATIVE", "1") == "0":
        return None
    try:
        module = import_module("ktrace.native.compiled")
    except ImportError:
        return None
    return module if getattr(module, "interface", 1) == _INTERFACE else None


compiled: Any = _compiled()
