#!/usr/bin/env bash
# A server on uvloop closes new connections in silence while the process has no free file descriptor. On asyncio's own
# loop the same connections stay in the backlog, the log says "out of system resource", and they are served later.
#
# A client of a serving engine then sees a connection that ends before any answer, and the server's log shows nothing.
# uvicorn takes uvloop where it is installed, as by `uvicorn[standard]`, and vLLM's server depends on it.
# Both loops run the same program: 20 free descriptors, 40 clients that send their request half a second later.
# Seen with uvloop 0.23.0 on Python 3.11, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet uvloop==0.23.0
cat > "$folder/seen.py" <<'PY'
import asyncio
import logging
import multiprocessing
import os
import resource
import socket
import sys
import time

import uvloop

NUM_CLIENTS, NUM_FREE = 40, 20
LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)


class Count(logging.Handler):
    records = 0

    def emit(self, record):
        self.records += 1


async def answer(reader, writer):
    await reader.read(1)
    writer.write(b"served")
    await writer.drain()
    writer.close()


def clients(pipe):
    port, closed, waiting, served = pipe.recv(), 0, [], 0
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(NUM_CLIENTS)]
    time.sleep(0.5)
    for one in sockets:
        one.setblocking(False)
        try:
            one.recv(1)
            closed += 1
        except BlockingIOError:
            waiting.append(one)
        except ConnectionError:
            closed += 1
    for one in waiting:
        one.send(b"x")
    time.sleep(3)
    for one in waiting:
        try:
            served += one.recv(6) == b"served"
        except OSError:
            pass
    pipe.send((closed, served))


async def serve(pipe):
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=100)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    limit = [number for number in range(4096) if number not in used][NUM_FREE]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, LIMITS[1]))
    pipe.send(server.sockets[0].getsockname()[1])
    while not pipe.poll():
        await asyncio.sleep(0.1)


def run(name):
    resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=clients, args=(theirs,))
    process.start()
    count = Count()
    logging.getLogger("asyncio").handlers = [count]
    logging.getLogger("asyncio").propagate = False
    (uvloop.run if name == "uvloop" else asyncio.run)(serve(ours))
    closed, served = ours.recv()
    process.join()
    print(f"{name}: {closed} of {NUM_CLIENTS} closed without an answer, {served} served, {count.records} lines of log")
    return closed, served, count.records


print("uvloop", uvloop.__version__, "Python", sys.version.split()[0])
asyncio_closed, asyncio_served, asyncio_lines = run("asyncio")
uvloop_closed, uvloop_served, uvloop_lines = run("uvloop")
still = (
    (asyncio_closed, asyncio_served, asyncio_lines > 0) == (0, NUM_CLIENTS, True)
    and uvloop_closed >= NUM_CLIENTS // 4
    and uvloop_closed + uvloop_served == NUM_CLIENTS
    and uvloop_lines == 0
)
print("as described" if still else "changed")
sys.exit(not still)
PY
timeout 120 "$folder/venv/bin/python" "$folder/seen.py"
