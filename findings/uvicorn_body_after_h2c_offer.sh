#!/usr/bin/env bash
# uvicorn gives an application an empty body if a POST also offers HTTP/2 (`Upgrade: h2c`), as Java's HttpClient does.
#
# RFC 9110, section 7.8: a server may ignore an Upgrade header. Then the request is an ordinary one, body included.
# uvicorn with httptools logs "Unsupported upgrade request." and goes on, but its parser has stopped before the body: the
# application reads b"". With h11 the body arrives. vLLM's server runs on uvicorn, and httptools is used where it is
# installed, as by `uvicorn[standard]`.
# Seen with uvicorn 0.54.0, httptools 0.9.0, h11 0.16.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet uvicorn==0.54.0 httptools==0.9.0 h11==0.16.0
cat > "$folder/seen.py" <<'PY'
import http.client
import sys
import threading
import time

import uvicorn

BODY = b'{"prompt": "hello"}'
OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}


async def application(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def read(parser, port, headers):
    server = uvicorn.Server(uvicorn.Config(application, port=port, http=parser, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    client = http_client(port)
    client.request("POST", "/", BODY, headers)
    body = client.getresponse().read()
    client.close()
    server.should_exit = True
    thread.join()
    return body


def http_client(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=10)


print("uvicorn", uvicorn.__version__)
found = {
    (parser, name): read(parser, 8471 + number, headers)
    for number, (parser, name, headers) in enumerate(
        [("httptools", "plain", {}), ("httptools", "offers h2c", OFFER), ("h11", "offers h2c", OFFER)]
    )
}
for (parser, name), body in found.items():
    print(f"{parser:10} POST that {name:11} the application reads {body!r}")
sys.exit(list(found.values()) != [BODY, b"", BODY])
PY
"$folder/venv/bin/python" "$folder/seen.py"
