"""OpenTelemetry spans (OTLP): JSON, protobuf, and what the console exporter of the Python SDK prints.

    {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"vllm.llm_engine"}}]},
      "scopeSpans":[{"scope":{"name":"vllm"},"spans":[{"traceId":"5b8e...","spanId":"eee1...","parentSpanId":"",
        "name":"llm_request","kind":2,"startTimeUnixNano":"1724000000000000123","endTimeUnixNano":"..."}]}]}]}

A file is one document or a document per line (the collector's file exporter); protobuf is one message, or messages that
follow their length: 4 bytes, big endian (the collector's file exporter, each message perhaps in zstd), or a varint
(OpenTelemetry's file exporter specification). The console exporter prints an object per span, between other text.

probe      recognises the format
reader     spans as rows
documents  JSON text, small documents whole and large ones span by span
messages   protobuf as the objects that JSON has
console    the console exporter's objects as those of OTLP
spans      checks an object and makes a span of it
places     processes, tracks and lanes of all spans, and their parents
writer     timeline -> OTLP JSON, with these modules:
attributes columns and arguments as attributes
"""
