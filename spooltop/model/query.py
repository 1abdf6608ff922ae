"""The filter: terms separated by blanks, all of which must hold.

====================  =======================================================================
``text``              somewhere in the name, id, source, owner's command, evidence, note or reason as shown
``age:>10m``          in its box for longer (``>`` ``>=`` ``<`` ``<=``)
``src:imessage``      from a source with this in its name (also ``source:``); ``src:=imessage`` from just this one, ``src:""``
                      from none that is known
``pid:4312``          held or written by this process
``tries:>3``          more than 3 attempts; ``tries:3`` exactly 3
``verdict:dead``      alive, dead, unknown, writing, abandoned
``!term``             not so
``"two words"``       blanks, and text that looks like a term; ``""`` inside is a quotation mark
====================  =======================================================================

Text is compared with capitals. A backslash is nothing special, so ``\\x1b`` finds what is shown so. A term about something that
is not known of a row (its age, its tries) does not hold, and its opposite does not either: nothing is selected by ignorance.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import NamedTuple

from spooltop.patterns import pattern
from spooltop.records import dataclass

from ..errors import UsageError
from .filter_terms import COMPARE, KEYED, Age, IsVerdict, Pid, Source, Term, Text, Tries
from .row import Row
from .units import parse_age
from .vocabulary import Verdict

__all__ = ["KEYS", "OLDER", "ByName", "Query", "is_plain", "parse"]

KEYS = ("age", "src", "source", "pid", "tries", "verdict")
OLDER = operator.ge
"""Comparison of an age with "older than"."""
_OPERATOR = pattern(r"(>=|<=|>|<|=)?(.*)", re.DOTALL)
_PLAIN = pattern(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed filter.

    ``terms`` are (term, wanted); wanted is False after ``!``. ``incomplete`` are terms that a lenient parse left out, as typed.
    ``hint`` says what the first of them lacks, or which key is unknown. ``str()`` gives words that parse to the same query.
    """

    terms: tuple[tuple[Term, bool], ...] = ()
    incomplete: tuple[str, ...] = ()
    hint: str = ""

    def match(self, row: Row, now: float) -> bool:
        """True if all terms hold for ``row`` at ``now`` (epoch seconds)."""
        return all(term.holds(row, now) is wanted for term, wanted in self.terms)

    @property
    def empty(self) -> bool:
        """True if it matches everything."""
        return not self.terms

    @property
    def needs_stat(self) -> bool:
        """True if a row's time may be needed, which the name alone may not contain."""
        return any(isinstance(term, Age) for term, _ in self.terms)

    @property
    def plain_terms(self) -> tuple[bytes, ...]:
        """Bytes that the name of every matching message in ``new`` contains, provided that the name is plain (see
        ``is_plain``)."""
        found = []
        for term, wanted in self.terms:
            if wanted and isinstance(term, Text) and _PLAIN.fullmatch(term.needle):
                found.append(term.needle.encode())
            elif wanted and isinstance(term, Source) and _PLAIN.fullmatch(term.name):
                found.append((b",s=" if term.whole else b"") + term.name.encode())
        return tuple(found)

    @property
    def by_name(self) -> ByName | None:
        """Splits the query if a plain name in ``new`` decides it; None if a text may occur elsewhere than in the name."""
        if any(isinstance(term, Text) and not _PLAIN.fullmatch(term.needle) for term, _ in self.terms):
            return None
        return ByName(
            tuple((term.needle, wanted) for term, wanted in self.terms if isinstance(term, Text)),
            tuple((COMPARE[t.compare], t.seconds, wanted) for t, wanted in self.terms if isinstance(t, Age)),
            Query(tuple((term, wanted) for term, wanted in self.terms if not isinstance(term, Text | Age))),
        )

    def could_match(self, name: bytes) -> bool:
        r"""False if a message cannot match, by its name alone.

        Names with other than printable ASCII, with a backslash (shown as ``\xNN``) or a percent sign (encoded values) pass: what
        is shown differs from their bytes.
        """
        terms = self.plain_terms
        if not terms or all(term in name for term in terms):
            return True
        return not is_plain(name)

    def __str__(self) -> str:
        return " ".join(("" if wanted else "!") + str(term) for term, wanted in self.terms)


class ByName(NamedTuple):
    """A query in parts. ``texts`` are (text, wanted), ``ages`` (comparison, seconds, wanted) of the time in the box; ``rest`` is
    about source, tries and holder, which are the same for all messages that were put and tried alike."""

    texts: tuple[tuple[str, bool], ...] = ()
    ages: tuple[tuple[Callable[[float, float], bool], float, bool], ...] = ()
    rest: Query = Query()


