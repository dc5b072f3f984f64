"""Texts that a sequence interns: from its second use on, a number replaces a text."""

from __future__ import annotations

from ..proto import field_numbers as f
from ..proto.wire import bytes_tag, int_field, int_tag, varint

#: Bytes of texts of one kind that are kept in order to intern them; further texts are spelled out.
REMEMBERED = 16 << 20

# The field numbers are the same in EventName, EventCategory, DebugAnnotationName, InternedString and the like.
_IID = f.EVENT_NAME["iid"]
_TEXT = bytes_tag(f.EVENT_NAME["name"])


class InternedTexts:
    """Texts (UTF-8) of one kind.

    `entries` is the field of InternedData; `iid` and `text` are the fields of the user that contain a number or the
    text. New entries gather in `fresh`.
    """

    def __init__(self, entries: int, iid: int, text: int) -> None:
        self.fresh: list[bytes] = []
        self._entries = bytes_tag(entries)
        self._iid = int_tag(iid)
        self._text = bytes_tag(text)
        self._known: dict[bytes, bytes] = {}
        self._seen_once: set[bytes] = set()
        self._budget = REMEMBERED

    def field(self, text: bytes, *, often: bool = True) -> bytes:
        """Returns the field of a text: a number if the text is used `often` or was used before."""
        known = self._known.get(text)
        if known is not None:
            return known
        if text in self._seen_once:
            self._seen_once.discard(text)
            return self._intern(text)
        if self._budget >= len(text):
            self._budget -= len(text)
            if often:
                return self._intern(text)
            self._seen_once.add(text)
        return self._text + varint(len(text)) + text

    def _intern(self, text: bytes) -> bytes:
        number = len(self._known) + 1
        entry = int_field(_IID, number) + _TEXT + varint(len(text)) + text
        self.fresh.append(self._entries + varint(len(entry)) + entry)
        field = self._known[text] = self._iid + varint(number)
        return field


def fresh(*texts: InternedTexts) -> bytes:
    """Returns the entries of InternedData that are new since the last call."""
    entries = b"".join(entry for interned in texts for entry in interned.fresh)
    for interned in texts:
        interned.fresh.clear()
    return entries
