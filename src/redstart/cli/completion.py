"""`redstart completion bash|zsh|fish`: a script that makes a shell complete; it asks `redstart completion --words`.

Commands and options come from the parsers. Names of tools, prompts, resources and arguments come from the server, which
is asked with a short limit: completion must not hang, and offers nothing if the server does not answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from redstart.cli.output import OK, CommandError

if TYPE_CHECKING:
    from redstart.client import Client

PASSES_ON: Final = True
SECONDS: Final = 5.0
"""How long a server may take to be asked."""
KINDS: Final = {"call": "tools", "prompt": "prompts", "read": "resources", "bench": "tools", "list": "tools"}
"""What the words of a command name."""
SCRIPTS: Final = {
    "bash": """\
_redstart() {
    local IFS=$'\\n'
    local line="${COMP_LINE:0:COMP_POINT}" word="${COMP_WORDS[COMP_CWORD]}"
    local whole="${line##*[[:space:]]}"
    [[ $word == [=:]* ]] && word=""
    COMPREPLY=($(redstart completion --words --line "$line" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"${whole%"$word"}"}")  # bash takes = and : for the ends of words
    [[ ${COMPREPLY[0]} == *= || ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _redstart redstart
""",
    "zsh": """\
#compdef redstart
_redstart() {
    local -a found
    found=("${(@f)$(redstart completion --words --line "${LBUFFER}" 2>/dev/null)}")
    found=(${found:#})
    if (( ${#found} )); then
        compadd -S '' -a -- found
    else
        _files
    fi
}
compdef _redstart redstart
""",
    "fish": """\
function __redstart_complete
    redstart completion --words --line (commandline -cp) 2>/dev/null
end
complete -c redstart -f -a '(__redstart_complete)'
complete -c redstart -F -n 'not __redstart_complete | string length -q'
""",
}
WHERE: Final = {
    "bash": 'eval "$(redstart completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(redstart completion zsh)" in ~/.zshrc, after compinit',
    "fish": "redstart completion fish > ~/.config/fish/completions/redstart.fish",
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", nargs="?", choices=list(SCRIPTS), help="the shell (default: that of $SHELL)")
    parser.add_argument("--words", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--line", default="", help=argparse.SUPPRESS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "where it goes:\n" + "\n".join(f"  {text}" for text in WHERE.values())


def act(arguments: argparse.Namespace) -> int:
    if arguments.words:
        for word in words_for(arguments.line):
            print(word)
        return OK
    shell = arguments.shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        raise CommandError(f"name a shell: {', '.join(SCRIPTS)}")
    sys.stdout.write(SCRIPTS[shell])
    return OK


def words_for(line: str) -> list[str]:
    """What the last word of a command line may become. If the list is empty, the shell offers files."""
    try:
        words, last = _split(line)
        if len(words) < 2:
            from redstart.cli import COMMANDS

            return _beginning(last, [*COMMANDS, "--help", "--version"])
        return _of_command(words[1], words[2:], last)
    except Exception:  # a message in the middle of a command line would only disturb
        return []


def _split(line: str) -> tuple[list[str], str]:
    """The complete words of a line, and the last one, which may be a part, or empty; ValueError in an open quote."""
    import shlex

    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words = list(lexer)
    return (words, "") if not line or line[-1].isspace() else (words[:-1], words[-1] if words else "")


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(start)]


def _of_command(command: str, given: Sequence[str], last: str) -> list[str]:
    from redstart.cli import COMMANDS, parsers

    if command not in COMMANDS or "--" in given:
        return []
    parser = parsers(command)[1][command]
    options = {name: action for action in parser._actions for name in action.option_strings}
    if given and (action := options.get(given[-1])) is not None and action.nargs != 0:
        if command == "bench" and given[-1] == "--tool":
            return _beginning(last, _ask(command, next((w for w in given if not w.startswith("-")), None), None))
        return _beginning(last, [str(choice) for choice in action.choices or ()])
    if last.startswith("-"):
        return _beginning(last, [name for name in options if name.startswith("--")])
    plain = _plain(given, options)
    if command == "completion":
        return _beginning(last, SCRIPTS)
    if command == "new":
        return []
    return _names(command, plain, last)


def _plain(given: Sequence[str], options: dict[str, Any]) -> list[str]:
    """The words that are neither options nor their values."""
    found, skip = [], False
    for word in given:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            action = options.get(word)
            skip = action is not None and action.nargs != 0
        else:
            found.append(word)
    return found


def _names(command: str, plain: Sequence[str], last: str) -> list[str]:
    """A target, a name of the server, or an argument."""
    from redstart.cli.connect import is_target
    from redstart.cli.project import installed_servers

    if command not in KINDS:
        return _targets(last) if not plain else []
    target = plain[0] if plain and (len(plain) > 1 or is_target(plain[0])) else None
    rest = plain[1:] if target is not None else plain
    if not plain:
        own = _ask(command, None, None) if command != "bench" else []
        return _beginning(last, [*own, *installed_servers()]) + _targets(last)
    if not rest or (len(plain) == 1 and target is None):
        name = None if not rest else rest[0]
        asked = _ask(command, target if rest or target else plain[0], name)
        return _beginning(last, asked or _ask(command, plain[0], None))
    return _beginning(last, [word for word in _ask(command, target, rest[0]) if word not in last])


def _targets(start: str) -> list[str]:
    """Python files and folders whose names begin with `start`."""
    folder, _, name = start.rpartition("/")
    place = Path(folder or ("/" if start.startswith("/") else "."))
    if not place.is_dir():
        return []
    before = f"{folder}/" if "/" in start else ""
    found = [path for path in sorted(place.iterdir()) if path.name.startswith(name) and path.name[0] not in "._"]
    files = [before + path.name for path in found if path.suffix == ".py"]
    return files + [f"{before}{path.name}/" for path in found if path.is_dir()]


def _ask(command: str, target: str | None, name: str | None) -> list[str]:
    """Ask the server for names; with the name of a tool or a prompt, for its arguments."""
    import asyncio

    from redstart.cli.connect import client_of, place

    given = argparse.Namespace(protocol="auto", timeout=SECONDS, header=[], env=[], quiet=True)
    given.token = os.environ.get("REDSTART_TOKEN")
    client = client_of(given, place(target, []))

    async def asked() -> list[str]:
        async with asyncio.timeout(SECONDS), client:
            return await _listed(client, command, name)

    return asyncio.run(asked())


async def _listed(client: Client, command: str, name: str | None) -> list[str]:
    from redstart.cli.arguments import properties_of
    from redstart.cli.list import name_of, offers

    kinds = ("resources", "templates") if command == "read" else (KINDS[command],)
    found = [entry for entries in (await offers(client, kinds)).values() for entry in entries]
    if name is None:
        return [name_of(entry) for entry in found]
    chosen = next((entry for entry in found if name in (entry.name, name_of(entry))), None)
    if chosen is None or command == "list":
        return []
    if command == "read":
        from redstart.schema.uritemplate import Template

        return [f"{variable}=" for variable in Template(name_of(chosen)).variables]
    if command == "prompt":
        return [f"{argument.name}=" for argument in chosen.arguments or ()]
    return [f"{argument}=" for argument in properties_of(chosen.input_schema, chosen.input_schema)]
