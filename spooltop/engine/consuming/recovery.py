"""Recovery: puts back the claims of dead consumers, and completes moves that were interrupted between two names of one file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spooltop.model.vocabulary import ASIDE, DIED, Box, Verdict

from ..dirs import SpoolDirs
from ..names import Name, parse, requeued_name
from ..presence import ANY_MACHINE, CONSUMERS, HostView, Presence, judge, look
from ..set_aside import entries, reject
from ..system.files import is_inode

_GOING = ".gone-"
"""Prefix of a presence file's name while the file is being removed."""


def recover(
    dirs: SpoolDirs,
    clock: Callable[[], float],
    host: str,
    *,
    mine: str | None,
    durable: bool,
    max_attempts: int,
    hosts: str = ANY_MACHINE,
) -> list[str]:
    """The ids that went back to ``new``. ``mine`` is this consumer's own token, whose claims are left alone; ``hosts`` as in
    ``Spool``.

    Only claims of our own protocol whose holder is proved dead; the attempt is counted, and at the limit the message is rejected.
    Those of ``spooltop move`` are left to the next move: only that asks whether they were put.
    """
    files, cur, new = dirs.files, dirs.box(Box.CUR), dirs.box(Box.NEW)
    # In this order: claims listed before the locks are tried cannot belong to a consumer that appeared in between.
    claims = [parse(name, claimed=True) for name in files.list(cur) if ",c=" in name]
    tokens = {claim.token for claim in claims if claim.token is not None and claim.token != mine}
    vantage = HostView.of(dirs, hosts)
    dead = {token for token in tokens if _is_dead(look(dirs, token), vantage)}
    back: list[str] = []
    set_aside = False
    for claim in sorted((claim for claim in claims if claim.token in dead), key=lambda claim: claim.enqueued_us or 0):
        with _losing_races():
            found = files.stat(claim.raw, cur)
            if not stat.S_ISREG(found.st_mode):
                continue
            if found.st_nlink > 1 and has_other_name(dirs, claim, found.st_ino):
                files.unlink(claim.raw, cur)
                continue
            attempt = (claim.attempts or 0) + 1
            if claim.own and attempt >= max_attempts:
                reject(
                    dirs, claim.raw, found.st_ino, f"its consumers died or gave it back {attempt} times",
                    operation=f"engine.{claim.token}", at=clock(), who=f"recover, pid {os.getpid()} on {host}", attempt=attempt,
                    durable=durable, ended=DIED,
                )  # fmt: skip
                set_aside = True
                continue
            files.move(claim.raw, cur, requeued_name(claim, ended=DIED), new, inode=found.st_ino)
            back.append(claim.id)
    if durable and back:
        files.sync_dir(new)
        files.sync_dir(cur)
    if set_aside:
        for token in dead:
            dirs.forget(Box.REJECTED.value, f"engine.{token}")
    _finish_puts(dirs)
    _tidy_presence(dirs, mine, vantage)
    return back


def _is_dead(presence: Presence, vantage: HostView) -> bool:
    return presence.moves_to is None and judge(presence, vantage)[0] is Verdict.DEAD


@contextmanager
def _losing_races() -> Iterator[None]:
    """Ends the block, and raises nothing, where another recover or an operator was quicker, and at a conflict: both files stay
    and are shown. So does EPERM, which a sticky directory causes for another user's file: the file is left for its owner or the
    owner of the spool."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        pass
    except OSError as error:
        if error.errno != errno.EPERM:  # any other says that nothing may be moved at all
            raise


def has_other_name(dirs: SpoolDirs, claim: Name, inode: int) -> bool:
    """True if the file already exists at the destination of a rename that was cut off."""
    for name in dirs.files.list(dirs.box(Box.NEW)):
        if _begins_alike(name, claim) and is_inode(dirs.files, name, dirs.box(Box.NEW), inode):
            return True
    for box in ASIDE:
        for entry in entries(dirs, box):
            if _begins_alike(entry.name, claim):
                target = dirs.private_dir(box.value, entry.operation)
                if target is not None and is_inode(dirs.files, entry.name, target, inode):
                    return True
    return False


def _begins_alike(name: str, claim: Name) -> bool:
    return name.startswith(claim.base.partition(",")[0] or claim.base)


def _finish_puts(dirs: SpoolDirs) -> None:
    """Completes interrupted puts: a file that is in ``tmp`` and, as the same file, in ``new`` or ``cur`` is delivered, so its
    name in ``tmp`` is removed."""
    if dirs.tmp is None:
        return
    files, claimed = dirs.files, None
    for name in files.list(dirs.tmp):
        with _losing_races():  # to its writer, which may finish meanwhile
            found = files.stat(name, dirs.tmp)
            if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
                continue
            delivered = is_inode(dirs.files, name, dirs.box(Box.NEW), found.st_ino)
            if not delivered:
                claimed = files.list(dirs.box(Box.CUR)) if claimed is None else claimed
                delivered = any(
                    other.startswith(name) and is_inode(dirs.files, other, dirs.box(Box.CUR), found.st_ino) for other in claimed
                )
            if delivered:
                files.unlink(name, dirs.tmp)


def _tidy_presence(dirs: SpoolDirs, mine: str | None, vantage: HostView) -> None:
    """Removes the presence files of dead consumers that hold no claim any more.

    A dead token never claims again, but an operator's undo may put a claim of it back into ``cur``. A file is therefore hidden
    first, and restored if a claim has turned up meanwhile: without it nobody could tell that its holder is dead.
    """
    consumers = dirs.private_dir(CONSUMERS)
    if consumers is None:
        return
    files = dirs.files
    listed = files.list(consumers)
    tokens = [token for token in listed if not token.startswith(".") and token != mine]
    dead = {token for token in tokens if _is_dead(look(dirs, token), vantage)}
    going = {name.removeprefix(_GOING) for name in listed if name.startswith(_GOING)}  # left by one that was cut off
    if not dead and not going:
        return
    for token in dead - _holding(dirs):
        with _losing_races():
            files.rename(token, consumers, _GOING + token, consumers)
            going.add(token)
    held = _holding(dirs) if going else set()
    for token in going:
        with _losing_races():
            if token in held:
                files.move(_GOING + token, consumers, token, consumers)
            else:
                files.unlink(_GOING + token, consumers)


def _holding(dirs: SpoolDirs) -> set[str | None]:
    """The tokens of the claims in ``cur``."""
    return {parse(name, claimed=True).token for name in dirs.files.list(dirs.box(Box.CUR)) if ",c=" in name}
