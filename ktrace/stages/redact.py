"""Names, paths and hosts as tokens, so that a trace can be shown to others: `ktrace share --redact`.

    void acme::FalconAttention<128>(float*)   ──►   void zqxvyjgwzzqv::gvyqzxwjqyvg<128>(float*)
    /home/jo/falcon/train.py(12): step        ──►   /yvqgzjwxqgyv/jzqqwvyxzgjw/qwvvzgxyqzjx/wgzyvqxjyvzq.py(12): step

What stays is public: numbers, and the words of vendors, frameworks and profilers (schema/public-words.json). A text is
read as runs of letters and digits. A run stays if it is such a word, or is made of such words (`AllReduce`, `sm90`).
Any other one becomes a token: letters of its HMAC-SHA256, the same for the same key, and none that a rule of operations
looks for. Of a path every part becomes a token, unless it is below an installed package, and of an address all of it.

Answers rest on names, so device work is labelled first; labels that rows have aren't looked for in their names again.
"""

from __future__ import annotations

import hmac
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib import resources

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import words_in
from ktrace.naming.taxonomy import Taxonomy
from ktrace.stages.names import with_operations

#: Letters of tokens, and how many a token has: 36 bits.
_LETTERS, _LENGTH = "gjqvwxyz", 12

#: An address of a network.
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")

#: A path: absolute, or with an extension at its end, or a file of source code; with the function of a frame of Python.
#: Then such an address, and a run of letters and digits.
_PART = re.compile(
    r"(?P<path>(?<![\w.>)])(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)[^\s\"'<>|:;,()\[\]{}]+"
    r"|(?<![\w.@+~/\\-])[\w.@+~-]+(?:[\\/][\w.@+~-]+)+\.[a-z][a-z0-9]{0,11}\b"
    r"|(?<![\w.@+~/\\-])[\w.@+~-]+\.(?:pyx?|ipynb|c|cc|cpp|cxx|cuh?|hip|h|hpp|rs|go|js|ts|swift)\b)"
    r"(?P<frame>(?:\(\d+\):|:\d+) [^\s\"'(),]+)?"
    rf"|(?P<address>{_ADDRESS.pattern})"
    r"|(?P<run>[^\W_]+)"
)
_RUN = re.compile(r"[^\W_]+")
_EXTENSION = re.compile(r"\.[a-z][a-z0-9]{0,11}$")

#: Where the part of a path begins that everybody has: a package that is installed, or a module of Python's own.
_INSTALLED = re.compile(
    r"(?<=[\\/])(?:(?:site|dist)-packages|python\d[\d.]*)[\\/]"
    r"|(?:^|(?<=[\\/]))(?:torch|torchvision|triton|jax|jaxlib|numpy|vllm|sglang|transformers|flashinfer|deepspeed)[\\/]"
    rf"|^(?:{'|'.join(sorted(sys.stdlib_module_names))})(?:[\\/]|\.py\b)"
)

#: Parts of any path that stay: the cache of compiled code, /tmp/torchinductor_jo/.
_CACHES = frozenset({"torchinductor"})

#: The words and numbers in a run, and how many digits a number may have: AllReduce, sm90.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DIGITS = 6
_TYPE, _NUMBER = re.compile(r"[a-z]+\d+"), re.compile(r"\d+")

#: The address of an object, whose token is one, too: <method of object at 0x7f48ddbbbf90>.
_POINTER = re.compile(r"0x[0-9a-f]+")

#: Texts that are numbers alone, such as shapes.
_NUMERIC = re.compile(r"[-+\d\s.,:;xX*/()\[\]{}%#]*")

#: A text within JSON, and whether it is a key.
_JSON_TEXT = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?')

#: Columns, arguments and facts that are private as a whole; the label of a rank says nothing.
PRIVATE = frozenset({"host", "hostname", "source", "path", "command", "model", "uuid", "bus_id", "user"})
_RANK = re.compile(r"rank ?\d+(?:#\d+)?", re.IGNORECASE)

#: Columns whose values are words of the schema.
_FIXED = frozenset({"record", "kind", "timing", "half", "link", "role", "bind", "entity", "copy_kind"})


@cache
def public_words() -> frozenset[str]:
    """The words that stay, in small letters, with `#` for each number in them; so do Python's own modules."""
    text = resources.files("ktrace").joinpath("schema/public-words.json").read_text("utf-8")
    return frozenset(json.loads(text)["words"]) | sys.stdlib_module_names


@cache
def is_public(run: str) -> bool:
    """Whether a run of letters and digits is a public word, or is made of public words and numbers of a few digits."""
    parts, words = _WORD.findall(run) if run.isascii() else [], public_words()
    if not parts or any(part.isdigit() and len(part) > _DIGITS for part in parts):
        return bool(parts) and not run.isdigit() and _masked(run) in words
    types = _TYPE.findall(run)
    return (
        {run.lower(), _masked(run)} & words != set()
        or ("".join(types) == run and words.issuperset(types))  # bf16f32
        or all(part.isdigit() or (len(part) > 1 and part.lower() in words) for part in parts)
    )


def _masked(run: str) -> str:
    return _NUMBER.sub("#", run).lower()


