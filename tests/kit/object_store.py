"""A bucket of Google Cloud Storage in this process, as programs here reach it.

gcp-storage-emulator answers every write, whatever generation it was for: a test of two
writers would pass without a lock. It also has no `moveTo`, and does not say which
generation a download is of, which tensorstore needs. All three are added here.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

BUCKET = "bucket"
# While it is set, connections are cut off.
outage = threading.Event()


def environment(port: int) -> dict[str, str]:
    """What has gcsfs, google-cloud-storage and tensorstore use the bucket."""
    url = f"http://127.0.0.1:{port}"
    return {
        "STORAGE_EMULATOR_HOST": url,
        "TENSORSTORE_GCS_HTTP_URL": url,
        "FSSPEC_GCS_TOKEN": "anon",
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        # Else each process asks for a minute what kind of bucket it is.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


@contextlib.contextmanager
def bucket() -> Iterator[int]:
    """Serves an empty bucket; the port."""
    from gcp_storage_emulator import server

    with _Patched(server):
        served = server.create_server(
            "127.0.0.1", 0, in_memory=True, default_bucket=BUCKET
        )
        with served:
            yield served._api._httpd.server_address[1]


class _Patched(contextlib.ExitStack):
    """The emulator's module with its handlers checked, for as long as it is open."""

    def __init__(self, server: Any):
        super().__init__()
        lock = threading.RLock()

        def checked(handler: Callable) -> Callable:
            return functools.partial(_checked, handler, lock)

        routes = ((_MOVE, {"POST": _move}), *server.HANDLERS)
        handlers = tuple(
            (path, {method: checked(handler) for method, handler in methods.items()})
            for path, methods in routes
        )
        self._set(server, "HANDLERS", handlers)
        self._set(server.server, "HTTPServer", http.server.ThreadingHTTPServer)
        parse = server.RequestHandler.parse_request
        self._set(server.RequestHandler, "parse_request", _unless_out(parse))

    def _set(self, holder: Any, name: str, value: Any) -> None:
        self.callback(setattr, holder, name, getattr(holder, name))
        setattr(holder, name, value)


def _unless_out(parse: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Of a request handler: in an outage the connection is closed without an answer."""

    def parse_request(handler: Any) -> bool:
        handler.close_connection = True
        return not outage.is_set() and parse(handler)

    return parse_request


def _generation(request: Any, storage: Any) -> str:
    """Of the object that a request is about; "0" if there is none."""
    from gcp_storage_emulator.exceptions import NotFound

    name = (request.params or {}).get("object_id")
    if name is None and "name" in request.query:
        name = request.query["name"][0]
    if name is None and isinstance(request.data, dict):
        name = request.data.get("meta", request.data).get("name")
    try:
        found = storage.get_file_obj(request.params["bucket_name"], name)
    except NotFound:
        return "0"
    return found["generation"]


def _checked(
    handler: Callable, lock: threading.RLock, request: Any, response: Any, storage: Any
) -> Any:
    with lock:  # else another writer comes between the look and the write
        begins = "upload_id" not in request.query
        if begins and (wanted := request.query.get("ifGenerationMatch")):
            if _generation(request, storage) != wanted[0]:
                response.status = HTTPStatus.PRECONDITION_FAILED
                error = {"code": 412, "message": "conditionNotMet"}
                return response.json({"error": error})
        if request.method == "GET" and "object_id" in (request.params or {}):
            generation = _generation(request, storage)
            if request.query.get("ifGenerationNotMatch") == [generation]:
                response.status = HTTPStatus.NOT_MODIFIED
                return None
            if generation != "0":
                response["x-goog-generation"] = generation
        return handler(request, response, storage)


_MOVE = (
    r"^/storage/v1/b/(?P<bucket_name>[-.\w]+)/o/(?P<object_id>.*[^/]+)"
    r"/moveTo/o/(?P<target>.*[^/]+)$"
)


def _move(request: Any, response: Any, storage: Any) -> None:
    from gcp_storage_emulator.exceptions import NotFound

    bucket_name = request.params["bucket_name"]
    source, target = request.params["object_id"], request.params["target"]
    try:
        found = storage.get_file_obj(bucket_name, source)
        content = storage.get_file(bucket_name, source)
    except NotFound:
        response.status = HTTPStatus.NOT_FOUND
        return
    moved = {**found, "name": target}
    storage.create_file(bucket_name, target, content, moved)
    storage.delete_file(bucket_name, source)
    response.json(moved)
