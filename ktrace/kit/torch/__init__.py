"""What PyTorch's dumps share: memory snapshots and the flight recorder.

pickles     pickles of plain values, read without running anything
stacks      stacks, each distinct one a fact of the catalog
"""
