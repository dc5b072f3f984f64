"""The dialect of onetrace: no categories; numbers in quotes."""

from __future__ import annotations

from ktrace.kit.trace_json.dialect import Dialect, Rule

DIALECT = Dialect(cats={}, other=Rule("api"), quoted=True)
