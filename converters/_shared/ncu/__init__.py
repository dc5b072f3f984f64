"""What every reader of Nsight Compute shares: launches with their metrics as rows, names of metrics, units, numbers."""
