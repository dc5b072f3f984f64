"""What the readers of Nsight Compute share.

launches            kernel launches with their metrics, as rows
units               printed units and their base units
cells               many cells of numbers at once
"""
