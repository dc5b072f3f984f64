"""Names of device work.

taxonomy      operation, library, precision and layer, by rules; operations of collectives
short_names   short names of kernels, and one spelling of what tools demangle differently
frames        the frame that stands for a stack
phases        phases of inference, requests and tokens, by the annotations of engines
demangling    names that C++ compilers encoded, decoded
mangled       values, expressions and limits of such names
alike         names near to one that doesn't exist, for messages, and free names
"""
