# SPDX-License-Identifier: GPL-2.0-or-later
"""A web server on this machine with the given pages."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer

# Status and text by address; all other addresses are not found.
Pages = dict[str, tuple[int, str]]


# A page that ends within a chunk, after its status.
CUT_PAGE = b" Status\r\nTransfer-Encoding: chunked\r\n\r\n99\r\nSubject: a"


@contextmanager
def serve_bytes(answer: bytes) -> Iterator[str]:
    """Answer each request with the same bytes; yield the address."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with _serving(ThreadingTCPServer(("127.0.0.1", 0), Handler)) as address:
        yield address


@contextmanager
def serve(pages: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    """Serve pages, which may change meanwhile; yield the address: ``http://127.0.0.1:PORT``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = pages.get(self.path, (404, "not found"))
            self.send_response(status)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(text.encode())

        do_HEAD = do_GET  # noqa: N815 # named by http.server

        def log_message(self, *_: object) -> None:
            pass

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        yield address


@contextmanager
def _serving(server: TCPServer) -> Iterator[str]:
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            # Otherwise the thread would keep a failed test from ending.
            server.shutdown()
            thread.join()
