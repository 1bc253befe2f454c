"""BTF of a vmlinux that has only DWARF, made by the installed pahole."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from schedperf.model.errors import InputError

# A distribution's vmlinux takes 15 s and 2 GB, one with everything in it a minute.
TIMEOUT_S = 600
# Of what pahole says, the part that fits on a line.
LONGEST_COMPLAINT = 150


def encode_btf(path: Path, label: str, *, limit_bytes: int) -> bytes:
    """Return the raw BTF that pahole makes of a file's DWARF.

    :param label: names the source in messages
    :param limit_bytes: refuse more
    :raises InputError: pahole is not installed, cannot read the file, or wrote no BTF
    """
    program = shutil.which("pahole")
    if program is None:
        raise InputError(
            f"{label}: has DWARF but no BTF, and pahole is not installed; "
            "apt-get install dwarves, or use the kernel's BTF"
        )
    with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
        made = Path(folder) / "btf"
        # An absolute path cannot be taken for an option.
        command = [program, f"--btf_encode_detached={made}", str(path.resolve())]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=TIMEOUT_S, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{label}: pahole was not ready after {TIMEOUT_S} s; use the kernel's BTF"
            ) from None
        size = made.stat().st_size if made.exists() else 0
        if done.returncode or not 0 < size <= limit_bytes:
            raise InputError(
                f"{label}: pahole made {size} bytes of BTF, exit status {done.returncode}"
                f"{_complaint(done.stderr)}; use a vmlinux with debug information"
            )
        return made.read_bytes()


def _complaint(stderr: bytes) -> str:
    # The last line is what it stopped for.
    lines = stderr.decode("utf-8", "replace").split("\n")
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return f" ({said[-1][:LONGEST_COMPLAINT]})" if said else ""
