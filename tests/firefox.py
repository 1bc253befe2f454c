# SPDX-License-Identifier: GPL-2.0-or-later
"""Firefox for tests, driven over WebDriver BiDi, which it speaks without a driver program."""

import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("firefox-esr", "firefox")
# Firefox starts in some seconds; on a busy machine it takes longer.
LONGEST_WAIT_SECONDS = 60.0
_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
# Nothing is looked up or updated, and a new profile opens no page of its own.
_PREFERENCES: dict[str, Any] = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class Firefox:
    """A running Firefox with one tab.

    :param socket: an open WebSocket
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self._command("session.new", capabilities={})
        self._command("session.subscribe", events=["log.entryAdded"])
        (tab,) = self._command("browsingContext.getTree")["contexts"]
        self._tab = tab["context"]

    def go_to(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self._command("browsingContext.navigate", context=self._tab, url=address, wait="complete")

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page's window."""
        size = {"width": width, "height": height}
        self._command("browsingContext.setViewport", context=self._tab, viewport=size)

    def ask(self, script: str) -> Any:
        """Return what an expression, which JSON can hold, is in the page."""
        answer = self._command(
            "script.evaluate",
            expression=f"Promise.resolve({script}).then(JSON.stringify)",
            target={"context": self._tab},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    def _command(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=LONGEST_WAIT_SECONDS))
            if message.get("method") == "log.entryAdded":
                self.complaints.append(str(message["params"]["text"]))
            elif message.get("id") == number:
                assert message["type"] == "success", f"{method}: {message}"
                return message["result"]


@contextmanager
def start_firefox() -> Iterator[Firefox]:
    """Start Firefox with a new profile, or skip where it cannot be driven."""
    client = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("Firefox is not installed; apt-get install firefox-esr")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lines = (
            f"user_pref({json.dumps(key)}, {json.dumps(value)});\n"
            for key, value in _PREFERENCES.items()
        )
        (Path(folder) / "user.js").write_text("".join(lines), encoding="utf-8")
        command = [path, "--headless", "--no-remote", "--profile", folder]
        log = Path(folder) / "log"
        with log.open("wb") as messages:
            process = subprocess.Popen(
                [*command, "--remote-debugging-port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=messages,
            )
        try:
            with client.connect(f"{_address_of(log)}/session", max_size=None) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
            try:
                process.wait(timeout=LONGEST_WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address_of(log: Path) -> str:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        said = log.read_text(encoding="utf-8", errors="replace")
        if match := _LISTENING.search(said):
            return match[1]
        assert time.monotonic() < end, f"Firefox did not start: {said[-500:]}"
        time.sleep(0.05)
