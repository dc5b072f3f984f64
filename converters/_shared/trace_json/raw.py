"""JSON texts that are checked, but not read: the elements of a list, the members of an object."""

from __future__ import annotations

import msgspec

Raw = msgspec.Raw

#: The elements of a JSON list. Raises msgspec.DecodeError, and RecursionError where it is nested too deeply.
elements_of = msgspec.json.Decoder(list[Raw]).decode

#: The members of a JSON object, likewise.
members_of = msgspec.json.Decoder(dict[str, Raw]).decode
