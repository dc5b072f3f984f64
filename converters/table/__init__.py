"""Any table in text with a column of names and one of times: Markdown, TSV, CSV or fixed width.

People's own scripts and tools without a room of their own write them:

    | Kernel   | Time (ms) | Calls |
    |----------|----------:|------:|
    | gemm_f16 |     1,024 |     3 |
"""
