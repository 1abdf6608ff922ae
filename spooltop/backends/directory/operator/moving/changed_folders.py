"""Syncs the folders that the moves of an operation have changed, as few of them as the file system allows."""

from __future__ import annotations

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.vocabulary import Box

from ...storage.folders import Folder, Folders, drop_folder
from ...storage.name_lookup import NameLookup
from .move_errors import describe

__all__ = ["ChangedFolders"]


class ChangedFolders:
    """The changed folders of one operation. No method raises ``OSError``: ``take_problem`` returns the first error."""

    def __init__(self, dirs: SpoolDirs, lookup: NameLookup) -> None:
        self._dirs = dirs
        self._lookup = lookup
        self._folders: dict[Folder, bool] = {}
        """The folders in the order of the last change, and whether each was a target."""
        self._emptied: set[str] = set()
        self._problem = ""
        self._claims_synced = False

    def note(self, source: Folder, to: Folder | None) -> None:
        """Notes moves from ``source`` into ``to``; None: deletions."""
        for folder in (source, to):
            if folder is not None:
                self._folders[folder] = self._folders.pop(folder, False) or folder is to

    def note_emptied(self, operation: str) -> None:
        """Notes that a message was deleted from the folder of ``operation`` in the trash."""
        self._emptied.add(operation)

    def sync_claims(self, folders: Folders) -> None:
        """Syncs the claims that are about to leave the boxes, at the first call. Where directories do not wait for each other
        (btrfs) a power cut would otherwise bring the messages back to ``new``, beside those that were set aside."""
        if self._claims_synced:
            return
        self._claims_synced = True
        try:
            new = folders.of(Box.NEW, "")
            if not self._lookup.ordered(new):
                self._dirs.files.sync_dir(new.fd)
        except OSError as error:
            self._problem = f"moved, but a power failure may return it to new: {describe(error)}"

    def sync(self) -> None:
        """Syncs the targets, then the sources, of all moves since the last call."""
        last = {folder.id[0]: folder for folder in self._folders}
        # Where changes of names keep their order the directory that was changed last stands for all of its device; one that was
        # changed before that may have been synced by somebody since, and then its sync does nothing.
        enough = {device for device, folder in last.items() if self._lookup.ordered(folder)}
        for folder in sorted(self._folders, key=self._folders.__getitem__, reverse=True):  # the targets first
            if folder.id[0] in enough and last[folder.id[0]] is not folder:
                continue
            try:
                self._dirs.files.sync_dir(folder.fd)
            except OSError as error:
                self.report(f"moved, but a power failure may undo the move: {describe(error)}")
        self._folders.clear()

    def drop_emptied(self) -> None:
        """Removes the folders in the trash that are empty now."""
        for operation in self._emptied:
            drop_folder(self._dirs, Box.TRASH, operation)
        self._emptied.clear()

    def report(self, problem: str) -> None:
        """Keeps ``problem`` unless there was another before."""
        self._problem = self._problem or problem

    def take_problem(self) -> str:
        """Returns what went wrong since the last call, or ""."""
        problem, self._problem = self._problem, ""
        return problem
