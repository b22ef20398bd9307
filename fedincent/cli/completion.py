"""fedincent completion: what a shell offers when one presses the tab key"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import Any

from fedincent.cli.listing import GROUPS
from fedincent.cli.options import add_verb
from fedincent.config.compose import flat
from fedincent.config.groups import conf_folder, options_of, read_yaml
from fedincent.config.plain import plain_values

SCRIPTS = {
    "bash": """_fedincent() {
  local line="${COMP_LINE:0:COMP_POINT}" cut=""
  local word="${line##* }"
  [[ "$word" == *=* && "$COMP_WORDBREAKS" == *=* ]] && cut="${word%=*}="
  mapfile -t COMPREPLY < <(fedincent completion --line "$line" 2>/dev/null)
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o nospace -F _fedincent fedincent""",
    "zsh": """_fedincent() { compadd -S '' -- ${(f)"$(fedincent completion --line "$BUFFER" 2>/dev/null)"} }
compdef _fedincent fedincent""",
    "fish": "complete -c fedincent -f -a '(fedincent completion --line (commandline -cp))'",
}
PLAIN = ("run", "table", "figure", "audit")  # verbs that take overrides


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "completion",
        act,
        "let the shell complete verbs, choices, fields and tables",
        ('eval "$(fedincent completion bash)"', "fedincent completion fish | source"),
        'Put the line into ~/.bashrc, ~/.zshrc (eval "$(fedincent completion zsh)") or ~/.config/fish/config.fish.',
    )
    parser.add_argument("shell", nargs="?", choices=tuple(SCRIPTS), help="print the lines for this shell")
    parser.add_argument("--line", metavar="TEXT", help="print what may stand at the end of a line (the shell asks this)")


def act(given: argparse.Namespace) -> None:
    """The shell's lines, or what may follow."""
    if given.line is not None:
        print("\n".join(candidates(given.line)))
    else:
        print(SCRIPTS[given.shell or "bash"])


def candidates(line: str) -> list[str]:
    """What the last word of a line may become."""
    words = line.split(" ")
    try:
        words = [*shlex.split(" ".join(words[:-1])), words[-1]]
    except ValueError:  # inside quotes
        return []
    from fedincent.cli import VERBS

    if "--plugins" in words[:-2]:
        os.environ["FEDINCENT_PLUGINS"] = str(Path(words[words.index("--plugins") + 1]).expanduser())
    names = {module.__name__.rpartition(".")[2].replace("listing", "list"): module for module in VERBS}
    if len(words) <= 2:
        return matching(sorted(names), words[-1], " ")
    verb, word = words[1], words[-1]
    if word.startswith("-") and verb in names:
        return matching(flags_of(names[verb]), word, " ")
    if verb == "list" and len(words) == 3:
        return matching(GROUPS, word, " ")
    if verb in ("table", "figure") and len(words) == 3:
        return matching(options_of(verb), word, " ")
    if verb == "completion":
        return matching(SCRIPTS, word, " ")
    if verb == "data" and len(words) == 3:
        return matching(("list", "fetch", "verify"), word, " ")
    return overrides(word, words[2:-1]) if verb in PLAIN else []


def overrides(word: str, before: list[str]) -> list[str]:
    """An override: a group's choices behind its =, else groups, and the fields of all that is chosen so far."""
    main = read_yaml(conf_folder() / "config.yaml")
    groups = [name for entry in main["defaults"] if isinstance(entry, dict) for name in entry if " " not in name]
    group, sign, part = word.partition("=")
    if sign:
        *others, last = part.split(",")
        start = f"{group}={''.join(f'{name},' for name in others)}"
        return [f"{start}{name}" for name in matching(options_of(group), last)] if group in groups else []
    chosen = [word for word in before if "=" in word and word.partition("=")[0] in groups]
    known = plain_values(chosen) or plain_values([])
    fields = [name for name in flat(known[0]) if "_target_" not in name and not name.startswith("hints")] if known else []
    return matching([f"{name}=" for name in dict.fromkeys([*groups, *fields])], word)


def flags_of(module: Any) -> list[str]:
    """The options of a verb."""
    verbs = argparse.ArgumentParser().add_subparsers()
    module.declare(verbs)
    return sorted(flag for verb in verbs.choices.values() for flag in verb._option_string_actions if flag.startswith("--"))


def matching(known: Any, word: str, end: str = "") -> list[str]:
    """Those that begin with a word."""
    return [name + end for name in known if name.startswith(word)]
