# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the recorder: the entry point of ``python3 -m schedperf_collectors`` and of the zipapp.

Every Python since 2.6 can run this file, so that an old one prints a clear error.
"""

import signal
import sys

# The package needs Python 3.9; this file must run on any version.
if sys.version_info < (3, 9):  # noqa: UP036
    sys.stderr.write(
        "schedperf: error: unsupported Python "
        + sys.version.split()[0]
        + " (expected 3.9 or newer); run the recorder with another Python\n"
    )
    sys.exit(2)

# Until the recorder handles Ctrl-C itself, it simply ends the process.
signal.signal(signal.SIGINT, signal.SIG_DFL)

# `ab --kernel` sends a target many small queries, which need few modules of this program.
if sys.argv[1:2] == ["boots-agent"] and sys.argv[2:3] != ["resume"]:
    from schedperf_collectors.boots.agent import main as agent

    sys.exit(agent(sys.argv[2:]))

# A packed request has no command.
if not sys.argv[1:] or sys.argv[1].startswith("-"):
    from schedperf_collectors.request.ask import read_packed

    packed = read_packed()
    if packed is not None:
        from schedperf_collectors.request.main import main as answer

        ask, rules = packed
        sys.exit(answer(ask, rules, sys.argv[1:]))

from schedperf_collectors.command_line.main import main  # noqa: E402 # see above

if __name__ == "__main__":
    sys.exit(main())
