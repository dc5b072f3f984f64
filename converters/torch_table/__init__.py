"""The tables that PyTorch's `prof.key_averages().table()` and `prof.table()` print, of all versions and columns.

---------------------  ------------  ------------  ------------  ------------  ------------
                 Name    Self CPU %      Self CPU     CPU total     Self CUDA    # of Calls
---------------------  ------------  ------------  ------------  ------------  ------------
             aten::mm         1.20%     120.000us     150.000us     900.000us             3
      volta_sgemm_128         0.00%       0.000us       0.000us     900.000us             3
---------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 10.000ms
Self CUDA time total: 900.000us

torch/autograd/profiler_util.py (`_build_table`) writes it; up to PyTorch 1.7 it was torch/autograd/profiler.py.
"""
