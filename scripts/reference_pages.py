# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the reference pages of the documentation site: one per command, and one per JSON schema.

    reference_pages.py COMMANDS_FOLDER SCHEMAS_FOLDER

Pages of commands have the text of ``--help``, like the man pages.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.man_pages import ROOT, contexts, page_name, summary

SCHEMAS = ROOT / "docs" / "schema"
Schema = Mapping[str, Any]


def command_page(context: click.Context) -> str:
    """Return the page of a command in Markdown."""
    parts = [
        f"# {context.command_path}",
        f"{summary(context.command)}.",
        "```text\n" + context.command.get_help(context) + "\n```",
    ]
    if isinstance(context.command, click.Group) and context.parent is not None:
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            each = click.Context(command, info_name=name, parent=context)
            parts += [f"## {each.command_path}", "```text\n" + command.get_help(each) + "\n```"]
    return "\n\n".join(parts) + "\n"


def schema_page(schema: Schema) -> str:
    """Return the page of a schema in Markdown: a section per type, a row per field."""
    top = schema["$ref"].rpartition("/")[2]
    names = [top, *sorted(name for name in schema["$defs"] if name != top)]
    title = schema["title"]
    parts = [
        f"# {title}",
        f"The JSON is a [{top}](#{_anchor(title, top)}).",
        *(_definition(title, name, schema["$defs"][name]) for name in names),
    ]
    return "\n\n".join(parts) + "\n"


def _definition(title: str, name: str, definition: Schema) -> str:
    rows = [
        f"| `{field}` | {_type(title, value)} | {_cell(value.get('description', ''))} |"
        for field, value in definition.get("properties", {}).items()
    ]
    table = ["| field | type | description |\n| --- | --- | --- |\n" + "\n".join(rows)]
    parts = [f"({_anchor(title, name)})=\n## {name}", _cell(definition.get("description", ""))]
    return "\n\n".join(filter(None, [*parts, *(table if rows else [])]))


def _type(title: str, value: Schema) -> str:
    return " or ".join(dict.fromkeys(_types(title, value))) or "any"


def _types(title: str, value: Schema) -> Iterator[str]:
    """Yield the types that a value may have, in Markdown."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        yield f"[{name}](#{_anchor(title, name)})"
    for each in value.get("anyOf", ()):
        yield from _types(title, each)
    if "enum" in value:
        yield from (f"`{json.dumps(each)}`" for each in value["enum"])
    elif "const" in value:
        yield f"`{json.dumps(value['const'])}`"
    elif value.get("type") == "array":
        yield f"list of {_type(title, value.get('items', {}))}"
    elif isinstance(value.get("additionalProperties"), dict):
        yield f"object with values of {_type(title, value['additionalProperties'])}"
    elif "type" in value:
        kinds = value["type"]
        yield from [kinds] if isinstance(kinds, str) else kinds


def _anchor(title: str, name: str) -> str:
    return f"{title.replace('/', '-')}-{name}".lower()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("\n", " ")


def write(commands: Path, schemas: Path) -> None:
    """Write all pages into two directories, which are created if they are missing."""
    commands.mkdir(parents=True, exist_ok=True)
    for context in contexts():
        (commands / f"{page_name(context)}.md").write_text(command_page(context), encoding="utf-8")
    schemas.mkdir(parents=True, exist_ok=True)
    for path in sorted(SCHEMAS.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        page = schemas / f"{path.name.removesuffix('.schema.json')}.md"
        page.write_text(schema_page(schema), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
