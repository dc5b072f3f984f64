"""What the readers of Nsight Compute share.

launches            kernel launches with their metrics, as rows
cells               many cells of numbers at once; printed units and their base units
"""
