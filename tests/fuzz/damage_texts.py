"""Damages texts token by token and line by line, and JSON and pickles value by value."""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from random import Random
from typing import Any

#: A text in quotes, a number, a word, a run of blanks, or any other byte.
_TOKEN = re.compile(
    rb'"(?:[^"\\\n]|\\.){0,4000}"|[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|[A-Za-z_][\w.:]*|[ \t]+|.', re.DOTALL
)

NUMBERS = (
    *("0", "-0", "-1", "1", "2", "-0.0", "0.5", "1e3", "1.5e-7", "1e308", "-1e308", "1e309", "1e-400", "1E+999999999"),
    *("NaN", "nan", "-nan", "inf", "-Infinity", "null", "true", "1.2.3", "--5", "0x7f", "1_000", "1,000", "1e", "."),
    *(
        str(sign * 2**power + more)
        for power in (31, 32, 53, 62, 63, 64, 65, 128)
        for sign in (1, -1)
        for more in (0, -1)
    ),
    *("9" * 400, "9" * 4300, "9" * 4301, "-" + "7" * 4400, "1" + "0" * 400, "0." + "3" * 5000, "0" * 3000 + "1"),
    *("١٢٣", "½", "1 000", "12:34:56", "1970-01-01T00:00:00Z", "2^63", ""),
)
TEXTS = (
    *(
        "",
        " ",
        "\t",
        "\x00",
        "\x07\x1b[31m",
        "\u202e",
        "\ufeff",
        "\ud800",
        "a\nb",
        "a\r\nb",
        "'",
        '"',
        "\\",
        "|",
        ",",
        ";",
    ),
    *(
        "a" * 300,
        "x" * 70_000,
        " " * 5000,
        "\U0001f600" * 50,
        "<script>",
        "=1+1",
        "../../x",
        "/dev/null",
        "%s%n",
        "{}",
        "[]",
    ),
    *(
        "null",
        "nan",
        "-1",
        "9" * 4400,
        "1e400",
        "((((",
        "::::",
        "a::b<c<d>>(e)",
        "\x85",
        "\u2028",
        "é" * 3000,
        "_" * 2000,
    ),
)


def _tokens(data: bytes) -> list[bytes]:
    return _TOKEN.findall(data)


def _places(tokens: list[bytes], rng: Random, pattern: str) -> list[int]:
    """Returns one or several places of tokens that match."""
    known = re.compile(pattern.encode())
    found = [at for at, token in enumerate(tokens) if known.match(token)]
    return rng.sample(found, min(len(found), rng.choice((1, 1, 1, 2, 5, 40)))) if found else []


def numbers(data: bytes, rng: Random) -> bytes:
    """Numbers become extreme ones, in the same way at all places or differently."""
    tokens = _tokens(data)
    same = rng.choice(NUMBERS)
    for at in _places(tokens, rng, r"[-+]?\d"):
        tokens[at] = (same if rng.random() < 0.5 else rng.choice(NUMBERS)).encode("utf-8")
    return b"".join(tokens)


