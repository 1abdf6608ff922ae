"""Rechecks a holder just before its message is moved.

Own claims are checked by the lock on their presence file, which is proof. For claims of other consumers and files in ``tmp``
the evidence is read again, which is no proof, and the plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from spooltop.engine import presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.vocabulary import Box, Verdict

from ...storage.name_forms import tokens_of_claims

__all__ = ["JudgeAgain", "Recheck", "forgotten_words"]

JudgeAgain = Callable[[Box, Sequence[str]], Mapping[str, tuple[Verdict | None, str]]]
"""Judges names of ``tmp`` or ``cur`` now: name → (verdict, evidence). The name of a file in a staging directory is
``FOLDER/NAME``. Names that have gone are left out."""


def forgotten_words(box: Box) -> str:
    """Says why a message stays in ``box`` that was claimed by a consumer without a presence file."""
    return f"its consumer has exited and left no presence file: it stays in {box}"


class Recheck:
    """Rechecks the holders of one operation: a token that is dead stays dead and is tested once."""

    def __init__(self, dirs: SpoolDirs, again: JudgeAgain, *, hosts: str = presence.ANY_MACHINE) -> None:
        self._dirs = dirs
        self._again = again
        self.dead: set[str] = set()
        """Tokens whose claims may go."""
        self._read: dict[tuple[Box, str], tuple[Verdict | None, str]] = {}
        self._vantage = presence.Vantage.of(dirs, hosts)

    def prepare(self, items: Iterable[tuple[Box, str, str | None]]) -> None:
        """Reads the evidence on (box, name in its folder, token) again where no lock decides: once for a batch, just before
        its moves."""
        wanted: dict[Box, list[str]] = {}
        for box, name, token in items:
            if box is Box.TMP or (box is Box.CUR and token is None):
                wanted.setdefault(box, []).append(name)
        self._read = {
            (box, name): judged for box, asked in wanted.items() for name, judged in self._again(box, asked).items()
        }

    def blocked_by(self, box: Box, name: str, token: str | None, planned: Verdict | None) -> str | None:
        """Why ``name`` must stay where it is, or None. A claim that was planned as unknown may still be unknown."""
        verdict: Verdict | None
        if token in self.dead and box is Box.CUR:
            return None
        if box is Box.CUR and token is not None:
            verdict, evidence = self._own(token)
        elif box in (Box.CUR, Box.TMP):
            verdict, evidence = self._read.get((box, name), (Verdict.UNKNOWN, "it was not found again"))
        else:
            return None
        if verdict in (Verdict.ALIVE, Verdict.WRITING):
            return f"{verdict}: {evidence}"
        if verdict is Verdict.UNKNOWN and planned not in (Verdict.UNKNOWN, None):
            return f"its holder may be running: {evidence}"
        return None

    def forgotten(self, claims: Sequence[str]) -> set[str]:
        """The names of claims whose consumers have no presence file. In ``cur`` nobody could ever tell that their holders are
        dead."""
        tokens = tokens_of_claims(claims)
        missing = {token for token in {*tokens} if token and presence.look(self._dirs, token).state == "missing"}
        return {name for name, token in zip(claims, tokens, strict=True) if token in missing}

    def _own(self, token: str) -> tuple[Verdict, str]:
        verdict, evidence = presence.judge(presence.look(self._dirs, token), self._vantage)
        if verdict is Verdict.DEAD:
            self.dead.add(token)
        return verdict, evidence
