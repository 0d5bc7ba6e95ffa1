"""System call filters: they allow one process with threads, but no sockets and no uncounted memory.

The filters are made by libseccomp. Bubblewrap installs the first just before Python starts, and a worker installs the
second before it loads a learner's file. A denied call fails with EPERM.
"""

import errno
import mmap
import os
import tempfile
from typing import Any

NO_MORE_PROCESSES = ("fork", "vfork")
NEW_NAMESPACES = ("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen")
KEYS = ("keyctl", "add_key", "request_key")
OTHER_PROCESSES = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "pidfd_open")
# Calls that use kernel memory, or pages that none of the process's limits count.
SHARED_MEMORY = ("memfd_create", "memfd_secret", "shmget", "shmat", "msgget", "semget", "mq_open")
SOCKETS = ("socket", "socketpair")
PINNED_PAGES = ("splice", "vmsplice", "tee", "sendfile", "io_setup", "mlock", "mlock2", "mlockall")
KEPT_BY_THE_KERNEL = ("inotify_init", "inotify_init1", "landlock_create_ruleset", "timer_create", "flock")
FILE_LOCKS_AND_PIPE_SIZE = (5, 6, 7, 36, 37, 38, 1031)  # commands for `fcntl`
GROWS_DOWN = 0x100  # a second stack, which is not counted as data
KERNEL = (
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("open_by_handle_at", "name_to_handle_at", "personality", "syslog", "quotactl", "acct", "reboot", "kexec_load"),
    *("init_module", "finit_module", "delete_module", "fanotify_init", "lookup_dcookie", "vhangup", "swapon"),
)
DENIED: tuple[str, ...] = NEW_NAMESPACES + KEYS + OTHER_PROCESSES + SHARED_MEMORY
DENIED += KERNEL + SOCKETS + PINNED_PAGES + KEPT_BY_THE_KERNEL
CLONE_THREAD = 0x10000
LOW_HALF = 0xFFFFFFFF  # for an int argument, the kernel ignores the upper half


class NoFilterError(ValueError):
    """libseccomp or its Python binding is missing."""


def filter_programs() -> tuple[bytes, bytes]:
    """Return two BPF programs: one denies dangerous calls, and the other denies the creation of processes.

    Raises `NoFilterError` if libseccomp is missing.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError) as error:
        raise NoFilterError(
            f"system calls cannot be filtered: {error}; install libseccomp2 and pyseccomp (run "
            "mini_vllm_labs/upkeep/install_jail.sh and install the 'judge' extra)"
        ) from None
    deny, masked = pyseccomp.ERRNO(errno.EPERM), pyseccomp.MASKED_EQ
    rules, no_processes = pyseccomp.SyscallFilter(pyseccomp.ALLOW), pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for filter, names in ((rules, DENIED), (no_processes, NO_MORE_PROCESSES)):
        for name in names:
            number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
            if number >= 0:  # otherwise, the call does not exist in this version of libseccomp or on this processor
                filter.add_rule(deny, number)
    no_processes.add_rule(deny, "clone", pyseccomp.Arg(0, masked, CLONE_THREAD, 0))
    # libc then falls back to `clone`, whose flags a filter can inspect
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for kind in (mmap.MAP_SHARED, GROWS_DOWN):
        rules.add_rule(deny, "mmap", pyseccomp.Arg(3, masked, kind, kind))
    for command in FILE_LOCKS_AND_PIPE_SIZE:
        rules.add_rule(deny, "fcntl", pyseccomp.Arg(1, masked, LOW_HALF, command))
    return exported(rules), exported(no_processes)


def exported(rules: Any) -> bytes:
    """Export a pyseccomp filter as a BPF program."""
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def as_open_file(program: bytes) -> int:
    """Return a descriptor from which a child process can read the program once."""
    number = os.memfd_create("seccomp", 0)
    os.write(number, program)
    os.lseek(number, 0, os.SEEK_SET)
    return number
