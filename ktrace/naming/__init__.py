"""Names of device work.

taxonomy      operation, library, precision and layer, by rules
short_names   short names of kernels
spelling      names of kernels that tools demangle differently
"""
