"""The extensions of gpu_extensions.proto as a descriptor, without the compiler `protoc`.

    pool, file = load()
    file.extensions_by_name["gpu_correlation"].number
    message_class("Trace").FromString(data)

It parses the small part of the language that our file uses: messages of plain fields, and `extend`. The reader of
textproto, the generator of field numbers and tests use it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

SOURCE = Path(__file__).with_name("gpu_extensions.proto")

_BLOCK = re.compile(r"(message|extend)\s+([\w.]+)\s*\{([^}]*)\}")
_FIELD = re.compile(r"(optional|repeated)\s+([\w.]+)\s+(\w+)\s*=\s*(\d+)\s*;")
_Field = descriptor_pb2.FieldDescriptorProto


@cache
def load() -> tuple[descriptor_pool.DescriptorPool, Any]:
    """Returns a pool with Perfetto's messages and our extensions of them, and the descriptor of our file."""
    pool = descriptor_pool.DescriptorPool()
    base = descriptor_pb2.FileDescriptorProto()
    trace.DESCRIPTOR.CopyToProto(base)
    pool.Add(base)
    pool.Add(_parsed(SOURCE.read_text("utf-8")))
    return pool, pool.FindFileByName(SOURCE.name)


@cache
def message_class(name: str) -> Any:
    """Returns the class of a message of Perfetto or of our file, such as `Trace`, which knows our extensions."""
    pool, file = load()
    names = [file.name, *(dependency.name for dependency in file.dependencies)]
    classes = message_factory.GetMessageClassesForFiles(names, pool)
    return next(found for full_name, found in classes.items() if full_name.endswith(f".protos.{name}"))


def _parsed(text: str) -> descriptor_pb2.FileDescriptorProto:
    text = re.sub(r"//[^\n]*", "", text)
    (package,) = re.findall(r"package\s+([\w.]+);", text)
    file = descriptor_pb2.FileDescriptorProto(name=SOURCE.name, package=package, syntax="proto2")
    file.dependency.extend(re.findall(r'import\s+"([^"]+)";', text))
    for word, name, body in _BLOCK.findall(text):
        fields = file.message_type.add(name=name).field if word == "message" else file.extension
        for label, kind, field, number in _FIELD.findall(body):
            made = fields.add(name=field, number=int(number), label=getattr(_Field, f"LABEL_{label.upper()}"))
            if word == "extend":
                made.extendee = f".{name}"
            _set_type(made, kind, package)
    return file


def _set_type(field: Any, kind: str, package: str) -> None:
    if hasattr(_Field, f"TYPE_{kind.upper()}"):
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    else:  # a message or an enum; the pool finds out which
        field.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
