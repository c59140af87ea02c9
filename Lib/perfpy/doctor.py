"""perfpy doctor: what on this machine stands in the way, and the remedy.

Called by cli.py.  Looks at one thing after another, and at last records a
small script, which is what counts.
"""

import ctypes
import errno
import mmap
import os
import platform
import struct
import subprocess
import sys
import tempfile

import perfpy
from perfpy import (architecture, collect, framepointers, output, recording,
                    unwinding, which)
from perfpy.interpreter import InterpreterError
from perfpy.perf import Perf, PerfError, last_lines
from perfpy.permissions import (CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYSLOG,
                                has_capability, may_record_kernel, read,
                                setting)
from perfpy.profile import Kind

TRACING = "/sys/kernel/tracing"
TRACEPOINTS = TRACING + "/events"
NOBODY_TRACES = 3       # as kernel.yama.ptrace_scope

OK, NOTE, PROBLEM = "ok", "note", "problem"

IN_CONTAINERS = (
    "start the container with docker run --cap-add PERFMON (podman alike; "
    "Kubernetes: securityContext.capabilities.add: [PERFMON]). Where that is "
    "not enough, add --security-opt seccomp=unconfined")

# The C function between the two shows whether its caller is found.
SCRIPT = """\
def perfpy_doctor_inner(_):
    for _ in range(1_000_000):
        pass

def perfpy_doctor_outer():
    sorted(map(perfpy_doctor_inner, range(3)), key=bool)

perfpy_doctor_outer()
"""


# Where packages are installed that a script of this interpreter may import.
DIRECTORIES = """\
import os, sys
for path in sys.path[1:]:
    if path and path != os.path.dirname(os.__file__):
        print(path)
"""
MOST_NAMES = 10


def is_filtered():
    """Return whether a filter of system calls is on, as in containers."""
    return any(line.split() == ["Seccomp:", "2"] for line
               in (read("/proc/self/status") or "").splitlines())


def try_to_count():
    """Open a timer for this process; return None, or the errno."""
    machine = architecture.of_machine()
    if machine is None:
        return None
    software, cpu_clock, size = 1, 0, 64
    disabled, exclude_kernel, exclude_hypervisor = 1 << 0, 1 << 5, 1 << 6
    attributes = struct.pack(
        "IIQQQQQ16x", software, size, cpu_clock, 0, 0, 0,
        disabled | exclude_kernel | exclude_hypervisor)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(machine.perf_event_open, attributes,
                              0, -1, -1, 0)
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return None


