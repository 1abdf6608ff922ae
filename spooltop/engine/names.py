r"""Names of messages: how they are made, and what they say. Pure; nothing here touches a file.

::

    new   <id>[,s=<source>][,n=<attempts so far>][,t=<not before, µs>][,e=<how the last attempt ended>][,x=1 (canary)]
    cur   <name in new>,c=<token, 32 hex>.<µs of the claim>:2,P<pid>
    id    <µs since epoch, 16 digits>.P<pid>R<16 hex, random>.<host>

A name is *own* if its id has that form, or if it carries at least one attribute. Every other name is *foreign*: all of it is
the id, commas and colons included, and it is never renamed but for the tail of a claim.

Names are ``str`` as ``os.listdir`` gives them: bytes that are not UTF-8 are lone surrogates (PEP 383).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from spooltop.model import Frozen

MAX_NAME = 255
"""Longest name a directory takes, in bytes."""
MAX_NEW = 150
"""Longest name, in bytes, of a message in ``new`` that we name."""
MAX_SOURCE = 40
"""Longest source, in bytes of its UTF-8. Escaped in a name, each byte outside ``[A-Za-z0-9._-]`` takes three."""
MAX_ENDED = 24
"""Maximum bytes of the description of how an attempt ended, as encoded in the name."""
MAX_HOST = 30
TAIL_ROOM = len(",c=.:2,P") + 32 + 16 + 7
"""Bytes that the tail of a claim may take (a pid has at most seven digits, proc(5) pid_max)."""
_MAX_CLAIMABLE = MAX_NAME - TAIL_ROOM
GROWTH = len(",n=9999,t=1234567890123456")
"""Bytes by which a name may grow while its message is released again and again. The description of how the last attempt ended may
use the rest of ``MAX_NEW``, and is left out if that is not enough."""
LATEST = 95_617_584_000_000_000
"""The year 5000, in µs since the epoch: a later time would not be read back."""

_PLAIN = re.compile(r"[A-Za-z0-9._-]*\Z")
# Each character can be taken in one way only, so a failed match is linear. No possessive group ("(?:…)++") does it: before
# Python 3.11.5 those kept half of a part that failed, a "%" without its digits (cpython gh-106052).
_VALUE = r"(?=[A-Za-z0-9._%-])[A-Za-z0-9._-]*(?:%[0-9A-F]{2}[A-Za-z0-9._-]*)*"
_ENCODED = re.compile(_VALUE + r"\Z")
_OWN_ID = re.compile(r"[0-9]{16}\.P[0-9]{1,10}R[0-9a-f]{16}\." + _VALUE + r"\Z")
_ATTRIBUTES = re.compile(
    r"(?P<id>" + _VALUE + r")"
    r"(?:,s=(?P<source>" + _VALUE + r"))?"
    r"(?:,n=(?P<attempts>0|[1-9][0-9]{0,8}))?"
    r"(?:,t=(?P<not_before>[0-9]{1,17}))?"
    r"(?:,e=(?=[^,]{1,24}(?:,|\Z))(?P<ended>" + _VALUE + r"))?"
    r"(?P<canary>,x=1)?\Z"
)
_CLAIM = re.compile(r",c=([0-9a-f]{32})\.([0-9]{1,17}):2,P([0-9]{1,10})\Z")
_TAIL_AT_MOST = 67
"""Characters of the tail of a claim."""
_PID = re.compile(r":(?:2,)?P([0-9]{1,10})\Z")
_FLAGS = re.compile(r":2,([A-Za-z]*)\Z")
_NOT_BEFORE = re.compile(r",t=([0-9]{1,17})(?:,e=[A-Za-z0-9._%-]{1,24})?(?:,x=1)?\Z")
_MAIL = re.compile(r"[0-9]{10}\.(?:[#XRIVMPQH][0-9A-Fa-f]+){2,}(?:_[0-9]+)?(?=[.,]|\Z)")
_MAYBE_MAIL = re.compile(r"[0-9]{10}(?:_[0-9]+)?\.(?:[0-9]+|[#XRIVMPQH][0-9A-Fa-f]+)(?:_[0-9]+)?\.[^.]")
_MAIL_TIME = re.compile(r"([0-9]{10})\.M([0-9]{1,6})P")
_MICROSECONDS = re.compile(r"[0-9]{16}(?![0-9])")
_SECONDS = re.compile(r"[0-9]{10}(?![0-9])")


class Name(Frozen):
    """Parsed file name of a message.

    ``raw`` is the unchanged name; ``base`` is the name without the tail of a claim: the name in ``new`` from which it was
    claimed. ``attempts`` is the number of earlier attempts (None: a foreign name, whose attempts are not counted).
    ``not_before``, ``enqueued_us`` and ``claimed_us`` are µs since the epoch; ``enqueued_us`` is the time found in the name,
    which a foreign name may contain by chance.

    ``token`` and ``claimed_us`` come from a claim made by spooltop, ``pid`` from any claim;
    ``flags`` are mail flags (maildir(5)). ``ended`` says how the last attempt ended: ``exit-1``, ``signal-9``, ``timeout``,
    ``died``, the class of an exception, or None if the name does not contain it.
    """

    raw: str
    id: str
    base: str
    own: bool
    source: str | None
    attempts: int | None
    not_before: int | None
    canary: bool
    enqueued_us: int | None
    token: str | None
    claimed_us: int | None
    pid: int | None
    flags: str | None
    ended: str | None = None


def encode_value(value: str) -> str:
    """``value`` with every byte outside ``[A-Za-z0-9._-]`` as ``%XX``.

    >>> encode_value("a b/ü")
    'a%20b%2F%C3%BC'
    """
    if _PLAIN.match(value):
        return value
    return re.sub(rb"[^A-Za-z0-9._-]", lambda found: b"%%%02X" % found[0][0], os.fsencode(value)).decode()


def decode_value(encoded: str) -> str:
    """Decodes the result of ``encode_value``. Raises ``ValueError`` on text that ``encode_value`` never returns.

    >>> decode_value("a%20b%2F%C3%BC")
    'a b/ü'
    """
    if "%" not in encoded:
        if not _PLAIN.match(encoded):
            raise ValueError(f"not an encoded value: {encoded!r}")
        return encoded
    if not _ENCODED.match(encoded):
        raise ValueError(f"not an encoded value: {encoded!r}")
    return os.fsdecode(re.sub(rb"%(..)", lambda found: bytes([int(found.group(1), 16)]), encoded.encode("ascii")))


def ended_value(ended: str) -> str:
    """Encodes ``ended`` for a name, cut to ``MAX_ENDED`` bytes.

    >>> ended_value("exit-1"), ended_value("ConnectionResetByPeerError")
    ('exit-1', 'ConnectionResetByPeerErr')
    """
    return _encode_start(ended, MAX_ENDED)


def _encode_start(value: str, most: int) -> str:
    """Encodes ``value``, cut to ``most`` bytes, and not within a ``%XX``."""
    encoded = encode_value(value)
    return encoded if len(encoded) <= most else re.sub(r"%[0-9A-F]?\Z", "", encoded[:most])


def new_id(us: int, pid: int, host: str) -> str:
    """A new id of our own, put at ``us`` µs since the epoch. 64 random bits keep two containers with one pid and host apart."""
    return f"{us:016d}.P{pid}R{os.urandom(8).hex()}.{encode_host(host)}"


@lru_cache(maxsize=8)
def encode_host(host: str) -> str:
    """Encodes ``host`` for an id, cut to ``MAX_HOST`` bytes."""
    return _encode_start(host, MAX_HOST) or "-"


def is_own_id(id: str) -> bool:
    return _OWN_ID.match(id) is not None


def in_new(
    id: str,
    *,
    source: str | None = None,
    attempts: int | None = None,
    not_before: int | None = None,
    canary: bool = False,
    ended: str | None = None,
) -> str:
    """The name in ``new`` of a message of our own. An id that somebody chose is encoded and carries ``,n=`` at the least, so
    that its attempts can be counted. Raises ``ValueError`` for an empty id or source, a source over ``MAX_SOURCE`` bytes, a time
    before 1970 or past the year 5000, and a name over ``MAX_NEW`` bytes.

    >>> in_new("order-17")
    'order-17,n=0'
    >>> in_new("order 17", source="imessage", attempts=2)
    'order%2017,s=imessage,n=2'
    """
    if source is not None and not 0 < len(os.fsencode(source)) <= MAX_SOURCE:
        raise ValueError(f"a source takes 1 to {MAX_SOURCE} bytes, this one {len(os.fsencode(source))}: {source!r}")
    if not_before is not None and not 0 <= not_before <= LATEST:
        raise ValueError(f"no time from 1970 to 5000: {not_before / 1e6:g} s since the epoch")
    encoded = _encode_id(id)
    name = _build(encoded, source, attempts, not_before, canary, ended)
    if len(name) > MAX_NEW:
        parts = [f"the id {len(encoded)}"]
        if source is not None:
            parts.append(f"the source {len(encode_value(source))}")
        raise ValueError(
            f"the name would take {len(name)} bytes, {MAX_NEW} are allowed: choose a shorter id or source ({', '.join(parts)}; "
            "a byte outside A-Z a-z 0-9 . _ - takes three)"
        )
    return name


def _encode_id(id: str) -> str:
    if not id:
        raise ValueError("an id is not empty")
    if is_own_id(id):
        return id
    encoded = encode_value(id)
    return "%2E" + encoded[1:] if encoded[0] == "." else encoded  # a dot file is no message


def _build(
    id: str, source: str | None, attempts: int | None, not_before: int | None, canary: bool, ended: str | None = None
) -> str:
    name = id
    if source is not None:
        name += ",s=" + encode_value(source)
    if attempts or not is_own_id(id):
        name += f",n={attempts or 0}"
    if not_before is not None:
        name += f",t={not_before}"
    tail = ",x=1" if canary else ""
    # Left out rather than cut further where the name would grow too long: half a word says something else.
    if ended and len(name) + len(end := ",e=" + ended_value(ended)) + len(tail) <= MAX_NEW:
        name += end
    return name + tail


def in_cur(name_in_new: str, token: str, us: int, pid: int) -> str:
    """Builds the name of a claim: ``token`` of the holder, ``us`` µs of the claim, which the holder never uses twice."""
    return f"{name_in_new},c={token}.{us:016d}:2,P{pid}"


def claimable(name_in_new: str) -> bool:
    """False for a name that is too long for the tail of a claim."""
    if len(name_in_new) > _MAX_CLAIMABLE:
        return False
    return name_in_new.isascii() or len(os.fsencode(name_in_new)) <= _MAX_CLAIMABLE


def requeued_name(name: Name, *, not_before: int | None = None, ended: str | None = None) -> str:
    """Builds the name of a claim that goes back to ``new``: an own name with its attempt counted, a foreign name unchanged. A
    name that another program made too long to hold the count and be claimed again is unchanged too.

    >>> claimed = parse("order-17,n=1,c=0123456789abcdef0123456789abcdef.1795222800000000:2,P7", claimed=True)
    >>> requeued_name(claimed, ended="exit-1")
    'order-17,n=2,e=exit-1'
    """
    if not name.own:
        return name.base
    back = _build(_encoded_id(name), name.source, (name.attempts or 0) + 1, not_before, name.canary, ended)
    return back if claimable(back) else name.base


def _encoded_id(name: Name) -> str:
    found = _ATTRIBUTES.match(name.base)
    assert found is not None  # own names are those that match
    return found["id"]


def reset_attempts(name: Name) -> str:
    """Name in ``new`` with the attempts reset to zero. Without the reset, a message redriven at the limit would be rejected again
    at its first failure.

    >>> reset_attempts(parse("order-17,s=mail,n=9,c=0123456789abcdef0123456789abcdef.1795222800000000:2,P7", claimed=True))
    'order-17,s=mail,n=0'
    """
    if not name.own:
        return name.base
    return _build(_encoded_id(name), name.source, None, None, name.canary)


def parse(raw: str, *, claimed: bool) -> Name:
    """Parses ``raw``; never fails. ``claimed`` is True for names in ``cur`` and for claims that were set aside: only in these is
    the tail of a claim recognised, only at the end, and only in its exact forms.

    >>> name = parse("1795220920443125.9155.vm:2,P4242", claimed=True)
    >>> name.id, name.base, name.own
    ('1795220920443125.9155.vm', '1795220920443125.9155.vm', False)
    """
    base, token, claimed_us, pid, flags = raw, None, None, None, None
    if claimed and (colon := raw.rfind(":")) > 0:
        if found := _CLAIM.search(raw, max(0, colon - 60)):
            base, token, claimed_us, pid = raw[: found.start()], found[1], int(found[2]), int(found[3])
        elif found := _PID.search(raw, colon):
            base, pid = raw[: found.start()], int(found[1])
        elif found := _FLAGS.search(raw, colon):
            base, flags = raw[: found.start()], found[1]
        if not base:  # a tail and nothing before it: no claim of anything
            base, token, claimed_us, pid, flags = raw, None, None, None, None
    if _OWN_ID.match(base):  # the most frequent form by far
        return Name(raw, base, base, True, None, 0, None, False, int(base[:16]), token, claimed_us, pid, flags)
    found = _ATTRIBUTES.match(base)
    if found is None or (not (own_id := is_own_id(found["id"])) and found.end("id") == len(base)):
        return Name(raw, base, base, False, None, None, None, False, enqueued_us(base), token, claimed_us, pid, flags)
    id = found["id"]
    before, ended = found["not_before"], found["ended"]
    return Name(
        raw,
        id if own_id else decode_value(id),
        base,
        True,
        None if found["source"] is None else decode_value(found["source"]),
        int(found["attempts"] or 0),
        None if before is None else int(before),
        found["canary"] is not None,
        enqueued_us(base),
        token,
        claimed_us,
        pid,
        flags,
        None if ended is None else decode_value(ended),
    )


def enqueued_us(name: str) -> int | None:
    """The time at the beginning of a name, in µs since the epoch: 16 digits are µs, 10 digits are seconds, and mail has its
    µs in ``.M<µs>P`` (maildir(5))."""
    if name[16:17] == "." and name[:16].isdecimal() and name[:16].isascii():
        return int(name[:16])  # the usual form, without a pattern
    if not "0" <= name[:1] <= "9":
        return None
    if _MICROSECONDS.match(name):
        return int(name[:16])
    if found := _MAIL_TIME.match(name):
        return int(found[1]) * 1_000_000 + int(found[2])
    if _SECONDS.match(name):
        return int(name[:10]) * 1_000_000
    return None


def not_before(name_in_new: str) -> int | None:
    """Returns the ``t=`` of a name in ``new``, in µs since the epoch; None if it has none. A fast path of
    ``parse(...).not_before``."""
    if ",t=" not in name_in_new:
        return None
    found = _NOT_BEFORE.search(name_in_new)
    return int(found[1]) if found and _ATTRIBUTES.match(name_in_new) else None


def has_own_tail(name: str) -> bool:
    """True for the name of a claim that a consumer of this engine made.

    >>> [has_own_tail(f"order-17{tail}") for tail in (",c=0123456789abcdef0123456789abcdef.1795222800000000:2,P7", ":2,P7")]
    [True, False]
    """
    return _CLAIM.search(name, max(0, len(name) - _TAIL_AT_MOST)) is not None


def is_mail_name(name: str) -> bool:
    """True for names that mail is delivered under (maildir(5)): ten digits, then two or more of the parts that make it unique, as
    ``M<µs>P<pid>`` of Dovecot and Courier, ``V<device>I<inode>M<µs>`` of Postfix, ``H<number>P<pid>`` of exim.

    >>> [is_mail_name(f"1795220919.{rest}") for rest in ("Vfd00I1fM8.vm", "H7P42.vm,S=9", "M7P42", "42.vm", "M7.vm")]
    [True, True, True, False, False]
    """
    return _MAIL.match(name) is not None


def may_be_mail_name(name: str) -> bool:
    """True for names that mail has as well as jobs: ``<10 digits>.<pid>.<host>`` of qmail and of shell scripts, and those of
    procmail and mutt.

    >>> [may_be_mail_name(name) for name in ("1795220919.42.vm", "1795220919.R4f.vm", "1795220919.42", "1795220919782871.42.vm")]
    [True, True, False, False]
    """
    return _MAYBE_MAIL.match(name) is not None
