"""Telling a mail folder from a spool: both have ``tmp``, ``new``, ``cur``, but the ``cur`` of mail is read mail (maildir(5))."""

from __future__ import annotations

from itertools import islice

from .dirs import SpoolDirs
from .names import is_mail_name, parse

__all__ = ["mail_sign"]

_MARKS = ("dovecot", "courier")
_LOOKED_AT = 4096


def mail_sign(dirs: SpoolDirs) -> str | None:
    """What shows that this is a mail folder, in words; None where nothing does.

    Files of mail servers beside the boxes, flags in ``cur``, names as mail delivery gives them. Of a large box the first names
    that the directory gives are looked at.
    """
    for name in islice(dirs.files.scan(dirs.root), _LOOKED_AT):
        if name == "maildirfolder" or name.startswith(_MARKS):
            return f"it holds {name}" if name.isprintable() else "it holds files of a mail server"
    if dirs.cur is not None:
        for name in islice(dirs.files.scan(dirs.cur), _LOOKED_AT):
            told = parse(name, claimed=True)
            if told.flags is not None:
                return "names in cur carry mail flags"
            if is_mail_name(name):
                return "names in cur are those of mail"
    if dirs.new is not None:
        for name in islice(dirs.files.scan(dirs.new), _LOOKED_AT):
            if is_mail_name(name):
                return "names in new are those of mail"
    return None
