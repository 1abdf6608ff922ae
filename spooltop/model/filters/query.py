"""The filter: terms separated by blanks, all of which must hold.

====================  =======================================================================
``text``              somewhere in the name, id, source, owner's command, evidence, note or reason as shown
``*.txt``             one of these in full: ``*`` is any text, ``?`` one character; also after ``src:``, ``id:``, ``error:``
``age:>10m``          in its box for longer (``>`` ``>=`` ``<`` ``<=``)
``src:imessage``      from a source with this in its name (also ``source:``); ``src:=imessage`` from just this one, ``src:""``
                      from none that is known
``id:6548``           an id with this in it
``error:exit-1``      whose last attempt ended so, or set aside for this reason
``pid:4312``          held or written by this process
``holder:worker-1``   held by the consumer of just this name
``tries:>3``          more than 3 attempts; ``tries:3`` exactly 3
``verdict:dead``      alive, dead, unknown, writing, abandoned; other words for cursors and locks
``!term``             not so
``"two words"``       blanks, and text that looks like a term; ``""`` inside is a quotation mark
====================  =======================================================================

Text is compared with capitals. A backslash is nothing special, so ``\\x1b`` finds what is shown so. A term about something that
is not known of a row (its age, its tries) does not hold, and its opposite does not either: nothing is selected by ignorance.
For the same reason an unknown key is refused: ``!owner:bob``, taken as text, would select everything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from spooltop.errors import UsageError
from spooltop.patterns import pattern
from spooltop.records import dataclass

from ..row import Row
from ..units import parse_age
from ..vocabulary import Verdict
from .facts import Facts, MessageFacts
from .terms import COMPARE, KEYED, Age, Error, HeldBy, Id, IsVerdict, Pid, Source, Term, Text, Tries, Words

__all__ = ["KEYS", "OLDER", "ByName", "Query", "is_plain", "parse"]

KEYS = ("age", "src", "source", "id", "pid", "holder", "tries", "verdict", "error")
OLDER = operator.ge
"""Comparison of an age with "older than"."""
_OPERATOR = pattern(r"(>=|<=|>|<|=)?(.*)", re.DOTALL)
_PLAIN = pattern(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed filter.

    ``terms`` are (term, wanted); wanted is False after ``!``. ``incomplete`` are terms that a lenient parse left out, as typed.
    ``hint`` says what the first of them lacks, or which keys there are. ``str()`` gives words that parse to the same query.
    """

    terms: tuple[tuple[Term, bool], ...] = ()
    incomplete: tuple[str, ...] = ()
    hint: str = ""

    def match(self, row: Row, now: float) -> bool:
        """True if all terms hold for ``row`` at ``now`` (epoch seconds)."""
        return self.holds(MessageFacts(row, now))

    def holds(self, facts: Facts) -> bool:
        """True if all terms hold for these facts."""
        return all(term.holds(facts) is wanted for term, wanted in self.terms)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that what matches shows somewhere, longest first: to be pointed out in it."""
        words = [term.words for term, wanted in self.terms if wanted and isinstance(term, Text | Source | Id | Error)]
        return tuple(sorted({piece for one in words for piece in one.pieces if piece}, key=lambda text: (-len(text), text)))

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
            if wanted and isinstance(term, Text | Id | Source):
                front = b",s=" if isinstance(term, Source) and term.whole else b""
                found += [front + piece.encode() for piece in term.words.pieces if _PLAIN.fullmatch(piece)]
        return tuple(found)

    @property
    def by_name(self) -> ByName | None:
        """Splits the query if a plain name in ``new`` decides it; None if a text may occur elsewhere than in the name."""
        if any(
            isinstance(term, Id) or (isinstance(term, Text) and (term.words.glob or not _PLAIN.fullmatch(term.words.text)))
            for term, _ in self.terms
        ):
            return None
        return ByName(
            tuple((term.words.text, wanted) for term, wanted in self.terms if isinstance(term, Text)),
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


def parse(text: str, *, lenient: bool = False, verdicts: Collection[str] = tuple(Verdict)) -> Query:
    """Parses a filter. Raises ``UsageError`` with the correct form; with ``lenient`` (while typing) it leaves out unfinished
    terms and reports them instead. ``verdicts`` are those of what is filtered.

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
            terms.append(_term(word, verdicts))
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


def _term(word: _Word, verdicts: Collection[str]) -> tuple[Term, bool]:
    text, quoted_at = word.text, word.quoted_at
    wanted = True
    if text.startswith("!") and quoted_at != 0:
        wanted, text = False, text[1:]
        quoted_at = None if quoted_at is None else quoted_at - 1
    keyed = KEYED.fullmatch(text)
    if keyed and (quoted_at is None or quoted_at >= keyed.start(2)):
        key, value = keyed.groups()
        if key not in KEYS:
            raise _unknown_key(key, value)
        return _keyed(key, value, verdicts, quoted=quoted_at is not None), wanted
    if not text:
        raise UsageError("empty search term", advice="write some text, or a term such as age:>10m")
    return Text(_words(text, quoted=quoted_at is not None)), wanted


def _words(text: str, *, quoted: bool) -> Words:
    return Words(text, glob="*" in text and not quoted)


def _keyed(key: str, value: str, verdicts: Collection[str], *, quoted: bool) -> Term:
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
    if key == "holder":
        if not value:
            raise UsageError("holder: needs a name", advice="write holder:worker-1")
        return HeldBy(value)
    if key == "verdict":
        if value.lower() not in verdicts:
            raise UsageError(f"unknown verdict {value!r}", advice="use one of " + ", ".join(map(_as_word, verdicts)))
        return IsVerdict(value.lower())
    if key in ("id", "error"):
        if not value:
            raise UsageError(f"{key}: needs a text", advice="write " + ("id:6548" if key == "id" else "error:exit-1"))
        return (Id if key == "id" else Error)(_words(value, quoted=quoted))
    if not value and not quoted:
        raise UsageError("src: needs a name", advice='write src:imessage, or src:"" for messages of no known source')
    whole = value.startswith("=") or not value
    return Source(Words(value.removeprefix("=")) if whole else _words(value, quoted=quoted), whole)


def _as_word(verdict: str) -> str:
    return f'"{verdict}"' if " " in verdict else str(verdict)


def _number(key: str, text: str, advice: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"invalid number in {key}:{text}", advice=advice)
    return int(text)


def _unknown_key(key: str, value: str) -> UsageError:
    """The error for a key that does not exist."""
    import difflib  # only for what may be misspelt

    near = difflib.get_close_matches(key.lower(), KEYS, 1, cutoff=0.8)
    right = f"write {near[0]}:" if near else f"keys are {' '.join(f'{name}:' for name in KEYS if name != 'source')}"
    return UsageError(f"unknown key {key}:", advice=f'{right}, or "{key}:{value}" in quotes as text')
