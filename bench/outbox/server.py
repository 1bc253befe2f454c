# SPDX-License-Identifier: GPL-2.0-or-later
"""Run aiosmtpd's server and write each mail to a Maildir: ``python -m bench.outbox.server DIR``.

It prints its port, then ``open PORT`` and ``closed PORT`` with the client's port per connection, so
that the reader knows when no more mail of a killed client can arrive.
"""

import asyncio
import sys
from pathlib import Path

from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import SMTP


class _Reporting(SMTP):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._port = transport.get_extra_info("peername")[1]
        print("open", self._port, flush=True)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        # The handler of the connection ends in this turn of the loop, or the next one.
        self.loop.call_soon(self.loop.call_soon, self._report)

    def _report(self) -> None:
        print("closed", self._port, flush=True)


async def serve(folder: Path) -> None:
    """Accept mails until the process that started this one ends, which closes stdin."""
    loop = asyncio.get_running_loop()
    handler = Mailbox(folder)
    server = await loop.create_server(
        lambda: _Reporting(handler, loop=loop, hostname="localhost"), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), ended.cancel)
    async with server:
        await asyncio.wait([ended])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