def texts(data: bytes, rng: Random) -> bytes:
    """Texts in quotes become extreme ones, or other texts of the file."""
    tokens = _tokens(data)
    places = _places(tokens, rng, r'"')
    others = [token for token in tokens[:5000] if token[:1] == b'"'] or [tokens[at] for at in places]
    for at in places:
        text = rng.choice(TEXTS)
        if rng.random() < 0.2:
            tokens[at] = rng.choice(others)
        elif rng.random() < 0.6:
            tokens[at] = json.dumps(text, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        else:
            tokens[at] = b'"' + text.encode("utf-8", "surrogatepass") + b'"'
    return b"".join(tokens)


def words(data: bytes, rng: Random) -> bytes:
    """Words, among them keys and headings, become others, get lost, or are there twice."""
    tokens = _tokens(data)
    places = _places(tokens, rng, r'"[A-Za-z]|[A-Za-z_]')
    others = [tokens[at] for at in range(len(tokens)) if tokens[at][:1].isalpha() or tokens[at][:1] == b'"']
    for at in places:
        match rng.randrange(5):
            case 0:
                tokens[at] = rng.choice(others)
            case 1:
                tokens[at] = b'""' if tokens[at][:1] == b'"' else b""
            case 2:
                tokens[at] += tokens[at]
            case 3:
                tokens[at] = tokens[at].swapcase()
            case _:
                tokens[at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    return b"".join(tokens)


def punctuation(data: bytes, rng: Random) -> bytes:
    """Quotes, brackets, commas and their like get lost, are there twice, or become others."""
    tokens = _tokens(data)
    for at in _places(tokens, rng, r"[\[\]{}(),:;|=<>\"'\n\t-]"):
        match rng.randrange(4):
            case 0:
                tokens[at] = b""
            case 1:
                tokens[at] *= rng.choice((2, 2, 30))
            case 2:
                tokens[at] = bytes([rng.choice(b"[]{}(),:;|=<>\"'\n\t\\ ")])
            case _:
                tokens[at] = tokens[at][1:] if len(tokens[at]) > 1 else b" " * rng.choice((1, 2000))
    return b"".join(tokens)


#: A line that is there several times has at most so many bytes together: a case is about faults, not about sizes.
_MOST_REPEATED = 4 << 20


def lines(data: bytes, rng: Random) -> bytes:
    """Lines change places, get lost, are there several times, or are joined."""
    found = data.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not found:
            break
        one, other = rng.randrange(len(found)), rng.randrange(len(found))
        match rng.randrange(6):
            case 0:
                found[one], found[other] = found[other], found[one]
            case 1:
                del found[one : one + rng.choice((1, 1, 3, 20))]
            case 2:
                most = _MOST_REPEATED // (len(found[one]) + 1)
                found[one:one] = [found[one]] * min(rng.choice((1, 2, 50)), max(most, 1))
            case 3:
                found[one] = found[one].rstrip(b"\r\n")
            case 4:
                found.insert(other, found[one][: rng.randrange(len(found[one]) + 1)])
            case _:
                found[one] = found[one].rstrip(b"\n") + b"\r\n"
    return b"".join(found)


def deepen(data: bytes, rng: Random) -> bytes:
    """A value is nested deeply, with or without the closing brackets."""
    tokens = _tokens(data)
    depth = rng.choice((3, 24, 65, 600, 3000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"args":', b"}]"), (b"(", b")"), (b"<", b">")))
    for at in _places(tokens, rng, r"[\"\d]")[:2]:
        tokens[at] = opening * depth + tokens[at] + closing * (depth if rng.random() < 0.7 else rng.randrange(depth))
    return b"".join(tokens)


def json_values(data: bytes, rng: Random) -> bytes:
    """Values of valid JSON, of a document or of its lines, become others; the JSON stays valid."""
    try:
        text = data.decode("utf-8-sig")
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _json_line(data, rng)
    changed = _with_other_values(whole, rng)
    indent = rng.choice((None, None, 1))
    try:
        return json.dumps(changed, indent=indent, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return data


def _json_line(data: bytes, rng: Random) -> bytes:
    """The same in one line, of data that isn't JSON as a whole."""
    found = data.split(b"\n")
    at = rng.randrange(len(found))
    try:
        found[at] = json.dumps(_with_other_values(json.loads(found[at]), rng)).encode()
    except (ValueError, RecursionError):
        return lines(data, rng)
    return b"\n".join(found)


def pickled_values(data: bytes, rng: Random) -> bytes:
    """Values in a pickle become others; the pickle stays valid. The samples are ours, and so are the pickles."""
    try:
        changed = _with_other_values(_Plain(io.BytesIO(data)).load(), rng)
        return pickle.dumps(changed, rng.choice((2, 3, 4, 5)))
    except Exception:  # damaged before: pickle raises anything
        return data[: rng.randrange(len(data) + 1)]


class _Plain(pickle.Unpickler):
    """Loads values without classes: what a damaged pickle names isn't imported."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def other_value(value: Any, rng: Random) -> Any:
    """Returns a value of another type or size."""
    simple = (
        None,
        True,
        False,
        "",
        "x",
        0,
        -1,
        2**31,
        2**63,
        -(2**63) - 1,
        10**400,
        0.5,
        -0.0,
        1e300,
        math.nan,
        math.inf,
    )
    match rng.randrange(6):
        case 0:
            return rng.choice(((), (1,), ({},), ("a", None), tuple(range(50))))
        case 1:
            return rng.choice(({}, {"a": 1}, {"": {}}, {"id": []}))
        case 2:
            return rng.choice(TEXTS)
        case 3:
            return str(value)[:1000]
        case 4:
            deep: Any = value
            for _ in range(rng.choice((1, 5, 70, 300))):
                deep = [deep] if rng.random() < 0.5 else {"a": deep}
            return deep
        case _:
            return rng.choice(simple)


def _with_other_values(tree: Any, rng: Random) -> Any:
    """Changes some values of a tree of lists and objects: another value, none, a key more, twice, elsewhere."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        inner = [node for node in _nodes(tree) if node]
        if not inner:
            return other_value(tree, rng)
        node, donor = rng.choice(inner), rng.choice(inner)
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        given = rng.choice(list(donor.values()) if isinstance(donor, dict) else donor)
        match rng.randrange(7):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[rng.choice((*TEXTS[:12], f"{key}x", str(key).upper()))] = node.pop(key)
            case 2 if isinstance(node, list):
                node[key:key] = [node[key]] * rng.choice((1, 3, 100))
            case 3 if not isinstance(given, (dict, list)):
                node[key] = given
            case _:
                node[key] = other_value(node[key], rng)
    return tree


def _nodes(tree: Any) -> list[Any]:
    """Returns the lists and objects of a tree, up to some thousands."""
    found, waiting = [], [tree]
    while waiting and len(found) < 5000:
        node = waiting.pop()
        if isinstance(node, (dict, list)):
            found.append(node)
            waiting += node.values() if isinstance(node, dict) else node
    return found
