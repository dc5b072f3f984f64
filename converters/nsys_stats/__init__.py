"""Reports of Nsight Systems: the output of `nsys stats`, or a table copied from the window (2019 to 2026).

     ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

     Time (%)  Total Time (ns)  Instances  Avg (ns)  ...  Name
     --------  ---------------  ---------  --------       ------------------
         57.0    1,266,000,000        192   6596000  ...  nvjet_tst_320x128…

A copy from the window has tabs between the cells and a unit in each: `57.0% →1.266 s →192 →6.596 ms →nvjet…`.
"""
