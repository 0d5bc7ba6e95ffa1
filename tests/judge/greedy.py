"""Files that use memory in ways that a data limit does not count, or that explore the machine."""

from tests.judge.hostile import ENDED, Hostile

LIBC = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.syscall.argtypes = [ctypes.c_long] * 4
CALLS = {'x86_64': {'fcntl': 72}, 'aarch64': {'fcntl': 25}}[os.uname().machine]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def call(name, *arguments):
    found = getattr(libc, name)(*arguments)
    if found in (None, -1, 2**64 - 1): raise OSError(ctypes.get_errno(), 'refused')
    return found
"""
DENIED, READ_ONLY, NO_MEMORY = "[Errno 1]", "[Errno 30]", "[Errno 12]"
PRIVATE, READ, WRITE = "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS", "mmap.PROT_READ", "mmap.PROT_READ | mmap.PROT_WRITE"
PIPE = "ends = os.pipe(); fcntl.fcntl(ends[1], {command}, {argument})"
SPLICE = (
    "ends = os.pipe(); here = ctypes.create_string_buffer(9); part = (ctypes.c_void_p * 2)(ctypes.addressof(here), 9);"
)
DENIED_CALLS = {
    "memory of /dev/zero": "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 2**32)",
    "memory of /dev/zero to read": "mmap.mmap(os.open('/dev/zero', os.O_RDONLY), 2**32, prot=mmap.PROT_READ)",
    "shared and validated": "call('mmap', None, 2**20, 3, 0x23, -1, 0)",
    "a stack that grows": f"call('mmap', None, 2**20, {WRITE}, {PRIVATE} | 0x100, -1, 0)",
    "a message queue": "call('msgget', 0, 0o1600)",
    "semaphores": "call('semget', 0, 32000, 0o1600)",
    "a shared segment": "call('shmget', 0, 2**20, 0o1600)",
    "a POSIX queue": "call('mq_open', b'/x', 0o102, 0o600, None)",
    "a file in memory": "os.memfd_create('x')",
    "large pipes": "import fcntl; " + PIPE.format(command=1031, argument=2**20),
    "large pipes by a long number": "ends = os.pipe(); call('syscall', CALLS['fcntl'], ends[1], 2**32 | 1031, 2**20)",
    "pages in a pipe": SPLICE + "call('vmsplice', ends[1], part, 1, 0)",
    "pages of a file in a pipe": SPLICE + "call('splice', os.open(os.__file__, 0), None, ends[1], None, 9, 0)",
    "sockets": "__import__('socket').socketpair()",
    "watched files": "call('inotify_init')",
    "timers": "call('timer_create', 0, None, ctypes.create_string_buffer(8))",
    "locks": "import fcntl; fcntl.lockf(os.open(os.__file__, 0), fcntl.LOCK_SH)",
    "locks of open files": "import fcntl, struct; fcntl.fcntl(os.open(os.__file__, 0), 37, bytes(32))",
    "whole-file locks": "import fcntl; fcntl.flock(os.open(os.__file__, 0), fcntl.LOCK_SH)",
    "pages that stay": "call('mlock', ctypes.create_string_buffer(9), 9)",
}
STACK = "import resource; resource.setrlimit(resource.RLIMIT_STACK, (2**33, 2**33))"
PAST_PROTECTION = f"call('mmap', None, 2**33, {READ}, {PRIVATE}, -1, 0)"
RELEASED = f"""
for _ in range(12):
    place = call('mmap', None, 2**29, {WRITE}, {PRIVATE}, -1, 0)
    call('mprotect', place, 2**29, {READ})
"""
TABLES = f"""
for place in range(2**40, 2**46, 2**30):
    if libc.mmap(place, 4096, {READ}, {PRIVATE}, -1, 0) == place: ctypes.string_at(place, 1)
"""
THREADS = "import threading\nfor _ in range(99): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
MANY = "kept = [os.pipe() for _ in range(99)]"
INODES = "for number in range(10**6): open(f'/tmp/{number}', 'w')"
LOOK = """
places = ['/usr/' + name for name in ('share', 'local', 'bin', 'include', 'src')] + ['HOME/.ssh', 'PLANTED']
places += ['/' + name for name in 'opt srv var home mnt media boot sys run etc/passwd etc/hosts etc/ssl'.split()]
seen = [place for place in places if os.path.exists(place)]
if seen: raise SystemExit(seen)
"""
FILLS = "kept = []\nwhile True: kept.append(bytearray(2**24)); time.sleep(0.01)"
TOO_MUCH = (Hostile("data", FILLS, ENDED), Hostile("tables of pages", LIBC + TABLES, ENDED))
GREEDY = (
    *(Hostile(name, LIBC + code, DENIED, is_for_jail=True) for name, code in DENIED_CALLS.items()),
    Hostile("a larger stack", STACK, "ValueError", is_for_jail=True),
    Hostile("writes past its protection", "open('/proc/self/mem', 'r+b')", "'/proc/self/mem'", is_for_jail=True),
    Hostile("more than it may map", LIBC + PAST_PROTECTION, NO_MEMORY, is_for_jail=True),
    Hostile("data that is no data any more", LIBC + RELEASED, NO_MEMORY, is_for_jail=True),
    Hostile("threads", THREADS, "can't start new thread", is_for_jail=True),
    Hostile("open files", MANY, "[Errno 24]", is_for_jail=True),
    Hostile("files in /tmp", INODES, READ_ONLY, is_for_jail=True),
    Hostile("files in /dev/shm", INODES.replace("/tmp", "/dev/shm"), READ_ONLY, is_for_jail=True),
    Hostile("looks around", LOOK, is_for_jail=True),
)
