"""The stage that attaches the metrics of one tool to the kernels that another tool timed.

stage             reads launches with their metrics and adds these to a timeline
launch_matching   finds the kernel of each launch
"""
