"""A report of Nsight Compute (`.ncu-rep`): launches with all their metrics, what the rules say, PM samples.

    4E 56 52 00   length  file header       1: version (7)
    length  block header                    1, 2, 7, 8, 9: how many entries   4: strings   5: bytes behind it
      length  source, length  launch, ...   the payload
    length  block header ...

All lengths have 32 bits, little endian; what they count is protobuf. NVIDIA documents the container (Customization
Guide, "Report File Format") and ships the definitions of the messages with the product. Nsight Compute 2022 to 2024
write version 7.

A metric says its name as a number of a string, which may stand in a later block: all strings are read first.
A launch has no begin and no end. Samples of PM sampling have times, of other replays of the kernel.
"""
