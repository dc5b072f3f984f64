"""One package per format, each with its probe, reader and writer side by side."""
