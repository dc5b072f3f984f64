"""What is at the bottom of encoded names of C++: the text with its limits, values and expressions.

The names and types that they contain are read by `ktrace.naming.demangling`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

#: Characters of a name that is decoded, characters that it may have decoded, and how deep its parts may be nested.
LONGEST, _GROWN, _DEEPEST = 16_384, 65_536, 40


def _table(text: str) -> dict[str, str]:
    """Pairs of a code and what it stands for."""
    return dict(pair.split("=", 1) for pair in text.split(";"))


BUILTIN = _table(
    "v=void;w=wchar_t;b=bool;c=char;a=signed char;h=unsigned char;s=short;t=unsigned short;i=int;j=unsigned int;l=long;"
    "m=unsigned long;x=long long;y=unsigned long long;n=__int128;o=unsigned __int128;f=float;d=double;e=long double;"
    "g=__float128;z=...;Dd=decimal64;De=decimal128;Df=decimal32;Dh=half;Di=char32_t;Ds=char16_t;Du=char8_t;Da=auto;"
    "Dc=decltype(auto);Dn=decltype(nullptr)"
)
_SUFFIX = _table("j=u;l=l;m=ul;x=ll;y=ull")
STANDARD = _table(
    "Sa=std::allocator;Sb=std::basic_string;Ss=std::string;Si=std::istream;So=std::ostream;Sd=std::iostream"
)
OPERATORS = _table(
    "nw= new;na= new[];dl= delete;da= delete[];ps=+;ng=-;ad=&;de=*;co=~;pl=+;mi=-;ml=*;dv=/;rm=%;an=&;or=|;eo=^;aS==;"
    "pL=+=;mI=-=;mL=*=;dV=/=;rM=%=;aN=&=;oR=|=;eO=^=;ls=<<;rs=>>;lS=<<=;rS=>>=;eq===;ne=!=;lt=<;gt=>;le=<=;ge=>=;"
    "ss=<=>;nt=!;aa=&&;oo=||;pp=++;mm=--;cm=,;pm=->*;pt=->;cl=();ix=[];qu=?"
)
_UNARY = frozenset({"ps", "ng", "ad", "de", "co", "nt", "pp", "mm"})
QUALIFIERS = {"r": " __restrict", "V": " volatile", "K": " const"}

#: A type is what stands before and after the name that it declares: ("int (*", ")[4]").
Type = tuple[str, str]


class Undecodable(Exception):
    """The name isn't one of C++, or is beyond the limits."""


