"""The dialect of the layer: no categories; ids connect calls with their work, and flows repeat them."""

from __future__ import annotations

from ktrace.kit.trace_json.dialect import Dialect, Into, Rule

DIALECT = Dialect(
    cats={},
    other=Rule("api", columns={"id": Into("correlation")}),
    flows={"Commands": None},
)
