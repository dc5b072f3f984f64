"""Timelines as packets."""
