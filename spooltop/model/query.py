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

Text is compared with capitals. A backslash is nothing special, so ``\x1b`` finds what is shown so. A term about something that
is not known of a row (its age, its tries) does not hold, and its opposite does not either: nothing is selected by ignorance.
For the same reason an unknown key is refused: ``!owner:bob``, taken as text, would select everything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from spooltop.errors import UsageError

from .vocabulary import Box, Frozen, Row, Verdict, escape, parse_age

if TYPE_CHECKING:

    from .plan import OperationRecord
    from .snapshot import ConsumerRow


# The facts that a filter asks for: of messages, consumers, cursors, locks and operations alike. Texts are as shown, that is
# escaped. A fact that is not known is None; of nothing else may be said that it is so, nor that not. But for the texts they are
# called by the keys of the terms.

class MessageFacts:
    """The facts of a message at ``now`` (epoch seconds), each made when it is asked for: a filter reads a million rows."""

    __slots__ = ("_now", "_row")

    def __init__(self, row: Row, now: float) -> None:
        self._row = row
        self._now = now

    @property
    def texts(self) -> Iterable[str]:
        row = self._row
        yield escape(row.name)
        yield escape(row.id)
        yield escape(row.source or "")
        if row.owner is not None:
            yield escape(row.owner.command or "")
            yield escape(row.owner.name or "")
        yield row.evidence
        yield row.note
        yield row.reason

    @property
    def id(self) -> Collection[str]:
        return (escape(self._row.id),)

    @property
    def src(self) -> Collection[str]:
        return (escape(self._row.source or ""),)

    @property
    def age(self) -> float | None:
        return self._row.in_box_age(self._now)

    @property
    def pid(self) -> Collection[int] | None:
        owner = self._row.owner
        if owner is None or owner.pid is None:
            return None if self._judged else ()
        return (owner.pid,)

    @property
    def holder(self) -> str | None:
        owner = self._row.owner
        return escape(owner.name) if owner is not None and owner.name else None if self._judged else ""

    @property
    def tries(self) -> int | None:
        return self._row.attempt

    @property
    def verdict(self) -> str | None:
        return self._row.verdict or (None if self._judged else "")

    @property
    def error(self) -> Iterable[str]:
        return filter(None, (escape(self._row.ended or ""), self._row.reason))

    @property
    def _judged(self) -> bool:
        """True if a row without a verdict or an owner means "not known" rather than "none"."""
        return self._row.box in (Box.CUR, Box.TMP)


class Fields(Frozen):
    """Facts that are known at once."""

    texts: tuple[str, ...]
    id: tuple[str, ...] = ()
    src: tuple[str] = ("",)
    age: float | None = None
    pid: tuple[int, ...] | None = ()
    holder: str | None = ""
    tries: int | None = None
    verdict: str | None = ""
    error: tuple[str, ...] = ()


Facts: TypeAlias = MessageFacts | Fields
"""Anything that a filter can be applied to. ``age`` is in seconds; ``pid`` and ``verdict`` are empty if there are none."""


def consumer_facts(consumer: ConsumerRow, now: float) -> Fields:
    """``verdict`` is the word of the list; ``age`` is the time for which it has held the oldest of its claims."""
    owner = consumer.owner
    named = (escape(word or "") for word in (owner.name, owner.command, owner.user, owner.host, consumer.token))
    ids = tuple(map(escape, consumer.ids))
    pid = "" if owner.pid is None else str(owner.pid)
    texts = (pid, *named, consumer.word, consumer.word.lower(), consumer.evidence, *ids)
    pids = None if owner.pid is None else (owner.pid,)
    holder = escape(owner.name or "")
    return Fields(texts, ids, age=consumer.held(now), pid=pids, holder=holder, verdict=consumer.word.lower())


def operation_facts(record: OperationRecord, now: float) -> Fields:
    """``age`` is the time since it was done; its failures are its errors."""
    end = "not finished" if record.open else "undone" if record.undone_by else ""
    errors = tuple(filter(None, (f"{record.failed} failed" if record.failed else "", end)))
    texts = (record.operation, str(record.action), escape(record.user), record.words, *errors)
    return Fields(texts, (record.operation,), age=max(0.0, now - record.at), error=errors)


# Terms of a filter: how each matches, and how it is written. ``holds(facts)`` is None if the fact is not known; ``str()`` gives
# a word that parses to the same term. A text with a ``*`` describes all of what it is compared with, and not a part: ``*``
# stands for any characters, ``?`` for one.

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
}  # fmt: skip
"""Comparison operators of a term, by their sign."""
KEYED = r"(?s)([A-Za-z]+):(.*)"
"""Matches ``key:value``."""


