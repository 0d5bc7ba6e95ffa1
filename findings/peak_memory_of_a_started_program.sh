#!/usr/bin/env bash
# Linux: `resource.getrusage(RUSAGE_SELF).ru_maxrss` of a freshly started program is at least the memory of its parent.
#
# The kernel keeps the maximum across `exec`, and between `fork` and `exec` the child counts the parent's pages. So a
# benchmark that starts its contenders from a process with 300 MiB prints "300 MiB" for each that is smaller. `VmHWM` in
# /proc/self/status belongs to the new program alone.
set -euo pipefail
found=$(python3 - <<'PYTHON'
import subprocess
import sys

CHILD = """
import resource
[line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, int(line.split()[1]) // 1024)
"""
held = bytearray(300 << 20)
print(subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True).stdout.strip())
PYTHON
)
read -r reported own <<< "$found"
echo "$(python3 --version), $(uname -sr): ru_maxrss says $reported MiB, VmHWM says $own MiB, the parent had 300 MiB"
[ "$reported" -ge 300 ] && [ "$own" -lt 100 ]
