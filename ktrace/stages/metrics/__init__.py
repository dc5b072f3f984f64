"""Metrics of one tool on the launches that another tool timed."""
