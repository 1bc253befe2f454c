# SPDX-License-Identifier: GPL-2.0-or-later
"""A server of files on the loopback interface: by HTTP, and as much of S3 as reading needs."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_LIST = (
    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
)
_ENTRY = (
    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>e</ETag>"
    "<LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>"
)


@contextmanager
def serve(files: Mapping[str, bytes], *, cut: int = 0) -> Iterator[str]:
    """Serve files by path, "/bucket/base.tar"; yield the address "127.0.0.1:PORT".

    :param cut: bytes that are left out of each answer, against its announced length
    """

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            self._answer(is_head=False)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # as the base
            pass

        def _answer(self, *, is_head: bool) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            content = files.get(parts.path)
            if "list-type" in query:
                content = _list_of(parts.path, query.get("prefix", [""])[0]).encode()
            if content is None:
                self.send_response(403 if parts.path.startswith("/secret") else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
            self.send_header("ETag", '"e"')
            self.end_headers()
            if not is_head:
                self.wfile.write(content[: len(content) - cut])

    def _list_of(bucket: str, prefix: str) -> str:
        start = f"{bucket.rstrip('/')}/"
        keys = {path.removeprefix(start): files[path] for path in files if path.startswith(start)}
        entries = [
            _ENTRY.format(key=key, size=len(content))
            for key, content in sorted(keys.items())
            if key.startswith(prefix)
        ]
        return _LIST.format(contents="".join(entries))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