class Values(ABC):
    """Reads an encoded name from left to right. Each production of the grammar is a method that returns its text."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._depth, self._steps = text, 2, 0, 0
        self._seen: list[Type] = []  # what S_, S0_, ... stand for
        self._arguments: list[list[str]] = []  # what T_, T0_, ... stand for; a pack has several texts
        self._before: list[list[str]] = []  # template arguments up to the one that is read
        self._of_lambda = False
        self._without_return = False  # constructors and conversions, templates or not

    @abstractmethod
    def _encoding(self) -> str:
        """A function with its parameters, or the name of a variable."""

    @abstractmethod
    def _unqualified(self, last: str = "") -> str:
        """One name without its namespace."""

    @abstractmethod
    def _identifier(self) -> str:
        """A word, after its length."""

    @abstractmethod
    def _type(self) -> Type:
        """A type."""

    @abstractmethod
    def _template_parameter(self) -> Type:
        """What T_, T0_, ... stand for."""

    @abstractmethod
    def _scoped_arguments(self) -> str:
        """Template arguments that T_ of the function doesn't stand for."""

    # -- the text

    def _at(self, word: str) -> bool:
        return self._text.startswith(word, self._place)

    def _take(self, word: str) -> bool:
        if self._text.startswith(word, self._place):
            self._place += len(word)
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise Undecodable

    def _number(self) -> int:
        """A decimal number; n is its sign."""
        sign = -1 if self._take("n") else 1
        begin = self._place
        while self._text[self._place : self._place + 1].isdecimal() and self._place - begin < 20:
            self._place += 1
        return sign * int(self._text[begin : self._place])

    def _ordinal(self, base: int = 10) -> int:
        """What follows S (to base 36), T or fp: `_` is 0, `0_` is 1."""
        end = self._text.index("_", self._place)
        digits, self._place = self._text[self._place : end], end + 1
        if not re.fullmatch(r"[0-9A-Z]{0,6}", digits):
            raise Undecodable
        return int(digits, base) + 1 if digits else 0

    def _nested(self, production: Callable[[], Type]) -> Type:
        """Guards against names that are nested too deeply or grow too long."""
        self._depth += 1
        self._steps += 1
        if self._depth > _DEEPEST or self._steps > LONGEST:
            raise Undecodable
        type_ = production()
        if len(type_[0]) + len(type_[1]) > _GROWN:
            raise Undecodable
        self._depth -= 1
        return type_

    def _remember(self, kind: Type) -> Type:
        self._seen.append(kind)
        return kind

    def _qualifier_words(self) -> list[str]:
        words = []
        while self._text[self._place] in QUALIFIERS:
            words.append(QUALIFIERS[self._text[self._place]])
            self._place += 1
        return words[::-1]

    def _size(self) -> str:
        """How many elements an array or a vector has."""
        return str(self._number()) if self._text[self._place].isdecimal() else self._expression()

    # -- values

    def _literal(self) -> str:
        """`L type value E`."""
        self._need("L")
        if self._take("_Z"):
            name = self._encoding()
            self._need("E")
            return name
        kind = self._text[self._place]
        named = joined(self._type())
        end = self._text.index("E", self._place)
        value, self._place = self._text[self._place : end], end + 1
        if named == "decltype(nullptr)":
            return "nullptr"
        value = re.sub("^n", "-", value)
        if kind == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        if kind == "i":
            return value
        if kind in _SUFFIX:
            return value + _SUFFIX[kind]
        return f"({named})[{value}]" if kind in "fde" else f"({named}){value}"

    def _expression(self) -> str:
        return self._nested(lambda: (self._expression_itself(), ""))[0]

    def _expression_itself(self) -> str:
        two = self._text[self._place : self._place + 2]
        if two[0] == "L":
            return self._literal()
        if two[0] == "T":
            return joined(self._template_parameter())
        if two == "fp":
            self._place += 2
            self._qualifier_words()
            return f"{{parm#{self._ordinal() + 1}}}"
        if two == "sr":
            self._place += 2
            return f"{self._qualifying()}::{self._unresolved()}"
        if two[0].isdecimal() or two in ("on", "dn", "gs"):
            return self._unresolved()
        self._place += 2
        if two in ("st", "at"):
            return f"{'sizeof' if two == 'st' else 'alignof'} ({joined(self._type())})"
        if two in ("sz", "az", "nx"):
            return f"{({'sz': 'sizeof', 'az': 'alignof', 'nx': 'noexcept'})[two]} ({self._expression()})"
        if two == "sZ":
            self._need("T")
            return f"sizeof...({len(self._arguments[self._ordinal()])})"
        if two == "sp":
            return f"{self._expression()}..."
        if two in ("cl", "il", "tl"):
            kind = joined(self._type()) if two == "tl" else self._expression() if two == "cl" else ""
            parts = []
            while not self._take("E"):
                parts.append(self._expression())
            return f"({kind})({', '.join(parts)})" if two == "cl" else f"{kind}{{{', '.join(parts)}}}"
        if two in ("cv", "sc", "dc", "rc", "cc"):
            return f"({joined(self._type())}){self._expression()}"
        if two in ("dt", "pt"):
            return f"{self._expression()}{'.' if two == 'dt' else '->'}{self._unresolved()}"
        if two == "qu":
            return f"({self._expression()})?({self._expression()}) : ({self._expression()})"
        if two == "ix":
            return f"({self._expression()})[{self._expression()}]"
        if two in _UNARY:
            self._take("_")
            operand = self._expression()
            return f"&({operand})" if two == "ad" else f"{OPERATORS[two]}({operand})"
        if two in OPERATORS:
            left, right = self._expression(), self._expression()
            text = f"({left}){OPERATORS[two]}({right})"
            return f"({text})" if two == "gt" else text
        raise Undecodable

    def _qualifying(self) -> str:
        """What stands before the `::` of a name that only an instantiation resolves."""
        levels = self._take("N")
        if not levels and not self._text[self._place].isdecimal():
            return joined(self._type())
        path = [joined(self._type())] if levels else []
        while not self._take("E"):
            path.append(self._identifier() + (self._scoped_arguments() if self._at("I") else ""))
        return "::".join(path)

    def _unresolved(self) -> str:
        """A name that only an instantiation resolves."""
        self._take("gs")
        name = f"~{joined(self._type())}" if self._take("dn") else ""
        if not name:
            self._take("on")
            name = self._unqualified()
        return name + (self._scoped_arguments() if self._at("I") else "")


def joined(kind: Type) -> str:
    """The type without a name in it: `int [4]`, `void (int)`."""
    left, right = kind
    return left + right if right else left