class Doctor:

    def __init__(self, options):
        self.options = options
        self.problems = 0
        self.interpreter = self.perf = None

    def say(self, level, text, remedy=None):
        print(f"{level:8} {text}")
        if remedy:
            print(f"{'':8} Remedy: {remedy}")
        self.problems += level == PROBLEM

    def examine(self):
        """Look at everything; return whether a profile is possible."""
        if not sys.platform.startswith("linux"):
            self.say(PROBLEM, f"this is {sys.platform}; perf is Linux's",
                     "profile with samply: samply record python3.11 -X perf "
                     "SCRIPT")
            return False
        self.examine_interpreter()
        self.examine_perf()
        if self.interpreter:
            self.examine_packages()
        self.examine_permission()
        self.examine_kernel()
        self.examine_attaching()
        self.examine_terminal()
        self.examine_processes()
        self.examine_directory()
        if self.interpreter and self.perf:
            return self.examine_by_trying()
        return False

    def examine_interpreter(self):
        try:
            self.interpreter = found = which.interpreter(
                self.options.python)
        except InterpreterError as error:
            self.say(PROBLEM, str(error), "name another one with --python")
            return
        name = f"{found.command} is Python {found.version}"
        if not found.has_trampoline:
            self.say(PROBLEM, f"{name} and cannot name its functions",
                     "run perfpy with an interpreter of cpython-perf, or name "
                     "one with --python" if architecture.of_machine()
                     else f"none: {platform.machine()} has no support")
            self.interpreter = None
        elif not found.has_labels:
            self.say(NOTE, f"{name}, without frame labels: callers are found "
                     "by frame pointers alone",
                     "use an interpreter of cpython-perf")
        elif found.has_frame_pointers:
            self.say(OK, f"{name}, with frame pointers")
        else:
            self.say(NOTE, f"{name}, built without frame pointers: perfpy "
                     "does not need them, other profilers do",
                     "build it with --with-frame-pointers, the default")

    def examine_perf(self):
        try:
            self.perf = Perf.find(self.options.perf)
        except PerfError as error:
            problem, _, remedy = str(error).partition(": ")
            self.say(PROBLEM, problem if remedy else str(error),
                     remedy or "install the perf of your distribution")
            return
        self.say(OK, f"{self.perf.path} is perf {self.perf.version_text}")

    def examine_packages(self):
        """Name what hides its callers from others than perfpy."""
        answer = subprocess.run([self.interpreter.command, "-c", DIRECTORIES],
                                text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        names = framepointers.packages_without(answer.stdout.splitlines())
        libraries = [os.path.basename(path) for path
                     in self.interpreter.mapped
                     if framepointers.are_kept(path) is False]
        if names := names + libraries:
            shown = ", ".join(names[:MOST_NAMES])
            if len(names) > MOST_NAMES:
                shown += f" and {len(names) - MOST_NAMES} more"
            self.say(NOTE, f"without frame pointers: {shown}. perfpy finds "
                     "their callers all the same; perf record -g, samply and "
                     "--unwind fp do not",
                     "for those, build them with "
                     "CFLAGS=-fno-omit-frame-pointer")

    def examine_permission(self):
        paranoid = setting("kernel.perf_event_paranoid")
        if paranoid is None:
            self.say(PROBLEM, "the kernel has no performance events",
                     "none but another kernel (CONFIG_PERF_EVENTS)")
            return
        error = try_to_count()
        if error is None:
            self.say(OK, "the kernel lets you record your own processes "
                     f"(kernel.perf_event_paranoid is {paranoid})")
        elif error == errno.EACCES:
            self.say(PROBLEM, f"kernel.perf_event_paranoid is {paranoid}, "
                     "which keeps out all but root",
                     "sudo sysctl kernel.perf_event_paranoid=2; for good: put "
                     "the setting into /etc/sysctl.d/perf.conf")
        elif error in (errno.EPERM, errno.ENOSYS) and is_filtered():
            self.say(PROBLEM, "a filter of system calls forbids "
                     "perf_event_open, as containers have it", IN_CONTAINERS)
        elif error == errno.ENOSYS:
            self.say(PROBLEM, "the kernel has no perf_event_open",
                     "none but another kernel, or another sandbox")
        elif read("/sys/fs/selinux/enforce") == "1":
            self.say(PROBLEM, "SELinux is enforcing and forbids "
                     "perf_event_open here", "look at it with ausearch -m avc "
                     "-c perf, and allow it with audit2allow")
        else:
            self.say(PROBLEM, f"perf_event_open: {os.strerror(error)}",
                     IN_CONTAINERS)

    def examine_kernel(self):
        paranoid = setting("kernel.perf_event_paranoid")
        if paranoid is None:
            return
        if not may_record_kernel():
            self.say(NOTE, "time in the kernel is not recorded for you, and "
                     "there is no --wall",
                     "sudo sysctl kernel.perf_event_paranoid=1")
        elif (setting("kernel.kptr_restrict") or 0) > (
                1 if has_capability(CAP_SYSLOG) else 0):
            self.say(NOTE, "functions of the kernel have no names for you",
                     "sudo sysctl kernel.kptr_restrict=0")
        # For root, perf mounts them when it wants one.
        is_lasting = os.path.ismount(TRACING) or not (
            os.path.isdir(TRACING) and has_capability(CAP_SYS_ADMIN))
        if is_lasting and not os.access(TRACEPOINTS, os.R_OK | os.X_OK):
            self.say(NOTE, "--event has no tracepoints for you, and --wall "
                     "does not see when threads are woken: "
                     f"{TRACEPOINTS} cannot be read",
                     "run perfpy as root; or let root do: mount -o "
                     "remount,gid=GROUP,mode=750 /sys/kernel/tracing")

    def examine_attaching(self):
        """Look at what keeps running processes from being asked for names."""
        if (scope := setting("kernel.yama.ptrace_scope")) and not (
                scope < NOBODY_TRACES and has_capability(CAP_SYS_PTRACE)):
            self.say(NOTE, f"kernel.yama.ptrace_scope is {scope}: --attach "
                     "and top take processes that name their functions, and "
                     "cannot ask others to",
                     "start those with -X perf; no setting helps before the "
                     "next boot" if scope == NOBODY_TRACES else
                     "run perfpy as root, or sudo sysctl "
                     "kernel.yama.ptrace_scope=0")
        if os.environ.get("PYTHON_DISABLE_REMOTE_DEBUG"):
            self.say(NOTE, "PYTHON_DISABLE_REMOTE_DEBUG is set: a Python that "
                     "is started here lets nobody ask it for names later",
                     "unset PYTHON_DISABLE_REMOTE_DEBUG")

    def examine_terminal(self):
        try:
            import curses
        except ImportError as error:
            self.say(NOTE, f"perfpy top cannot draw: {error}",
                     "use a Python that was built with libncurses-dev")
        else:
            del curses

    def examine_processes(self):
        try:
            number = int(os.readlink("/proc/self"))
        except (OSError, ValueError):
            self.say(PROBLEM, "/proc is not there, and perf needs it",
                     "mount -t proc proc /proc")
            return
        if number != os.getpid():
            self.say(PROBLEM, "/proc is of another pid namespace: process "
                     f"{os.getpid()} is called {number} there",
                     "mount -t proc proc /proc, or unshare with --mount-proc")

    def examine_directory(self):
        try:
            with tempfile.TemporaryFile(dir="/tmp") as file:
                file.write(bytes(mmap.PAGESIZE))
                file.flush()
                mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE,
                          mmap.PROT_READ | mmap.PROT_EXEC).close()
        except PermissionError as error:
            if error.errno == errno.EPERM:
                self.say(NOTE, "/tmp is mounted noexec, where perf does not "
                         "find a jitdump", "name another directory in "
                         "JITDUMPDIR, if you use -X perf_jit")
                return
            self.say(PROBLEM, "/tmp is not writable, where the names of "
                     "functions go", "sudo chmod 1777 /tmp")
        except OSError as error:
            self.say(PROBLEM, f"/tmp cannot be used: {error.strerror}",
                     "make room there, or mount it writable")

    def examine_by_trying(self):
        """Record a script as perfpy run does."""
        with collect.work_directory() as work:
            script = os.path.join(work, "doctor.py")
            with open(script, "w") as file:
                file.write(SCRIPT)
            picture = os.path.join(work, "doctor.collapsed.txt")
            answer = subprocess.run(
                [sys.executable, "-c", f"import sys; sys.path.insert(0, "
                 f"{os.path.dirname(os.path.dirname(perfpy.__file__))!r}); "
                 "from perfpy.cli import main; sys.exit(main())",
                 "run", "-o", picture, "--perf", self.perf.path,
                 "--python", self.interpreter.command, script],
                text=True, errors="backslashreplace",
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE)
            if answer.returncode:
                self.say(PROBLEM, "a small script cannot be recorded:\n"
                         + last_lines(answer.stderr, 10))
                return False
            profile = recording.load(os.path.join(work,
                                                  "doctor" + recording.SUFFIX))
        return self.judge(profile.functions())

    def judge(self, profile):
        """Say whether the profile shows the functions of the script."""
        profile = profile.functions()
        whole = profile.duration()
        shares = {frame.name: total / whole for frame, (_, total)
                  in zip(profile.frames, profile.totals())
                  if frame.kind is Kind.PYTHON} if whole else {}
        inner, outer = (shares.get(f"perfpy_doctor_{name}", 0)
                        for name in ("inner", "outer"))
        event = profile.meta["event"]
        how = unwinding.choose(
            None, self.interpreter.has_labels).method
        if inner > 0.3 and outer > 0.9 * inner:
            self.say(OK, f"a small script was recorded by {event}, its "
                     "functions have names and callers "
                     f"({unwinding.NAMES[how]})")
            return True
        if inner > 0.3:
            self.say(PROBLEM, "a small script was recorded, its functions "
                     "have names, but their callers are missing",
                     "use an interpreter of cpython-perf that is newer")
        elif whole:
            self.say(PROBLEM, "a small script was recorded, but its functions "
                     "have no names",
                     "see whether perf can read /tmp/perf-PID.map: it must be "
                     "in the same /tmp, and yours or root's")
        else:
            self.say(PROBLEM, "a small script was recorded, but no samples "
                     "came in", "try another --event")
        return False


def main(options):
    doctor = Doctor(options)
    possible = doctor.examine()
    if possible:
        print(f"A profile is possible: {output.program_name()} run SCRIPT")
        return 0
    print("A profile is not possible.")
    return 1
