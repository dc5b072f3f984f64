"""What the profilers of ROCm share."""
