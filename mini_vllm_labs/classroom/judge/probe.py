"""Checks the jail before grading by trying to break out of it."""

import json
import os
import socket
import subprocess
import tempfile

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.classroom.judge.jail import COURSE, ENVIRONMENT, FIRST_USER, WITHOUT, Jail, JailError
from mini_vllm_labs.classroom.judge.worker import SubmissionDir

PROBE_SECONDS = 60
# Runs in the jail with a worker's limits and prints the attempts that succeeded.
ATTEMPTS = """
import ctypes, json, mmap, os, socket, sys
from mini_vllm_labs.classroom.worker.inside import confine
CALLS = {"x86_64": {"keyctl": 250, "unshare": 272, "userfaultfd": 323},
         "aarch64": {"keyctl": 219, "unshare": 97, "userfaultfd": 282}}.get(os.uname().machine, {})
user, port, secret, outside = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
confine(user, bytes.fromhex(sys.argv[5]))
done = []
def attempt(what, action):
    try:
        action()
    except Exception:
        return
    done.append(what)
attempt("read the solutions", lambda: os.listdir(os.path.join(secret, "solutions")))
attempt("read a file of the judge", lambda: open(outside).read())
attempt("write to the course", lambda: open("/course/labs/x", "w"))
attempt("write to the package", lambda: open("/course/mini_vllm/x", "w"))
attempt("write to /", lambda: open("/x", "w"))
attempt("write to Python's packages", lambda: open(os.path.join(os.path.dirname(os.__file__), "x"), "w"))
attempt("write next to Python", lambda: open(os.path.join(sys.prefix, "x"), "w"))
attempt("connect to the network", lambda: socket.create_connection(("127.0.0.1", port), 1))
attempt("import the solutions", lambda: __import__("solutions.phase1_scheduler_step"))
attempt("import the judge", lambda: __import__("mini_vllm_labs.classroom.judge.judge"))
attempt("start another process", lambda: os.fork() or os._exit(0))
attempt("use memory without a limit", lambda: mmap.mmap(-1, 1 << 20))
attempt("share the memory of a device", lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 1 << 20))
attempt("write past its own protection", lambda: open("/proc/self/mem", "r+b"))
attempt("write to /tmp", lambda: open("/tmp/x", "w"))
attempt("open a socket", lambda: socket.socket(socket.AF_UNIX))
attempt("read the machine's files", lambda: os.listdir("/usr/share"))
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno())
attempt("fill a queue of the kernel", lambda: call(libc.msgget, 0, 0o1600))
attempt("fill semaphores of the kernel", lambda: call(libc.semget, 0, 1, 0o1600))
for name, arguments in (("keyctl", (0, -3, 0)), ("unshare", (0x10000000,)), ("userfaultfd", (0,))):
    if name in CALLS:
        attempt(f"call {name}", lambda: call(libc.syscall, CALLS[name], *arguments))
if len([name for name in os.listdir("/proc") if name.isdigit()]) > 3:
    done.append("see other processes")
if "MINI_VLLM_JUDGE_CANARY" in os.environ:
    done.append("read the judge's environment")
print(json.dumps(done))
"""


def require_jail(jail: Jail) -> None:
    """Try to break out of the jail. Raises `JailError` if the jail does not start or an attempt succeeds."""
    with (
        SubmissionDir({}) as submission_dir,
        tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="mini_vllm_judge_secret_") as outside,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        os.chmod(outside.name, 0o644)
        arguments = ["-c", f"import sys; sys.path.insert(0, '{COURSE}')\n{ATTEMPTS}", str(FIRST_USER)]
        arguments += [str(server.getsockname()[1]), str(CHECKOUT), outside.name, jail.no_processes.hex()]
        environment = ENVIRONMENT | {"MINI_VLLM_JUDGE_CANARY": "1"}
        try:
            with jail.open_filter() as inherited:
                done = subprocess.run(
                    jail.command(submission_dir.course(1), arguments, inherited),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=PROBE_SECONDS,
                    check=False,
                    pass_fds=inherited,
                )
            possible = json.loads(done.stdout) if done.returncode == 0 else None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise JailError(f"the jail does not start: {error}. {WITHOUT}") from error
    if possible is None:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise JailError(f"the jail does not start on this machine: {reason}. {advice(reason)}{WITHOUT}")
    if possible:
        raise JailError(f"the jail leaks: a submission could {', '.join(possible)}. {WITHOUT}")


def advice(reason: str) -> str:
    """Return the usual remedy, or an empty string if there is none."""
    if "namespace" in reason or "Permission" in reason or "permitted" in reason:
        return (
            "The system forbids user namespaces: containers need an option for them, and Ubuntu 24.04 an AppArmor "
            "profile for bwrap (docs/teaching.md). "
        )
    return ""
