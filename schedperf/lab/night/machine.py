# SPDX-License-Identifier: GPL-2.0-or-later
"""Query the machine of a night: installed kernels, and proven boot entries."""

import json
import re
import shlex
from collections.abc import Sequence

from msgspec import Struct

from schedperf.lab.night.state import NightError
from schedperf.model.text import clean_line
from schedperf_collectors.boots.proof import ARMED, PROVED
from schedperf_collectors.boots.proof import FILE as PROOF
from schedperf_collectors.boots.shell import Output, Unreachable, parse_host
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.boot_options import RELEASE

# Prints the installation time and the release of each bootable kernel.
_KERNELS = """\
for modules in /lib/modules/*/modules.dep; do
    release=${modules%/modules.dep}
    release=${release##*/}
    for image in "/boot/vmlinuz-$release" "/lib/modules/$release/vmlinuz"; do
        if [ -e "$image" ]; then
            stat -L -c "%Y $release" "$image"
            break
        fi
    done
done
"""
_HASH = """\
program=$(command -v "$1") && sha256sum <"$program" | cut -c1-64
"""
# Prints the hash and the release of each kernel whose image can be read.
IMAGES = """\
for release do
    for image in "/boot/vmlinuz-$release" "/lib/modules/$release/vmlinuz"; do
        if [ -r "$image" ]; then
            echo "$(sha256sum <"$image" | cut -c1-64) $release"
            break
        fi
    done
done
"""
_READ = 'if [ -e "$1" ]; then head -c 65536 "$1"; fi'
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_COMMAND = "command:"


class Installed(Struct, frozen=True, kw_only=True):
    """An installed kernel.

    :param installed_s: installation time, in seconds since 1970
    """

    release: str
    installed_s: int


class Target:
    """The machine of a night.

    :param reach: ``ssh:HOST`` or ``ssh:HOST:PORT``
    :raises NightError: ``reach`` has another form
    """

    def __init__(self, reach: str) -> None:
        self.reach = reach
        try:
            self._ssh = parse_host(reach)
        except RecordError as error:
            raise NightError(f"machine.reach: {error}") from error

    def kernels(self) -> list[Installed]:
        """Return the installed kernels that have modules and a boot image.

        :raises NightError: the machine does not answer
        """
        found = []
        for line in self._ask(_KERNELS).splitlines():
            seconds, _, release = line.partition(" ")
            if seconds.isdigit() and RELEASE.match(release):
                found.append(Installed(release=release, installed_s=int(seconds)))
        return found

    def images(self, releases: Sequence[str]) -> dict[str, str]:
        """Return the SHA-256 of the boot images by release; unreadable images are left out.

        :raises NightError: the machine does not answer
        """
        found = {}
        for line in self._ask(IMAGES, *releases).splitlines():
            digest, _, release = line.partition(" ")
            if _SHA256.match(digest) and release in releases:
                found[release] = digest
        return found

    def hash_of(self, program: str) -> str:
        """Return the SHA-256 of a program.

        :raises NightError: the program is not installed, or the machine does not answer
        """
        digest = self._ask(_HASH, program).strip()
        if not _SHA256.match(digest):
            raise NightError(
                f"{self.reach}: {clean_line(program)}: no such program; install it there"
            )
        return digest

    def check_proof(self, hook: str) -> None:
        """Check that a boot has shown that the machine uses a one-shot boot entry only once.

        A boot hook that is a program is not checked here: it runs on the controller, and ``ab``
        checks each of its boots.

        :param hook: ``machine.boot`` of the lab
        :raises NightError: no boot has shown it, or the machine does not answer
        """
        if hook.startswith(_COMMAND):
            return
        proof = _parse(self._ask(_READ, str(PROOF)))
        if proof.get("state") == PROVED and hook in {"auto", proof.get("hook")}:
            return
        raise NightError(
            f"{self.reach}: one-shot boot entry: {_why_unproven(proof)}; run there as root: "
            f"schedperf doctor --boot {shlex.quote(hook)} --prove; then reboot it, and run "
            "`schedperf doctor --boot` there"
        )

    def _ask(self, script: str, *arguments: str) -> str:
        try:
            output: Output = self._ssh.run(["sh", "-c", script, "sh", *arguments])
        except (Unreachable, RecordError) as error:
            port = [] if self._ssh.port is None else ["-p", str(self._ssh.port)]
            command = shlex.join(["ssh", *port, self._ssh.host, "true"])
            raise NightError(
                f"{self.reach}: not reachable ({clean_line(str(error))}); check with `{command}`"
            ) from error
        return output.stdout.decode(errors="replace")


def _why_unproven(proof: dict[str, object]) -> str:
    state = proof.get("state")
    if state is None:
        return "not tested by a boot"
    if state == PROVED:
        return clean_line(f"tested for the hook {proof.get('hook')} only")
    if state == ARMED:
        return "the boot that tests it has not been checked"
    return clean_line(f"test failed: {proof.get('text')}")


def _parse(text: str) -> dict[str, object]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    return record if isinstance(record, dict) else {}
