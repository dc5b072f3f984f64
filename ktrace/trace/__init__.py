"""A trace in a notebook: pandas frames, tables for HTA."""
