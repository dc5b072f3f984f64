"""A module or a package for each format, with its probe, reader and writer side by side."""
