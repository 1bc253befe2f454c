# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw user-visible sentences at random, for a review of the wording.

    sentences.py [--seed TEXT] [-n COUNT] [FILE ...]

Print messages, help texts, field descriptions and page texts of the product, and sentences of the
documents. The same seed draws the same sentences from the same tree; -n 0 prints all of them in
order. [default: 60 sentences, seed 0, all files]
"""

import argparse
import ast
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = ("schedperf", "reports", "collectors", "templates")
OTHERS = (
    "templates/**/*.js",
    "templates/**/*.j2",
    "*.md",
    "docs/*.md",
    "examples/**/*.md",
    "bench/*/*.md",
)
FEWEST_WORDS = 4
FEWEST_BESIDES_CODE = 2
WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
# The end of a sentence: not after "e.g." or a number of a list.
END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!\bvs\.)\s+(?=[A-Z`*\"\[])")
# The first line of a Markdown block: list item, table row, heading, comment.
BLOCK = re.compile(r"\s*([*-] |\d+\. |\||#|<!--)")
# First words of a sentence that refers to the sentence before it.
PRONOUN = re.compile(r"(It|Its|They|Their|This|These|Such|Then|Therefore|So)\b")
# Exceptions whose arguments are printed as "reason; remedy".
REASON_AND_REMEDY = ("Skipped", "Unavailable")
# Constants with words of other programs.
FOREIGN = frozenset({
    "EVENT_LABELS", "SHARED_LABELS", "_SAID_TWICE", "TOTALS_TITLES", "LINES_TITLE",
    "OFFSETS_TITLE", "_HEADINGS", "_FIELDS", "KINDS", "ENDINGS", "THROTTLED", "WARMED_UP",
    "NOT_CONNECTED",
})  # fmt: skip
# Not prose: markup, regular expressions, code.
NOT_PROSE = re.compile(
    r"^\s*[<\[(\\#]|^Examples:|\|\||>&|\) {|\\[dwsb(\[]|[;{]\s*$|=>|\(\?|::|&&|</"
    r"|:not\(|:scope|charset=|, [.>]| \.\*$|\(\.\*\)--|\w\|\w+ set up|^\^|^sh -c"
    r"|^default-src|^input, |^script, |:{{"
)
PLACEHOLDER = re.compile(r"\$?{[^{}]*(?:{[^{}]*}[^{}]*)*}")
SCRIPT_STRING = re.compile(r"""(["'`])((?:(?!\1)[^\\\n]|\\.)*)\1""")


@dataclass(frozen=True)
class Sentence:
    """A text that users read, and where the tree contains it."""

    path: str
    line: int
    text: str


def sentences(root: Path, starts: Sequence[str] = ()) -> Iterator[Sentence]:
    """Yield the user-visible sentences below a folder, each once.

    ``starts`` limits them to files whose path starts with one of them.
    """
    seen: set[str] = set()
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if not name.startswith(tuple(starts) or ""):
            continue
        for line, text in sorted(EXTRACTORS[path.suffix](path.read_text(encoding="utf-8"))):
            for sentence in split(text):
                if sentence not in seen and is_prose(sentence):
                    seen.add(sentence)
                    yield Sentence(name, line, sentence)


def files(root: Path) -> list[Path]:
    """Return the files that contain user-visible text, sorted."""
    modules = (path for folder in PYTHON for path in (root / folder).rglob("*.py"))
    others = (path for pattern in OTHERS for path in root.glob(pattern))
    return sorted({*modules, *others})


def split(text: str) -> list[str]:
    """Return the sentences of a text, one that begins with a pronoun together with the one before.

    A full stop inside ``*italics*``, as in the name of a journal, ends no sentence.
    """
    parts: list[str] = []
    for part in END.split(text):
        follows = parts and (PRONOUN.match(part) or parts[-1].replace("**", "").count("*") % 2)
        if follows:
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return [" ".join(part.split()) for part in parts]


def is_prose(text: str) -> bool:
    """Return whether a text is prose.

    Prose has at least four words without placeholders, two of them outside of code, and does not
    match NOT_PROSE.
    """
    plain = PLACEHOLDER.sub(" ", text)
    return (
        _count_words(plain) >= FEWEST_WORDS
        and _count_words(re.sub(r"`[^`]*`", " ", plain)) >= FEWEST_BESIDES_CODE
        and not NOT_PROSE.search(text)
    )


def _count_words(text: str) -> int:
    return sum(bool(WORD.search(word)) for word in text.split())


def of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string of a module, f-strings with their expressions.

    Constants of FOREIGN are omitted, and docstrings, except those that are help texts of commands.
    """
    tree = ast.parse(source)
    docstrings = set(_docstrings(tree))
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.JoinedStr) or _is_sum_of_texts(node):
            yield getattr(node, "lineno", 0), _format(node)
            pending += _expressions(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in REASON_AND_REMEDY:
            texts = [part for part in node.args if _is_text(part)]
            yield node.lineno, "; ".join(map(_format, texts))
            pending += [part for part in node.args if part not in texts]
            pending += [part for text in texts for part in _expressions(text)]
        elif _is_foreign(node):
            pending += (part for part in ast.walk(node) if isinstance(part, ast.Call))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node not in docstrings:
                yield from _paragraphs(node.lineno, node.value)
        else:
            pending += reversed(list(ast.iter_child_nodes(node)))


def _docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the docstrings that are no help text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and not _is_command(node):
                yield first.value


def _is_command(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any("command" in ast.unparse(decorator) for decorator in decorators)


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr) or _is_sum_of_texts(node)


def _is_sum_of_texts(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    return _is_text(node.left) or _is_text(node.right)


def _is_foreign(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(targets[0]) in FOREIGN


def _format(node: ast.AST) -> str:
    """Return a text as it is printed, with its expressions in braces."""
    if isinstance(node, ast.BinOp) and _is_sum_of_texts(node):
        return _format(node.left) + _format(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_format, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{ast.unparse(node)}}}"


def _expressions(node: ast.AST) -> list[ast.AST]:
    """Return the expressions in a text, which can contain texts."""
    if isinstance(node, ast.BinOp) and _is_sum_of_texts(node):
        return _expressions(node.left) + _expressions(node.right)
    if isinstance(node, ast.JoinedStr):
        return [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    return [] if isinstance(node, ast.Constant) else [node]


def _paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a help text without its blocks of literal text."""
    for paragraph in text.split("\n\n"):
        if not paragraph.lstrip(" \n").startswith("\b"):
            yield line, paragraph


def of_script(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string of a script, except in comment lines."""
    for number, line in enumerate(source.split("\n"), 1):
        if not line.lstrip().startswith("//"):
            yield from ((number, match[2]) for match in SCRIPT_STRING.finditer(line))


def of_template(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each text between the tags, title and aria-label of a template."""
    text = re.sub(
        r"{#.*?#}|{%.*?%}", lambda tag: "\n" * tag[0].count("\n"), source, flags=re.DOTALL
    )
    for match in re.finditer(r">([^<>]+)<|(?:title|aria-label)=\"([^\"]+)\"", text):
        yield text.count("\n", 0, match.start()) + 1, match[1] or match[2]


def of_document(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each paragraph, list item and table cell of a Markdown document.

    Headings and code blocks are omitted.
    """
    start, paragraph = 1, ""
    for number, line in _without_code(source):
        if not line.strip() or BLOCK.match(line):
            yield start, paragraph
            paragraph = ""
        if line.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", line))
        elif line.strip() and not line.startswith(("#", "<!--")):
            start = start if paragraph else number
            paragraph += re.sub(r"^\s*([*->]|\d+\.) +", "", line) + " "
    yield start, paragraph


def _without_code(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, with empty ones in place of code blocks."""
    is_code = False
    is_after_gap = True
    for number, line in enumerate(source.split("\n"), 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        is_indented = is_after_gap and line.startswith("    ") and not BLOCK.match(line)
        is_after_gap = not line.strip()
        yield number, "" if is_code or is_fence or is_indented else line


EXTRACTORS = {".py": of_python, ".js": of_script, ".j2": of_template, ".md": of_document}


def draw(every: Sequence[Sentence], count: int, seed: str) -> list[Sentence]:
    """Return ``count`` sentences drawn with a seed; all of them, in order, for 0."""
    order = random.Random(seed)  # noqa: S311 - a draw that can be repeated, not a secret
    return order.sample(every, min(count, len(every))) if count else list(every)


def main(arguments: Sequence[str]) -> int:
    """Print the drawn sentences, one per line, after their file and line."""
    parser = argparse.ArgumentParser(description="Draw user-visible sentences at random.")
    parser.add_argument("--seed", default="0", help="text that determines the draw [default: 0]")
    parser.add_argument("-n", type=int, default=60, help="sentences to draw; 0: all [default: 60]")
    parser.add_argument("files", nargs="*", help="paths that start with this [default: all]")
    options = parser.parse_args(arguments)
    every = list(sentences(ROOT, options.files))
    for number, sentence in enumerate(draw(every, options.n, options.seed), 1):
        print(f"{number}. {sentence.path}:{sentence.line}: {sentence.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
