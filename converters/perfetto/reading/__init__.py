"""Packets as batches."""
