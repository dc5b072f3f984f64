"""What changed between two traces: what `ktrace diff` computes."""
