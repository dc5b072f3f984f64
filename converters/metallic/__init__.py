"""Statistics that Metallic's tools/analyze_jsonl.py (github cchance27/test-burn) prints from its raw JSON Lines.

    === Analyzing /tmp/prof.jsonl ===
    Total events: 179225

    GPU kernel aggregate (by kernel type):
      gemv (C): count=145 | total=365.77ms | avg=2.523ms | min=2.134ms | max=2.781ms | p95_ms=2.735ms, p99_ms=2.749ms

Sections repeat each other (a top 20 of kernels, the same by type, the same by shape) and nest (an iteration
contains a forward step, which contains blocks), so their totals can't be added up.
"""
