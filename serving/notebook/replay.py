"""A server that repeats what the reference's server has answered, where the learner's engine is not written yet."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from course.notebook.records import find_record
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig
from serving.notebook.exchange import exchange_key, plain_body
from serving.notebook.talk import NOT_RECORDED


class Replay:
    """Listens on a free port of this machine. The nth equal request gets the nth recorded answer, or the last."""

    def __init__(self, config: EngineConfig, lineup: Lineup) -> None:
        self._config, self._lineup = config, lineup
        self._seen = Counter[tuple[str, str, str]]()
        self._lock = threading.Lock()
        replay = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                replay.answer(self, "")

            def do_POST(self) -> None:
                replay.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing into the cell."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="replay", daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        """Send the recorded answer to a request, or that there is none."""
        status, headers, text = self._find(handler.command, handler.path, body)
        content = text.encode()
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        except ConnectionError:  # a client that hangs up
            handler.close_connection = True

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()

    def _find(self, method: str, path: str, body: str) -> tuple[int, dict[str, str], str]:
        one = method, path, plain_body(body)
        with self._lock:
            number = self._seen[one]
            self._seen[one] += 1
        for earlier in range(number, -1, -1):
            found = find_record(exchange_key(self._config, self._lineup, *one, earlier))
            if found is not None:
                return found["status"], found["headers"], found["answer"]
        error = {"message": "this request is not recorded", "type": "server_error", "param": None, "code": NOT_RECORDED}
        return 503, {"Content-Type": "application/json"}, json.dumps({"error": error})
