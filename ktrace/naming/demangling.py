"""Names of functions as C++ compilers encode them (Itanium C++ ABI, section 5.1), decoded.

demangled("_ZN5aiter4normIDF16bLi256EEEvPT_.kd")     void aiter::norm<__bf16, 256>(__bf16*) [clone .kd]
demangled("ampere_sgemm_128x64_nn")                  ampere_sgemm_128x64_nn

All in Python, so that a name reads the same on every machine: what `__cxa_demangle` knows depends on the version of the
C++ runtime (that of GCC 12 reads bf16 as "bool _Accum" and refuses names of more than 1,024 characters, which those of
Composable Kernel have), and Windows has none. Spelled as PyTorch and ROCm's tools spell names. A name that can't be
decoded, is too long, too deeply nested or would grow too long is returned as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ktrace.naming.mangled import BUILTIN, LONGEST, OPERATORS, QUALIFIERS, STANDARD, Type, Undecodable, Values, joined

_CLONE = re.compile(r"[A-Za-z_]\w*|\d+")
_DISCRIMINATOR = re.compile(r"__\d+_|_\d")
_TEMPLATE_PARAMETER = re.compile(r"T(\d*)_")
_FLOAT = re.compile(r"DF16b|DF(\d+)_|D[UB](\d+)_")


@lru_cache(maxsize=65_536)
def demangled(name: str) -> str:
    """The name decoded, with the endings of clones as ` [clone .kd]`; the name itself if it isn't an encoded one."""
    if not name.startswith("_Z") or len(name) > LONGEST:
        return name
    plain = name.removesuffix(" (.kd)")
    clones = ".kd" if plain != name else ""
    end = len(plain)
    while (dot := plain.rfind(".", 0, end)) > 0 and _CLONE.fullmatch(plain, dot + 1, end):
        end = dot
    plain, clones = plain[:end], plain[end:] + clones
    try:
        decoded = _Reader(plain).whole()
    except (Undecodable, IndexError, ValueError, RecursionError):
        return name
    return decoded + (f" [clone {clones}]" if clones else "")


