"""Completion in the shells that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.streams import spooltop
from tests.needs import need

from .terminal import Terminal

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='ready>' && source {}"),
    "zsh": (["zsh", "-f", "-i"], "PS1='ready>'; autoload -Uz compinit && compinit -D -u && source {}"),
    "fish": (["fish", "--no-config", "-i"], "function fish_prompt; echo -n 'ready>'; end; source {}"),
}
TYPED = [
    ("spooltop hol", "spooltop hold "),
    ("spooltop requeue --hold", "spooltop requeue --hold-poison "),
    ("spooltop requeue --box rej", "spooltop requeue --box rejected "),
    ("spooltop check --timeout 5 --crit", "spooltop check --timeout 5 --critical"),
    ("spooltop help unl", "spooltop help unlock "),
    ("spooltop --no-m", "spooltop --no-mouse "),
    ("spooltop ls somewh", "spooltop ls somewhere"),
    ("spooltop --read-only somewh", "spooltop --read-only somewhere"),
]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes(shell: str, tmp_path: Path) -> None:
    need(shell)
    (tmp_path / "somewhere").mkdir()
    path = tmp_path / "script"
    path.write_text(spooltop("completion", shell).out)
    argv, first = SHELLS[shell]
    with Terminal(argv, cols=120, env={"HOME": str(tmp_path), "TERM": "xterm"}, cwd=str(tmp_path)) as terminal:
        terminal.type(first.format(path) + "; clear\n")
        terminal.wait_for(lambda text: text.strip() == "ready>")
        for typed, completed in TYPED:
            terminal.type(f"{typed}\t")
            terminal.wait_for(f"ready>{completed}".rstrip())
            terminal.type("\x15")
            terminal.wait_for(lambda text: text.rstrip().endswith("ready>"))
