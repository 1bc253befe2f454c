# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the recorder's progress on a terminal."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from schedperf.model.text import clean_line, make_console


def draw(events: Iterable[str]) -> None:
    """Draw the recorder's events, which arrive as one JSON object per line, until end of file."""
    console = make_console(stderr=True)
    columns = (
        TextColumn("run {task.completed:.0f}{task.fields[of]}{task.total:.0f}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}"),
    )
    # The bar is removed at the end; messages stay.
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, visible=False, left="", of="/")
        for line in events:
            _draw_one(json.loads(line), progress, task, console)


def _draw_one(event: Mapping[str, Any], progress: Progress, task: TaskID, console: Console) -> None:
    kind = event["event"]
    if kind == "plan":
        of = " of at most " if event["budget"] else "/"
        progress.update(task, total=event["total"], visible=True, of=of)
    elif kind == "begin":
        progress.update(task, description=clean_line(event["title"]))
    elif kind == "run":
        progress.update(task, completed=event["done"], left=event["left"])
        if event["said"].startswith("failed"):
            console.print(f"run {event['done']} {clean_line(event['said'])}", style="yellow")
    elif kind == "warning":
        console.print(f"schedperf: warning: {clean_line(event['text'])}", style="yellow")
    elif kind == "saved":
        progress.update(task, visible=False)
        console.print(clean_line(event["text"]), style="bold")
    else:
        console.print(clean_line(event["text"]), style="dim")
