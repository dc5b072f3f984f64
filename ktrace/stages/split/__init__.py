"""A trace in parts: by time, by size, by step."""