class Redaction:
    """Tokens for what isn't public. The same key gives the same tokens for other inputs.

    `originals` is what each token stands for, `replaced` how many there are of names, parts of paths, and addresses.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.originals: dict[str, str] = {}
        self.replaced: Counter[str] = Counter()
        self._tokens: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._before: dict[str, str] = {}  # the tokens of an earlier redaction

    def keep(self, originals: Mapping[str, str]) -> None:
        """Takes over the tokens of an earlier redaction with this key."""
        self.originals |= originals
        self._before |= {original: token for token, original in originals.items()}

    def text(self, text: str) -> str:
        """The text with what isn't public replaced."""
        if text not in self._texts:
            is_figure = _NUMERIC.fullmatch(text) and not _ADDRESS.search(text)
            self._texts[text] = text if is_figure else _PART.sub(self._replaced, text)
        return self._texts[text]

    def private(self, text: str) -> str:
        """The text with all of it replaced, unless it is the label of a rank."""
        return text if _RANK.fullmatch(text) else _RUN.sub(lambda run: self._token(run[0], "names"), text)

    def json(self, text: str, *, private: bool = False) -> str:
        """JSON with its keys and texts replaced, as a whole what is `private`; numbers stay as they are written."""
        change = self.private if private else self.text

        def replaced(match: re.Match[str]) -> str:
            nonlocal change
            word, colon = json.loads(match[1]), match[2]
            if colon:
                change = self.private if word in PRIVATE else self.text
                return json.dumps(self.text(word)) + colon
            return json.dumps(change(word))

        return _JSON_TEXT.sub(replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        if match["path"]:
            return self._path(match["path"], match["frame"] or "")
        if match["address"]:
            return self._token(match["address"], "addresses")
        return self._run(match["run"])

    def _run(self, run: str) -> str:
        return run if is_public(run) else self._token(run, "names")

    def _path(self, path: str, frame: str) -> str:
        """The parts of a path as tokens, up to an installed package, and the function behind; the extension stays."""
        installed = max((place.start() for place in _INSTALLED.finditer(path)), default=len(path))
        extension = _EXTENSION.search(path[:installed])
        stem = path[: extension.start() if extension else installed]
        public = path[len(stem) :] + (frame if installed < len(path) else "")
        private = _RUN.sub(lambda run: run[0] if run[0] in _CACHES else self._token(run[0], "parts of paths"), stem)
        if installed == len(path) and frame:
            place, _, function = frame.partition(" ")
            frame = f"{place} {self.private(function)}"
            return private + public + frame
        return private + _RUN.sub(lambda run: self._run(run[0]), public)

    def _token(self, text: str, sort: str) -> str:
        if text not in self._tokens:
            token = self._tokens[text] = self._before.get(text) or self._new_token(text)
            self.originals[token] = text
            self.replaced[sort] += 1
        return self._tokens[text]

    def _new_token(self, text: str) -> str:
        bits = int.from_bytes(hmac.digest(self.key, text.encode(), "sha256"), "big")
        length, spelled = _LENGTH, _hexadecimal if _POINTER.fullmatch(text) else _letters
        while (token := spelled(bits, length)) in self.originals:
            length += 1
        return token


def _letters(bits: int, length: int) -> str:
    return "".join(_LETTERS[bits >> 3 * place & 7] for place in range(length))


def _hexadecimal(bits: int, length: int) -> str:
    return f"0x{bits & (1 << 4 * length) - 1:0{length}x}"


def redacted(batches: Iterable[Batch], redaction: Redaction, rules: Taxonomy) -> Iterator[Batch]:
    """Yields the same rows, device work with its labels, and what isn't public in their texts replaced."""
    for batch in with_operations(batches, rules):
        names = batch.columns.schema.names
        columns = [_column(batch, name, redaction) for name in names]
        keys = [f"args.{redaction.text(name[5:])}" if name.startswith("args.") else name for name in names]
        yield Batch(batch.record, pa.RecordBatch.from_arrays(columns, names=keys))


def _column(batch: Batch, name: str, redaction: Redaction) -> pa.Array:
    """One column of a batch with its texts replaced."""
    column = batch.columns.column(name)
    if name in _FIXED:
        return column
    if name in ("args", "facts"):
        return _mapped(column, redaction.json)
    if name == "name" and batch.record == "catalog":
        whole = pa.array(words_in(batch.column("entity"), ("source", "host")))
        private, public = (decoded(_mapped(column, change)) for change in (redaction.private, redaction.text))
        return pc.if_else(whole, private, public)
    is_private, is_json = (
        name.removeprefix("args.") in PRIVATE,
        pa.types.is_binary(getattr(column.type, "value_type", column.type)),
    )
    if is_json:
        return _mapped(column, partial(redaction.json, private=is_private))
    return _mapped(column, redaction.private if is_private else redaction.text)


def _mapped(column: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """A column with its texts changed, each distinct one once; any other column as it is. Bytes are JSON."""
    kind = column.type
    if pa.types.is_list(kind):
        lists = [None if texts is None else [change(text) for text in texts] for texts in column.to_pylist()]
        return pa.array(lists, kind)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _mapped(column.dictionary, change))
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return column
    coded = column.dictionary_encode()
    words = [word.decode() if isinstance(word, bytes) else word for word in coded.dictionary.to_pylist()]
    return pa.array([change(word) for word in words], pa.string()).cast(kind).take(coded.indices)
