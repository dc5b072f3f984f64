"""Intel's tracers of OpenCL and Level Zero.

names       names of device work, with SIMD width, sizes, groups and bytes in them
tracks      rows on tracks of their own, such as queues, as device work
"""
