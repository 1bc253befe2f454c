# SPDX-License-Identifier: GPL-2.0-or-later
"""Print pip's settings as uv's, one shell ``export`` per line, because uv does not read them.

uv then uses the indexes, proxies and certificates that are configured for pip, in PIP_* or in a
pip.conf. Existing settings of uv are not changed.
"""

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# pip's option → uv's variables.
VARIABLES = {
    "index-url": ["UV_DEFAULT_INDEX"],
    "extra-index-url": ["UV_INDEX"],
    "find-links": ["UV_FIND_LINKS"],
    "no-index": ["UV_NO_INDEX"],
    "constraint": ["UV_CONSTRAINT"],
    "trusted-host": ["UV_INSECURE_HOST"],
    "proxy": ["HTTPS_PROXY", "HTTP_PROXY"],
    "cert": ["SSL_CERT_FILE"],
    "client-cert": ["SSL_CLIENT_CERT"],
    "timeout": ["UV_HTTP_TIMEOUT"],
    "default-timeout": ["UV_HTTP_TIMEOUT"],
    "retries": ["UV_HTTP_RETRIES"],
    "no-cache-dir": ["UV_NO_CACHE"],
}
# Options with several values, which pip separates by blanks, and the separator of uv.
LISTS = {"extra-index-url": " ", "find-links": ",", "trusted-host": " ", "constraint": " "}
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def pip_settings(listing: str) -> dict[str, str]:
    """Return pip's options for installing, from what ``pip config list`` prints."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.partition(".")
        if section in sections:
            sections[section][option] = str(ast.literal_eval(value))
    return sections["global"] | sections["install"] | sections[":env:"]


def usable(option: str, value: str) -> bool:
    """Return whether uv accepts a value; it refuses package directories that do not exist."""
    return option != "find-links" or "://" in value or Path(value).is_dir()


def uv_settings(pip: Mapping[str, str]) -> dict[str, str]:
    """Return uv's variables for pip's options."""
    settings = {}
    for option in VARIABLES.keys() & pip.keys():
        value = pip[option]
        if option in LISTS:
            value = LISTS[option].join(part for part in value.split() if usable(option, part))
        settings.update(dict.fromkeys(VARIABLES[option] if value else (), value))
    if "UV_INDEX" in settings:
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # what pip does
    if SYSTEM_CERTIFICATES.exists():
        settings["UV_SYSTEM_CERTS"] = "1"  # what Debian's pip does
    return settings


def main() -> None:
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for variable, value in uv_settings(pip_settings(listing)).items():
        if variable not in os.environ:
            print(f"export {variable}={shlex.quote(value)}")


if __name__ == "__main__":
    main()
