"""The table that PyTorch's FlopCounterMode prints: floating point operations by module and operator, without times.

Module             FLOP    % Total
------------  ---------  ---------
MLP           1294.336K    100.00%          a module: all work inside it
- aten.addmm   606.208K     46.84%          an operator in this module or in one inside it
MLP.a         1048.576K     81.01%

torch/utils/flop_counter.py (`get_table`) prints it with `tabulate`. Older versions of that indent names by their depth.
One suffix (K, M, B, T: powers of 1000) is chosen for the whole table, with three decimals.
"""
