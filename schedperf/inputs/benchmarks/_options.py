# SPDX-License-Identifier: GPL-2.0-or-later
"""Read options of a program from the command of a run, which may be a script.

>>> arguments = arguments_of("cyclictest", ("sh", "-c", "cyclictest -Nqt2 -l 300 --duration=5m 2>&1 | tee log"))
>>> arguments
['-Nqt2', '-l', '300', '--duration=5m']
>>> read_options(arguments, with_value="Dl", optional_value="t")
{'N': '', 'q': '', 't': '2', 'l': '300', 'duration': '5m'}
"""  # noqa: E501 # a command

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile

# What ends a shell command, and redirections, which are not arguments: "2>&1", ">log".
_END = re.compile(r"[;|&<>()]+")
_REDIRECTION = re.compile(r"(?<!\S)\d{0,3}[<>]{1,2}&?\s{0,20}[^\s;|&<>()]+")


def arguments_of(program: str, command: Sequence[str]) -> list[str] | None:
    """Return the arguments of a program; None unless the command runs it exactly once.

    :param program: name of the program, without directory
    :param command: words of the command; a word with blanks is a script
    """
    words = [word for part in command for word in _split(part)]
    starts = [index for index, word in enumerate(words) if word.rpartition("/")[2] == program]
    if len(starts) != 1:
        return None
    return list(takewhile(lambda word: not _END.fullmatch(word), words[starts[0] + 1 :]))


def _split(part: str) -> list[str]:
    if not any(character.isspace() for character in part):
        return [part]
    lexer = shlex.shlex(_REDIRECTION.sub("", part), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return part.split()


def read_options(
    arguments: Sequence[str], *, with_value: str, optional_value: str = ""
) -> dict[str, str]:
    """Return the values of options by letter or long name; "" for an option without a value.

    :param with_value: letters of the options that have a value
    :param optional_value: letters of options that have a value unless the next word is an option
    """
    options: dict[str, str] = {}
    for index, word in enumerate(arguments, start=1):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            options[name] = value
        elif word.startswith("-"):
            options |= _read_letters(word[1:], with_value, optional_value)
            following = arguments[index] if index < len(arguments) else ""
            is_value = word[-1] in with_value or not following.startswith("-")
            if is_value and options.get(word[-1]) == "" and word[-1] in with_value + optional_value:
                options[word[-1]] = following
    return options


def _read_letters(letters: str, with_value: str, optional_value: str) -> dict[str, str]:
    # "-qt2" is "-q -t 2".
    options: dict[str, str] = {}
    for index, letter in enumerate(letters):
        if letter in with_value or letter in optional_value:
            options[letter] = letters[index + 1 :]
            return options
        options[letter] = ""
    return options
