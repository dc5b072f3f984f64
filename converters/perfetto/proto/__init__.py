"""The wire format, which reading and writing share.

field_numbers  field numbers and enums of Perfetto's messages (generated)
wire           varints, tags and fields as bytes
sidecar        the JSON in which ktrace keeps what Perfetto has no field for
"""