class Words(Frozen):
    """Text to be found. ``glob``: ``*`` and ``?`` in it have their meaning; else it occurs somewhere as it is."""

    text: str
    glob: bool = False

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts that occur in whatever matches."""
        return tuple(filter(None, re.split(r"[*?]", self.text))) if self.glob else (self.text,)

    def found_in(self, text: str) -> bool:
        return fnmatchcase(text, self.text.replace("[", "[[]")) if self.glob else self.text in text

    def quoted(self, *, always: bool = False) -> str:
        return self.text if self.glob else _quote(self.text, always=always or "*" in self.text)


class Term(Frozen):
    """A condition on the fact that ``key`` names ("": text anywhere, or with a glob one of the texts in full).

    ``words`` is what is compared, or how a number was written; ``number`` is that number, an age in seconds. With ``compare``
    "=" a source is the words, and an empty one matches messages of no known source; without it a source contains them.
    """

    key: str
    words: Words
    compare: str = ""
    number: float = 0.0

    def holds(self, facts: Facts) -> bool | None:
        fact = getattr(facts, self.key or "texts")
        if fact is None:
            return None
        match self.key:
            case "pid":
                return self.number in fact
            case "age" | "tries":
                return COMPARE[self.compare](fact, self.number)
            case "holder" | "verdict":
                return bool(fact == self.words.text)
        return self.words.text in fact if self.compare else any(map(self.words.found_in, fact))

    def __str__(self) -> str:
        text = self.words.text
        match self.key:
            case "":
                return self.words.quoted(always=bool(re.fullmatch(KEYED, text)) or text.startswith("!"))
            case "src":
                return "src:" + ("=" if self.compare and text else "") + self.words.quoted(always=not text)
            case "id" | "error":
                return f"{self.key}:{self.words.quoted()}"
            case "holder" | "verdict":
                return f"{self.key}:{_quote(text)}"
        return f"{self.key}:{'' if self.compare == '=' else self.compare}{text}"


def held_by(name: str) -> Term:
    """Matches what the consumer of just this name holds."""
    return Term("holder", Words(name))


def _quote(text: str, *, always: bool = False) -> str:
    if always or not text or '"' in text or any(char.isspace() for char in text):
        return '"' + text.replace('"', '""') + '"'
    return text


KEYS = ("age", "src", "source", "id", "pid", "holder", "tries", "verdict", "error")
_TEXT_KEYS = ("", "src", "id", "error")
"""Keys of terms about texts that are shown."""
OLDER = operator.ge
"""Comparison of an age with "older than"."""
_EXAMPLES = {"holder": "worker-1", "id": "6548", "error": "exit-1"}
"""Values of the keys that need one."""
_OPERATOR = r"(?s)(>=|<=|>|<|=)?(.*)"
_PLAIN = r"[A-Za-z0-9._-]+"


class Query(Frozen):
    """A parsed filter.

    ``terms`` are (term, wanted); wanted is False after ``!``. ``hint`` says what the first of the terms
    lacks that a lenient parse left out, or which keys there are. ``str()`` gives words that parse to the same query.
    """

    terms: tuple[tuple[Term, bool], ...] = ()
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
        words = [term.words for term, wanted in self.terms if wanted and term.key in _TEXT_KEYS]
        return tuple(sorted({piece for one in words for piece in one.pieces if piece}, key=lambda text: (-len(text), text)))

    @property
    def empty(self) -> bool:
        """True if it matches everything."""
        return not self.terms

    @property
    def needs_stat(self) -> bool:
        """True if a row's time may be needed, which the name alone may not contain."""
        return any(term.key == "age" for term, _ in self.terms)

    @property
    def plain_terms(self) -> tuple[bytes, ...]:
        """Bytes that the name of every matching message in ``new`` contains, provided that the name is plain (see
        ``is_plain``)."""
        found = []
        for term, wanted in self.terms:
            if wanted and term.key in ("", "id", "src"):
                front = b",s=" if term.key == "src" and term.compare else b""
                found += [front + piece.encode() for piece in term.words.pieces if re.fullmatch(_PLAIN, piece)]
        return tuple(found)

    @property
    def by_name(self) -> ByName | None:
        """Splits the query if a plain name in ``new`` decides it; None if a text may occur elsewhere than in the name."""
        if any(
            term.key == "id" or (not term.key and (term.words.glob or not re.fullmatch(_PLAIN, term.words.text)))
            for term, _ in self.terms
        ):
            return None
        return ByName(
            tuple((term.words.text, wanted) for term, wanted in self.terms if not term.key),
            tuple((COMPARE[term.compare], term.number, wanted) for term, wanted in self.terms if term.key == "age"),
            Query(tuple((term, wanted) for term, wanted in self.terms if term.key not in ("", "age"))),
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


class ByName(Frozen):
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
    terms and says what the first lacks. ``verdicts`` are those of what is filtered.

    >>> str(parse('age:>10m !verdict:alive "two words"'))
    'age:>10m !verdict:alive "two words"'
    """
    terms: list[tuple[Term, bool]] = []
    hint = ""
    words, closed = _split(text)
    if not closed and not lenient:
        raise UsageError("a quotation mark is not closed", 'write "two words", and "" for the mark itself inside')
    for word, quoted_at in words:
        try:
            terms.append(_term(word, quoted_at, verdicts))
        except UsageError as error:
            if not lenient:
                raise
            hint = hint or str(error)
    return Query(tuple(terms), hint)


_WORD = r'(?:"(?:[^"]|"")*+"?|[^\s"])+'
_PART = r'"((?:[^"]|"")*+)("?)|[^"]+'


def _split(text: str) -> tuple[list[tuple[str, int | None]], bool]:
    """Splits at blanks that are not in quotes: each word without quotes, and where in it the first quoted part starts. False: the
    last quotation mark is not closed."""
    words, closed = [], True
    for found in re.finditer(_WORD, text):
        word, quoted_at = "", None
        for part in re.finditer(_PART, found[0]):
            quoted, end = part.groups()
            if quoted is not None:
                closed = bool(end)
                quoted_at = len(word) if quoted_at is None else quoted_at
            word += part[0] if quoted is None else quoted.replace('""', '"')
        words.append((word, quoted_at))
    return words, closed


def _term(text: str, quoted_at: int | None, verdicts: Collection[str]) -> tuple[Term, bool]:
    wanted = True
    if text.startswith("!") and quoted_at != 0:
        wanted, text = False, text[1:]
        quoted_at = None if quoted_at is None else quoted_at - 1
    keyed = re.fullmatch(KEYED, text)
    if keyed and (quoted_at is None or quoted_at >= keyed.start(2)):
        key, value = keyed.groups()
        if key not in KEYS:
            raise _unknown_key(key, value)
        return _keyed(key, value, verdicts, quoted=quoted_at is not None), wanted
    if not text:
        raise UsageError("empty search term", "write some text, or a term such as age:>10m")
    return Term("", _words(text, quoted=quoted_at is not None)), wanted


def _words(text: str, *, quoted: bool) -> Words:
    return Words(text, glob="*" in text and not quoted)


def _keyed(key: str, value: str, verdicts: Collection[str], *, quoted: bool) -> Term:
    compare, rest = re.findall(_OPERATOR, value)[0]
    if key == "age":
        if compare in ("", "="):
            raise UsageError(f"age:{value} needs > or <", "write age:>10m or age:<5s")
        return Term(key, Words(rest), compare, parse_age(rest))
    if key == "tries":
        return _number_term(key, compare or "=", rest, "write tries:3 or tries:>3")
    if key == "pid":
        return _number_term(key, "=", value, "write pid:4312")
    if key == "verdict":
        if value.lower() not in verdicts:
            words = (f'"{one}"' if " " in one else str(one) for one in verdicts)
            raise UsageError(f"unknown verdict {value!r}", f"use one of {', '.join(words)}")
        return Term(key, Words(value.lower()))
    if key in _EXAMPLES:
        if not value:
            raise UsageError(f"{key}: needs a {'name' if key == 'holder' else 'text'}", f"write {key}:{_EXAMPLES[key]}")
        return held_by(value) if key == "holder" else Term(key, _words(value, quoted=quoted))
    if not value and not quoted:
        raise UsageError("src: needs a name", 'write src:imessage, or src:"" for messages of no known source')
    whole = value.startswith("=") or not value
    return Term("src", Words(value.removeprefix("=")) if whole else _words(value, quoted=quoted), "=" if whole else "")


def _number_term(key: str, compare: str, text: str, advice: str) -> Term:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"invalid number in {key}:{text}", advice)
    return Term(key, Words(str(int(text))), compare, int(text))


def _unknown_key(key: str, value: str) -> UsageError:
    """The error for a key that does not exist."""
    import difflib  # only for what may be misspelt

    near = difflib.get_close_matches(key.lower(), KEYS, 1, cutoff=0.8)
    right = f"write {near[0]}:" if near else f"keys are {' '.join(f'{name}:' for name in KEYS if name != 'source')}"
    return UsageError(f"unknown key {key}:", f'{right}, or "{key}:{value}" in quotes as text')