def is_plain(name: bytes) -> bool:
    """True if a name, with its id and source, is shown exactly as its bytes: printable ASCII, no backslash, nothing encoded."""
    return b"\\" not in name and b"%" not in name and name.isascii() and name.decode("ascii").isprintable()


def parse(text: str, *, lenient: bool = False) -> Query:
    """Parses a filter. Raises ``UsageError`` with the correct form; with ``lenient`` (while typing) it leaves out unfinished
    terms and reports them instead.

    >>> str(parse('age:>10m !verdict:alive "two words"'))
    'age:>10m !verdict:alive "two words"'
    """
    terms: list[tuple[Term, bool]] = []
    incomplete: list[str] = []
    hint = ""
    words, closed = _split(text)
    if not closed and not lenient:
        raise UsageError("a quotation mark is not closed", advice='write "two words", and "" for the mark itself inside')
    for word in words:
        try:
            terms.append(_term(word))
            hint = hint or _no_key(word)
        except UsageError as error:
            if not lenient:
                raise
            incomplete.append(word.typed)
            hint = hint or str(error)
    return Query(tuple(terms), tuple(incomplete), hint)


@dataclass(slots=True)
class _Word:
    """A term as typed: ``text`` without quotes; ``quoted_at`` is where in ``text`` the first quoted part starts."""

    typed: str = ""
    text: str = ""
    quoted_at: int | None = None


def _split(text: str) -> tuple[list[_Word], bool]:
    words: list[_Word] = []
    word: _Word | None = None
    inside = False
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace() and not inside:
            word = None
            at += 1
            continue
        if word is None:
            word = _Word()
            words.append(word)
        step = 1
        if char == '"':
            if inside and text[at : at + 2] == '""':
                word.text += char
                step = 2
            else:
                inside = not inside
                if word.quoted_at is None:
                    word.quoted_at = len(word.text)
        else:
            word.text += char
        word.typed += text[at : at + step]
        at += step
    return words, not inside


def _term(word: _Word) -> tuple[Term, bool]:
    text, quoted_at = word.text, word.quoted_at
    wanted = True
    if text.startswith("!") and quoted_at != 0:
        wanted, text = False, text[1:]
        quoted_at = None if quoted_at is None else quoted_at - 1
    keyed = KEYED.fullmatch(text)
    if keyed and (quoted_at is None or quoted_at >= keyed.start(2)):
        key, value = keyed.groups()
        if key in KEYS:
            return _keyed(key, value, quoted=quoted_at is not None), wanted
        _refuse_misspelt(key, value)
    if not text:
        raise UsageError("empty search term", advice="write some text, or a term such as age:>10m")
    return Text(text), wanted


def _keyed(key: str, value: str, *, quoted: bool) -> Term:
    found = _OPERATOR.fullmatch(value)
    compare, rest = (found.group(1), found.group(2)) if found else (None, value)
    if key == "age":
        if compare in (None, "="):
            raise UsageError(f"age:{value} needs > or <", advice="write age:>10m or age:<5s")
        return Age(str(compare), rest, parse_age(rest))
    if key == "tries":
        return Tries(compare or "=", _number("tries", rest, "write tries:3 or tries:>3"))
    if key == "pid":
        return Pid(_number("pid", value, "write pid:4312"))
    if key == "verdict":
        if value.lower() not in set(Verdict):
            raise UsageError(f"unknown verdict {value!r}", advice="use one of " + ", ".join(Verdict))
        return IsVerdict(Verdict(value.lower()))
    if not value and not quoted:
        raise UsageError("src: needs a name", advice='write src:imessage, or src:"" for messages of no known source')
    whole = value.startswith("=") or not value
    return Source(value.removeprefix("="), whole)


def _no_key(word: _Word) -> str:
    """Returns a hint for text that looks like a term with an unknown key, "" for other text."""
    keyed = KEYED.fullmatch(word.text.removeprefix("!"))
    if keyed is None or word.quoted_at is not None or keyed[1] in KEYS:
        return ""
    return f"unknown key {keyed[1]}: searched as text; keys are {', '.join(f'{name}:' for name in KEYS)}"


def _number(key: str, text: str, advice: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"invalid number in {key}:{text}", advice=advice)
    return int(text)


def _refuse_misspelt(key: str, value: str) -> None:
    """Raises ``UsageError`` for a misspelt key. Names contain colons too, so only a comparison, or a word close to a key, counts
    as one."""
    import difflib  # only for what may be misspelt

    near = difflib.get_close_matches(key.lower(), KEYS, 1, cutoff=0.8)
    if near or value[:1] in ("<", ">"):
        right = near[0] if near else "one of " + ", ".join(f"{name}:" for name in KEYS)
        raise UsageError(
            f"unknown filter key {key}:", advice=f'write {right}{":" if near else ""}, or "{key}:{value}" in quotes as text'
        )
