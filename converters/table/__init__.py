"""Any table in text with a column of names and a column of times: Markdown, TSV, CSV or fixed width.

Users' scripts, and tools without a room of their own, write them:

    | Kernel   | Time (ms) | Calls |
    |----------|----------:|------:|
    | gemm_f16 |     1,024 |     3 |
"""
