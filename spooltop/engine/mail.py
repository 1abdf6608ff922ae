"""Telling a mail folder from a spool: both have ``tmp``, ``new``, ``cur``, but the ``cur`` of mail is read mail (maildir(5))."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice

from spooltop.model import LIVE, Box, Frozen, MailFolder, escape

from .dirs import OWN, SpoolDirs
from .names import has_own_tail, is_mail_name, may_be_mail_name, parse

LOOKED_AT = 4096
"""Maximum number of names of a directory that are examined."""
_MAIL_ROOT = r"dovecot|courier|(?:maildirfolder|maildirsize)\Z"
_MAIL_FILES = (
    "maildirfolder", "maildirsize", "dovecot-uidlist", "dovecot-uidvalidity", "dovecot.index", "dovecot.index.log",
    "dovecot-keywords", "courierimapuiddb", "courierimapsubscribed", "courierimapkeywords", "courierimaphieracl",
)  # fmt: skip
_FOLDERS = 8
"""Maximum number of hidden directories that are examined."""


class MailSign(Frozen):
    """Sign of a mail folder. ``words`` describe it; ``certain`` is False if a job spool may look the same."""

    words: str
    certain: bool

    @property
    def sentence(self) -> str:
        """``a mail folder (it holds maildirfolder): its cur is read mail, not stuck work``."""
        if self.certain:
            return f"a mail folder ({self.words}): its cur is read mail, not stuck work"
        return f"a mail folder or a job spool, which cannot be told apart here ({self.words})"


class _NameSigns:
    """Signs found in the names in the boxes. ``claims`` and ``own`` are evidence for a job spool."""

    def __init__(self) -> None:
        self.flags: str | None = None
        self.no_flags: str | None = None
        self.mail: str | None = None
        self.maybe: str | None = None
        self.claims = self.own = False

    def add(self, names: Iterable[str], box: Box) -> None:
        claimed = box is Box.CUR
        for raw in names:
            if self.own and raw[10:11] not in "._" and (not claimed or has_own_tail(raw)):
                continue  # no name of mail, and nothing else to learn from it
            name = parse(raw, claimed=claimed)
            base = name.base
            self.own = self.own or name.own
            is_mail = not name.own and is_mail_name(base)
            maybe = not name.own and not is_mail and may_be_mail_name(base)
            if name.pid is not None:
                # `:P` never occurs in mail. A claim of spooltop's own says something only of the kind of names that it is on:
                # a worker that runs while mail is delivered beside it makes no jobs of that mail.
                self.claims = self.claims or name.token is None or is_mail or maybe
                continue
            if name.flags:
                self.flags = self.flags or name.flags
            elif name.flags is not None:
                self.no_flags = self.no_flags or raw
            if is_mail:
                self.mail = self.mail or raw
            elif maybe:
                self.maybe = self.maybe or raw


def looks_like_mail(list_names: Callable[[str], Iterable[str] | None], exists: Callable[[str], bool]) -> MailSign | None:
    """Returns the sign by which a directory is a mail folder; None if it is a job spool, or if there is no sign.

    Signs are files of mail servers, flags (``:2,S``) in ``cur``, and the names under which mail is delivered. Names decide
    nothing if claims in ``cur`` end in ``:P<pid>``, which never occurs in mail. qmail's ``<seconds>.<pid>.<host>`` is also a
    common name for the jobs of shell scripts: it is only a doubt, which a message or a ``.spooltop`` written by spooltop removes.

    ``list_names`` returns the first names (``LOOKED_AT``) in a directory below the root, ``"."`` for the root; None if listing it
    is not permitted. ``exists`` checks for a file in a root that could not be listed completely.
    """
    listed = list_names(".")
    root = list(listed or ())
    if listed is None or len(root) >= LOOKED_AT:
        root += [name for name in _MAIL_FILES if exists(name)]
    seen = _NameSigns()
    for box in LIVE:
        seen.add(list_names(box) or (), box)
    certain = []
    if seen.flags is not None:
        certain.append(f"cur has :2,{seen.flags} flags")
    certain += [f"it holds {escape(name)}" for name in sorted(root) if re.match(_MAIL_ROOT, name)][:1]
    folders = list(_mail_folders(root, list_names))
    certain += [f"{escape(name)} in it is a mail folder" for name, is_marked in folders if is_marked][:1]
    if not certain and not seen.claims:
        if seen.no_flags is not None:
            certain.append(f"{escape(seen.no_flags)} in cur is named as read mail is")
        elif seen.mail is not None:
            certain.append(f"{escape(seen.mail)} is named as mail is")
    if certain:
        return MailSign("; ".join(certain), True)
    if seen.claims or seen.own or OWN in root:
        return None
    if folders:
        return MailSign(f"{escape(folders[0][0])} in it has tmp, new and cur, as a folder of mail", False)
    if seen.maybe is not None:
        return MailSign(f"{escape(seen.maybe)} is named as mail of qmail is, and as jobs are", False)
    return None


def _mail_folders(root: Iterable[str], list_names: Callable[[str], Iterable[str] | None]) -> Iterator[tuple[str, bool]]:
    """The folders of Maildir++ in ``root``, each with whether it is marked as one (``maildirfolder``)."""
    hidden = (name for name in sorted(root) if name[0] == "." and name != OWN)
    for name in islice(hidden, _FOLDERS):
        inside = set(list_names(name) or ())
        if "maildirfolder" in inside or {"tmp", "new", "cur"} <= inside:
            yield name, "maildirfolder" in inside


def _sign_in(dirs: SpoolDirs) -> MailSign | None:
    """Applies ``looks_like_mail`` to an open spool. Raises ``OSError`` if a box fails."""
    files = dirs.files
    opened = {".": dirs.root, Box.TMP: dirs.tmp, Box.NEW: dirs.new, Box.CUR: dirs.cur}

    def names_in(folder: str) -> list[str] | None:
        if (known := opened.get(folder)) is not None:
            with suppress(PermissionError):
                return list(islice(files.scan(known), LOOKED_AT))
            return None
        with suppress(OSError), files.closing(files.open_dir(folder, dirs.root)) as fd:
            return list(islice(files.scan(fd), LOOKED_AT))
        return None  # a file, a link, or not ours to look into

    def exists(name: str) -> bool:
        return files.is_inode(name, dirs.root, None, unseen=False)

    return looks_like_mail(names_in, exists)


def refuse_mail(dirs: SpoolDirs) -> None:
    """Raises ``MailFolder`` if the open spool is a mail folder, or may be one."""
    if (sign := _sign_in(dirs)) is not None:
        raise MailFolder(sign.sentence, "if it is a job spool: Spool(path, as_spool=True)", path=dirs.path)
