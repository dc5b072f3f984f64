"""Measures what an input of twice the size costs: at most 2.6 times the time and 1.3 times the memory.

    python -m tests.budget                                    all formats, all shapes, to Perfetto and Parquet
    python -m tests.budget --format nsys --shape names        one of each
    python -m tests.budget --format kineto --shape row --size 4000000

Inputs are made of samples. Each format declares a row of one of its samples, and where the name, the times, the track
and the number are in it (`rows`). A shape says how many rows there are and what is in them (`shapes`): very many tiny
rows, names or tracks, a thousand open slices on one track, or one row or one text that is very long. `texts`, `stores`
and `messages` write them as text, as a database or a table of Arrow, and as messages of protobuf.

`measure` converts an input in a process of its own and returns its CPU time and the greatest anonymous memory. The size
is doubled until a conversion takes long enough to be compared. `judge` compares an input with one of twice its size;
what is over the budget is measured again with the double of that, so that neither noise nor a step that ends (such as
a buffer that fills up) counts. `held` lists what conversions hold in memory by their nature, with figures and reasons:
the only exceptions. `selection` is what the nightly run measures (`--selection`).
"""
