#!/usr/bin/env bash
# One idle Python thread changes how torch's threads wait in all others. Once a second Python thread has computed on
# several threads, and for as long as it lives, waiting threads sleep at once instead of spinning for milliseconds: it
# has an OpenMP team of its own, and libgomp's spin count falls from 300,000 to 100 while a process has more OpenMP
# threads than CPUs. A server that loads a model in one thread and computes in another has this without knowing.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q -c constraints.txt torch==2.13.0 numpy
env -u OMP_NUM_THREADS -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT "$folder/venv/bin/python" - <<'PYTHON'
import sys
import time
from os import sched_getaffinity
from statistics import median
from threading import Event, Thread

import torch

print("torch", torch.__version__, "CPUs:", len(sched_getaffinity(0)))
torch.set_num_threads(len(sched_getaffinity(0)))


def compute() -> None:
    torch.ones(1_000_000).add_(1)


def spent_waiting() -> float:
    """Return the median CPU milliseconds that threads spend after their work, while this one sleeps."""
    found = []
    for _ in range(9):
        compute()
        started = time.process_time()
        time.sleep(0.05)
        found.append(1e3 * (time.process_time() - started))
    return median(found)


def compute_once_and_wait(done: Event, leave: Event) -> None:
    compute()
    done.set()
    leave.wait()


alone = spent_waiting()
done, leave = Event(), Event()
thread = Thread(target=compute_once_and_wait, args=(done, leave))
thread.start()
done.wait()
beside = spent_waiting()
leave.set()
thread.join()
after = spent_waiting()
print(f"CPU time of waiting threads: {alone:.2f} ms alone, {beside:.2f} ms beside the idle one, {after:.2f} ms after it")
sys.exit(not (alone > 5 * beside and after > 5 * beside))
PYTHON
