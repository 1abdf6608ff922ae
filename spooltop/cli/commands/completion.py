"""``completion``: scripts with which a shell completes commands, options and their values. Made from the tables of the parser."""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action
from collections.abc import Iterable, Iterator

from ..context import Arguments
from ..parser import COMMANDS, DASHBOARD, Parser


def completion(args: Arguments) -> int:
    args.terminal.out_each(script(args.shell))
    return 0


def script(shell: str) -> list[str]:
    """The lines of the script for ``bash``, ``zsh`` or ``fish``."""
    return list({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]())


def _all() -> Iterator[tuple[str, list[Action], Iterable[str]]]:
    """Yields the name of each command, "" for the dashboard, with its options, and the values that an argument without a dash may
    have; empty: any."""
    for command in (DASHBOARD, *COMMANDS.values()):
        arguments = Parser(command).arguments
        options = [one for one in arguments if one.option_strings and one.help != SUPPRESS]
        placed = (one.choices for one in arguments if one.choices and not one.option_strings)
        yield command.name, options, COMMANDS if command.name == "help" else next(placed, ())


def _value(option: Action) -> str:
    """The name of the value that an option takes; empty for one without."""
    return "" if option.nargs == 0 else str(option.metavar or option.dest.upper())


def _bash() -> Iterable[str]:
    yield "# eval \"$(spooltop completion bash)\""
    yield "_spooltop() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= word place words= files=-f"
    yield "  for ((place = 1; place < COMP_CWORD; place++)); do"
    yield "    word=${COMP_WORDS[place]}"
    yield "    [[ $word == -* ]] && continue"
    yield f"    case $word in {'|'.join(COMMANDS)}) command=$word ;; esac"
    yield "    break"
    yield "  done"
    yield "  case $command:$before in"
    for name, options, _ in _all():
        for option in options:
            if _value(option):
                pattern = "|".join(f"{name}:{flag}" for flag in option.option_strings)
                words = f"-W '{' '.join(option.choices)}'" if option.choices else "-f"
                yield f"    {pattern}) mapfile -t COMPREPLY < <(compgen {words} -- \"$cur\"); return ;;"
    yield "  esac"
    yield "  case $command:$cur in"
    for name, options, values in _all():
        flags = " ".join(flag for option in options for flag in option.option_strings)
        yield f"    {name}:-*) words='{flags}' ;;"
        if values:
            yield f"    {name}:*) words='{' '.join(values)}' files= ;;"
    yield f"    :*) words='{' '.join(COMMANDS)}' ;;"
    yield "  esac"
    yield "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"; [[ $cur == -* ]] || compgen $files -- \"$cur\")"
    yield "}"
    yield "complete -o filenames -F _spooltop spooltop"


def _zsh() -> Iterable[str]:
    yield "#compdef spooltop"
    yield "# spooltop completion zsh > ~/.zfunc/_spooltop, with fpath+=~/.zfunc before compinit in ~/.zshrc"
    yield "_spooltop() {"
    yield "  local command= word"
    yield "  for word in ${words[2,CURRENT-1]}; do"
    yield "    [[ $word == -* ]] && continue"
    yield f"    case $word in ({'|'.join(COMMANDS)}) command=$word ;; esac"
    yield "    break"
    yield "  done"
    yield "  case $command in"
    for name, options, values in _all():
        rest = f"'*:command:({' '.join(values)})'" if values else "'*:path:_files'"
        specs = " ".join([*map(_zsh_option, options), rest if name else "'*: :_spooltop_first'"])
        yield f"    ({name or chr(39) * 2}) _arguments {specs} ;;"
    yield "  esac"
    yield "}"
    yield "_spooltop_first() {"
    yield "  local -a commands=("
    for one in COMMANDS.values():
        yield f"    {_quoted(f'{one.name}:{one.does}')}"
    yield "  )"
    yield "  _describe command commands"
    yield "  _files"
    yield "}"
    # Autoloaded from fpath, this file is the body of the function; sourced, it only defines it.
    yield 'if [[ $funcstack[1] == _spooltop ]]; then _spooltop "$@"; else compdef _spooltop spooltop; fi'


def _zsh_option(option: Action) -> str:
    what = re.sub(r"([\[\]:\\])", r"\\\1", str(option.help))
    values = f"({' '.join(option.choices)})" if option.choices else "_files"
    value = f":{re.sub('[^A-Za-z]+', ' ', word).strip()}:{values}" if (word := _value(option)) else ""
    return " ".join(_quoted(f"*{flag}[{what}]{value}") for flag in option.option_strings)


def _fish() -> Iterable[str]:
    yield "# spooltop completion fish > ~/.config/fish/completions/spooltop.fish"
    for one in COMMANDS.values():
        yield f"complete -c spooltop -n __fish_use_subcommand -a {one.name} -d {_fish_quoted(one.does)}"
    for name, options, words in _all():
        when = f"__fish_seen_subcommand_from {name}" if name else "__fish_use_subcommand"
        for option in options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.option_strings)
            values = f" -x -a '{' '.join(option.choices)}'" if option.choices else " -r" if _value(option) else ""
            yield f"complete -c spooltop -n '{when}' {flags}{values} -d {_fish_quoted(str(option.help))}"
        if words:
            yield f"complete -c spooltop -n '{when}' -f -a '{' '.join(words)}'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

