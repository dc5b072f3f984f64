"""What is compiled, where it could be built: `compiled` is the extension module, or None.

Everything in it has an equal in Python that gives the same results and runs where there was no compiler, or where
`KTRACE_NATIVE=0` is set.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt


def _compiled() -> Any:
    if os.environ.get("KTRACE_NATIVE", "1") == "0":
        return None
    try:
        return import_module("ktrace.native.compiled")
    except ImportError:
        return None


compiled: Any = _compiled()


def address(array: npt.NDArray[np.generic]) -> int:
    """Where the values of an array begin in memory. The caller keeps the array until they were used."""
    if not array.flags.c_contiguous:
        raise ValueError("values with gaps between them")
    found: int = array.__array_interface__["data"][0]
    return found
