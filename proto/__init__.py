"""Protocol buffer sources that no published package carries (data), read with importlib.resources."""
