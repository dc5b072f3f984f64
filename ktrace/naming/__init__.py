"""Names of device work.

taxonomy      operation, library, precision and layer, by rules
short_names   short names of kernels
collectives   operations of collectives
demangling    names that C++ compilers encoded, decoded
mangled       values, expressions and limits of such names
spelling      names of kernels that tools demangle differently
near          names near to one that doesn't exist, for messages
"""
