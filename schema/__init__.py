"""The canonical JSON Schema and other data that describes the model, read with importlib.resources."""