class _Reader(Values):
    """Reads the names and types of an encoded name."""

    def whole(self) -> str:
        """The whole name."""
        decoded = joined(self._type()) if self._take("TS") else self._encoding()  # SYCL names a kernel by a type
        if self._place != len(self._text):
            raise Undecodable
        return decoded

    # -- functions and names

    def _encoding(self) -> str:
        """A function with its parameters, or the name of a variable."""
        outer, self._arguments = self._arguments, []
        self._without_return = False
        name, template, qualifiers = self._name()
        if self._place < len(self._text) and not self._at("E") and not self._at("."):
            returned: Type = ("", "")
            if template and not self._without_return:
                returned = self._type()
            left = f"{returned[0]} " if returned[0] else ""
            name = f"{left}{name}({self._parameters()}){qualifiers}{returned[1]}"
        self._arguments = outer
        return name

    def _parameters(self) -> str:
        """Types up to the end of the name or an E."""
        kinds = []
        while self._place < len(self._text) and not self._at("E") and not self._at("Q"):
            kinds += self._types()
        return "" if kinds == ["void"] else ", ".join(kinds)

    def _name(self) -> tuple[str, bool, str]:
        """A name, whether it ends with template arguments (then the function's return type follows), and qualifiers."""
        if self._take("N"):
            return self._nested_name()
        if self._take("Z"):
            return self._local_name()
        if self._at("S") and not self._at("St"):
            name = self._substitution()[0]
        else:
            name = "std::" * self._take("St") + self._unqualified()
            if self._at("I"):
                self._remember((name, ""))
        return (*self._with_arguments(name), "")

    def _with_arguments(self, name: str) -> tuple[str, bool]:
        if not self._at("I"):
            return name, False
        texts = self._template_arguments()
        return name + texts, True

    def _nested_name(self) -> tuple[str, bool, str]:
        """`N ... E`: names in each other."""
        qualifiers = "".join(f" {word.strip()}" for word in self._qualifier_words())
        qualifiers += " &" if self._take("R") else " &&" if self._take("O") else ""
        path, last, template = "", "", False
        while not self._take("E"):
            if self._at("S") and not self._at("St"):
                path, template = self._substitution()[0], False
                last = path
                continue
            if self._at("I"):
                path += self._template_arguments()
                template = True
            elif self._at("T"):
                path, template = self._template_parameter()[0], False
            elif self._at("DT") or self._at("Dt"):
                path, template = self._type()[0], False
            elif self._take("M"):
                continue
            else:
                standard = self._take("St")
                part = "std" if standard else self._unqualified(last)
                path, template, last = f"{path}::{part}" if path else part, False, part
                if standard:
                    continue
            if not self._at("E"):
                self._remember((path, ""))
        return path, template, qualifiers

    def _local_name(self) -> tuple[str, bool, str]:
        """`Z encoding E name`: something in a function."""
        function = self._encoding()
        self._need("E")
        if self._take("s"):
            self._discriminator()
            return f"{function}::string literal", False, ""
        if self._take("d"):
            self._ordinal()
        name, template, qualifiers = self._name()
        self._discriminator()
        return f"{function}::{name}", template, qualifiers

    def _discriminator(self) -> None:
        if match := _DISCRIMINATOR.match(self._text, self._place):
            self._place = match.end()

    def _unqualified(self, last: str = "") -> str:
        """One name without its namespace."""
        self._take("L")
        two = self._text[self._place : self._place + 2]
        self._without_return = (two[:1] in "CD" and two[1:].isdecimal()) or two == "cv"
        if two[:1].isdecimal():
            name = self._identifier()
        elif two == "Ul":
            name = self._closure()
        elif two == "Ut":
            self._place += 2
            name = f"{{unnamed type#{self._counted()}}}"
        elif two in ("C1", "C2", "C3", "D0", "D1", "D2"):
            self._place += 2
            name = "~" * (two[0] == "D") + re.sub(r"<.*", "", last).rsplit("::", 1)[-1]
        elif two == "DC":
            self._place += 2
            parts = []
            while not self._take("E"):
                parts.append(self._identifier())
            name = f"[{', '.join(parts)}]"
        elif two == "cv":
            self._place += 2
            name = f"operator {joined(self._type())}"
        elif two == "li":
            self._place += 2
            name = f'operator"" {self._identifier()}'
        elif two in OPERATORS:
            self._place += 2
            name = f"operator{OPERATORS[two]}"
        else:
            raise Undecodable
        while self._take("B"):
            name += f"[abi:{self._identifier()}]"
        return name

    def _identifier(self) -> str:
        length = self._number()
        name = self._text[self._place : self._place + length]
        if length < 1 or len(name) != length:
            raise Undecodable
        self._place += length
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name

    def _closure(self) -> str:
        """A lambda, with its parameters and number."""
        self._place += 2
        outer, self._of_lambda = self._of_lambda, True
        self._parameter_declarations()
        parameters = self._parameters()
        self._of_lambda = outer
        self._need("E")
        return f"{{lambda({parameters})#{self._counted()}}}"

    def _counted(self) -> int:
        number = 1 if self._at("_") else self._number() + 2
        self._need("_")
        return number

    def _parameter_declarations(self) -> None:
        while self._at("Ty") or self._at("Tn") or self._at("Tt") or self._at("Tp"):
            self._parameter_declaration()

    def _parameter_declaration(self) -> None:
        """The declaration of a template parameter, which isn't shown."""
        if self._take("Ty"):
            return
        if self._take("Tn"):
            outer, self._arguments = self._arguments, self._before
            self._type()
            self._arguments = outer
        elif self._take("Tp"):
            self._parameter_declaration()
        elif self._take("Tt"):
            while not self._take("E"):
                self._parameter_declaration()

    # -- substitutions and templates

    def _substitution(self) -> Type:
        """What S_, S0_, Sa, ... stand for."""
        word = self._text[self._place : self._place + 2]
        if word in STANDARD:
            self._place += 2
            name = STANDARD[word]
            while self._take("B"):
                name += f"[abi:{self._identifier()}]"
            return name, ""
        self._need("S")
        return self._seen[self._ordinal(36)]

    def _template_parameter(self) -> Type:
        """What T_, T0_, ... stand for; of a pack its first."""
        self._need("T")
        if self._take("L"):
            self._number()
            self._need("_")
        ordinal = self._ordinal()
        if self._of_lambda:
            return f"auto:{ordinal + 1}", ""
        texts = self._arguments[ordinal]
        return (texts[0] if texts else ""), ""

    def _template_arguments(self) -> str:
        """`I ... E`; afterwards T_ stands for the first of them."""
        self._need("I")
        outer, self._of_lambda, without = self._of_lambda, False, self._without_return
        arguments: list[list[str]] = []
        while not self._take("E"):
            self._before = arguments
            arguments.append(self._template_argument())
        self._of_lambda, self._without_return = outer, without
        self._arguments = arguments
        shown = ", ".join(text for texts in arguments for text in texts)
        return f"<{shown} >" if shown.endswith(">") else f"<{shown}>"

    def _template_argument(self) -> list[str]:
        """A type, a value, an expression, or a pack of them."""
        self._parameter_declarations()
        if self._take("X"):
            text = self._expression()
            self._need("E")
            return [text]
        if self._at("L"):
            return [self._literal()]
        if self._take("J"):
            texts = []
            while not self._take("E"):
                texts += self._template_argument()
            return texts
        return self._types()

    # -- types

    def _types(self) -> list[str]:
        """A type; of the expansion of a pack all of them."""
        if not self._take("Dp"):
            return [joined(self._type())]
        packs = [number for number, texts in enumerate(self._arguments) if len(texts) != 1]
        begin, seen, arguments, texts = self._place, list(self._seen), self._arguments, []
        used = _TEMPLATE_PARAMETER.findall(self._text, begin)
        pack = next((int(n or -1) + 1 for n in used if int(n or -1) + 1 in packs), None)
        if pack is None:
            return [joined(self._type())]
        for text in arguments[pack] or [""]:
            self._place, self._seen = begin, list(seen)
            self._arguments = [[text] if number == pack else texts_of for number, texts_of in enumerate(arguments)]
            texts.append(joined(self._type()))
        self._arguments = arguments
        return texts if arguments[pack] else []

    def _type(self) -> Type:
        return self._nested(self._type_itself)

    def _type_itself(self) -> Type:
        letter, two = self._text[self._place], self._text[self._place : self._place + 2]
        if letter in BUILTIN:
            self._place += 1
            return BUILTIN[letter], ""
        if two in BUILTIN:
            self._place += 2
            return BUILTIN[two], ""
        if match := _FLOAT.match(self._text, self._place):
            self._place = match.end()
            return ("__bf16" if not match[1] and not match[2] else f"_Float{match[1] or match[2]}"), ""
        if letter in QUALIFIERS:
            words = "".join(self._qualifier_words())
            left, right = self._type()
            return self._remember((left, words + right) if right.startswith("(") else (left + words, right))
        if letter in "PRO":
            self._place += 1
            return self._remember(_pointing(self._type(), {"P": "*", "R": "&", "O": "&&"}[letter]))
        if letter == "S" and two != "St":
            found_type = self._substitution()
            if self._at("I"):
                found_type = self._remember((found_type[0] + self._scoped_arguments(), ""))
            return found_type
        if letter == "T" and two not in ("Ts", "Tu", "Te"):
            found_type = self._remember(self._template_parameter())
            if self._at("I"):
                found_type = self._remember((found_type[0] + self._scoped_arguments(), ""))
            return found_type
        if letter in "FAMUCGD":
            return self._remember(self._compound(letter, two))
        if letter == "u":
            self._place += 1
            return self._remember((self._identifier() + (self._scoped_arguments() if self._at("I") else ""), ""))
        if two in ("Ts", "Tu", "Te"):
            self._place += 2
        outer = self._arguments
        name, _, qualifiers = self._name()
        self._arguments = outer
        return self._remember((name + qualifiers, ""))

    def _scoped_arguments(self) -> str:
        """Template arguments of a type, which T_ of the function doesn't stand for."""
        outer = self._arguments
        texts = self._template_arguments()
        self._arguments = outer
        return texts

    def _compound(self, letter: str, two: str) -> Type:
        """Functions, arrays, members, vectors, types by an expression, and what a vendor adds."""
        if two in ("Do", "DO", "Dw", "Dx"):
            self._place += 2
            if two == "DO":
                self._expression()
                self._need("E")
            left, right = self._type()
            return left, right + " noexcept" * (two[1] in "oO")
        self._place += 2 if letter == "D" else 1
        if letter == "F":
            self._take("Y")
            returned = self._type()
            parameters = self._parameters()
            self._need("E")
            return f"{returned[0]} ", f"({parameters}){returned[1]}"
        if letter == "A":
            size = "" if self._at("_") else self._size()
            self._need("_")
            left, right = self._type()
            return f"{left} ", f"[{size}]{right}"
        if letter == "M":
            owner, (left, right) = joined(self._type()), self._type()
            return (f"{left}({owner}::*", f"){right}") if right.startswith("(") else (f"{left} {owner}::*", right)
        if letter == "U":
            word = self._identifier() + (self._scoped_arguments() if self._at("I") else "")
            left, right = self._type()
            return f"{left} {word}", right
        if letter in "CG":
            left, right = self._type()
            return f"{left} {'complex' if letter == 'C' else 'imaginary'}", right
        if two == "Dv":
            size = self._size()
            self._need("_")
            return f"{joined(self._type())} __vector({size})", ""
        if two in ("DT", "Dt"):
            text = self._expression()
            self._need("E")
            return f"decltype({text})", ""
        if two == "Dp":
            return self._type()
        raise Undecodable


def _pointing(to: Type, sign: str) -> Type:
    """A pointer or reference to this type."""
    left, right = to
    if right.startswith(("(", "[")) and left.endswith(" "):
        return f"{left}({sign}", f"){' ' * right.startswith('[')}{right}"
    if sign.startswith("&") and left.endswith("&"):  # references to references collapse
        return (left if sign == "&&" else left.rstrip("&") + "&"), right
    return left + sign, right
