# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the test files that can reach a module, nearest first.

The imports in the source determine it: those of a test file and its ``conftest.py`` files, those of
the imported modules, and so on. A package reaches its modules, because plugins are discovered by
directory, and a test with the string ``"schedperf"`` reaches the whole program, because it may
start it as a process. A test may reach modules that it does not run, but runs none that it does not
reach.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE_ROOTS = ("", "collectors", "generators", "reports", "templates")
PROGRAM = "schedperf"
# A test file that has all words of a module's name counts as this many imports nearer.
MOST_SAID = 2.0
_CODE = ("schedperf", *SOURCE_ROOTS[1:], "tests")


class Reach:
    """The imports of a checkout, from each module to those that import it."""

    def __init__(self, root: Path) -> None:
        """Parse every source file below ``root``, which takes about 5 s."""
        files = [path for top in _CODE for path in sorted((root / top).rglob("*.py"))]
        self._modules = {
            _module_of(path.relative_to(root)): path.relative_to(root) for path in files
        }
        self._texts = {
            name: (root / path).read_text(encoding="utf-8") for name, path in self._modules.items()
        }
        self._importers: dict[str, set[str]] = {name: set() for name in self._modules}
        for name in self._modules:
            for imported in self._imports(name):
                self._importers[imported].add(name)

    def test_files(self, file: str) -> list[str]:
        """Return the test files that reach a source file, nearest first.

        A test file is nearer with fewer imports to the source file, with more words of its path in
        common, and if it contains the words of the source file's name.

        :param file: path of the source file below the root of the checkout
        """
        distances = self._distances(_module_of(Path(file)))
        words, names = _words(file), _words(Path(file).stem)
        found = []
        for name, distance in distances.items():
            path = self._modules[name]
            if path.name.startswith("test_"):
                said = sum(word in self._texts[name] for word in names) / max(len(names), 1)
                nearness = distance - len(words & _words(str(path))) - MOST_SAID * said
                found.append((nearness, str(path)))
        return [path for _, path in sorted(found)]

    def _distances(self, module: str) -> dict[str, int]:
        distances = {module: 0}
        queue = [module]
        for name in queue:
            for importer in sorted(self._importers[name]):
                if importer not in distances:
                    distances[importer] = distances[name] + 1
                    queue.append(importer)
        return distances

    def _imports(self, name: str) -> Iterator[str]:
        # Names of the modules that a module can reach directly.
        modules, text, file = self._modules, self._texts[name], self._modules[name]
        is_test = name.startswith("tests")
        for statement in _statements(ast.parse(text)):
            match statement:
                case ast.Import(names=names):
                    asked = [one.name for one in names]
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    asked = [module, *(f"{module}.{one.name}" for one in names)]
                case _:
                    continue
            yield from (one for one in asked if one in modules)
        if is_test and f'"{PROGRAM}"' in text:
            yield f"{PROGRAM}.__main__"
        if file.name == "__init__.py":
            yield from (one for one in modules if one.rpartition(".")[0] == name)
        if is_test and file.name != "conftest.py":
            packages = name.split(".")[:-1]
            above = (".".join([*packages[:end], "conftest"]) for end in range(1, len(packages) + 1))
            yield from (one for one in above if one in modules)


def _module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    below = parts[1:] if parts[0] in SOURCE_ROOTS else parts
    return ".".join(below[:-1] if below[-1] == "__init__" else below)


def _words(path: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{3,}", path)) - {"schedperf", "reports", "test"}


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    # Imports are statements, and to look into expressions would take most of the time.
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _statements(child)
