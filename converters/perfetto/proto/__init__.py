"""What the wire says: field numbers, varints, and what ktrace keeps beside the packets."""
