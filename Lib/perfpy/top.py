"""perfpy top: which functions run right now, in a terminal.

Called by cli.py.  The screen is drawn once a second, and after each key.
Signals that end a program are blocked and looked for in the loop, so that the
terminal is always given back.
"""

import collections
import contextlib
import os
import signal
import sys
import tempfile
import time

from perfpy import (activate, attach, clean, collect, columns, family, output,
                    run, table, unwinding)
from perfpy.interpreter import InterpreterError
from perfpy.launch import Command, exit_like
from perfpy.live import LiveReducer, Names, rows_of
from perfpy.perf import Perf, PerfError, highest_frequency
from perfpy.profile import Profile
from perfpy.wallrecorder import with_largest_buffers

PERIOD = 1.0            # seconds between two refreshes
PATIENCE = 100          # milliseconds to wait for a key
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}

HELP = ("q quit", "s self", "t total", "n name", "l lines", "←→ thread",
        "/ search", "a since start", "space pause")

ORDER = {
    "self": lambda row: (-row.own, -row.total, row.frame[:2],
                         row.frame.line),
    "total": lambda row: (-row.total, -row.own, row.frame[:2],
                          row.frame.line),
    "name": lambda row: (*row.frame[:2], row.frame.line),
}

ESCAPE, ENTER, DELETE, CONTROL_U = 27, (10, 13), (8, 127), 21


class View:
    """What the user has chosen to see, and the lines of the screen for it."""

    def __init__(self, title, frequency):
        self.title = title
        self.frequency = frequency
        self.sort = "self"
        self.thread = None          # (pid, tid), or None for all
        self.search = ""
        self.is_typing = False      # the text to search for
        self.is_whole = False       # all samples, not those of the last second
        self.by_line = False        # a row for each line of a function
        self.is_paused = False
        self.is_over = False
        self.first = 0              # row on the screen
        self.now = self.whole = None        # Samples
        self.threads = []           # (pid, tid) that have run so far

    def type(self, key):
        """Obey a key; return False to leave."""
        if self.is_typing:
            return self._type_text(key)
        actions = {"s": "self", "t": "total", "n": "name"}
        letter = chr(key) if 0 <= key < 256 else ""
        if letter in ("q", "Q"):
            return False
        if letter in actions:
            self.sort = actions[letter]
        elif letter == "/":
            self.is_typing = True
        elif letter == "a":
            self.is_whole = not self.is_whole
        elif letter == "l":
            self.by_line = not self.by_line
        elif letter == " ":
            self.is_paused = not self.is_paused
        elif key == ESCAPE:
            self.search = ""
        else:
            self._move(key)
        return True

    def _type_text(self, key):
        if key in ENTER:
            self.is_typing = False
        elif key == ESCAPE:
            self.is_typing, self.search = False, ""
        elif key in DELETE or key == _curses().KEY_BACKSPACE:
            self.search = self.search[:-1]
        elif key == CONTROL_U:
            self.search = ""
        elif 32 <= key < 127:
            self.search += chr(key)
        self.first = 0
        return True

    def _move(self, key):
        curses = _curses()
        if key in (curses.KEY_LEFT, curses.KEY_RIGHT):
            choices = [None, *self.threads]
            place = (choices.index(self.thread) if self.thread in choices
                     else 0) + (1 if key == curses.KEY_RIGHT else -1)
            self.thread = choices[place % len(choices)]
            self.first = 0
        steps = {curses.KEY_DOWN: 1, curses.KEY_UP: -1,
                 curses.KEY_NPAGE: 10, curses.KEY_PPAGE: -10}
        self.first = max(0, self.first + steps.get(key, 0))
        if key == curses.KEY_HOME:
            self.first = 0

    def lines(self, names, profile, height, width):
        """Return the screen's lines as (text, is reversed)."""
        samples = self.whole if self.is_whole else self.now
        result = [(self._title(samples), False), (self._choice(), False)]
        rows = [row for row in rows_of(samples.counts, names, self.thread,
                                       self.by_line)
                if not self.search or table.matches(self.search, row.frame)]
        rows.sort(key=ORDER[self.sort])
        room = max(0, height - 4)
        self.first = min(self.first, max(0, len(rows) - room))
        shown = rows[self.first:self.first + room]
        name_width = max([len("function"),
                          *(columns.count(table.printable(row.frame.name))
                            for row in shown)])
        name_width = min(name_width, max(12, (width - 19) // 2))
        result.append((f"{'self':>8} {'total':>8}  {'function':{name_width}}"
                       "  file", True))
        whole = self.frequency * samples.seconds / 100
        for row in shown:
            name = table.fit_name(table.printable(row.frame.name), name_width,
                                  width)
            file = table.fit_place(profile, row.frame,
                                   max(width - 22 - name_width, 6))
            result.append((f"{row.own / whole:6.1f} % {row.total / whole:6.1f}"
                           f" %  {name}  {file}", False))
        result += [("", False)] * (height - 1 - len(result))
        return [*result, ("  ".join(HELP), True)][:height]

    def _title(self, samples):
        count = sum(samples.counts.values())
        share = 100 * count / (self.frequency * samples.seconds or 1)
        state = ("ended" if self.is_over else
                 "paused" if self.is_paused else time.strftime("%H:%M:%S"))
        return (f"perfpy top  {state}  {share:.0f} % CPU, "
                f"{table.count_of(len(self.threads), 'thread')}  "
                f"{table.printable(self.title)}")

    def _choice(self):
        words = ["lines" if self.by_line else "functions",
                 f"sorted by {self.sort}",
                 "since the start" if self.is_whole else "of the last second",
                 _thread_name(self.thread)]
        if self.search or self.is_typing:
            words.append(f"search: {self.search}"
                         + ("_" if self.is_typing else ""))
        return ", ".join(words)


class Samples:
    """Counts of samples, and the time in which they came."""

    def __init__(self, counts=(), seconds=0.0):
        self.counts = collections.Counter(counts)
        self.seconds = seconds


def _curses():
    import curses       # not every Python has it
    return curses


def _thread_name(thread):
    if thread is None:
        return "all threads"
    pid, tid = thread
    try:
        with open(f"/proc/{pid}/task/{tid}/comm", errors="replace") as file:
            name = table.printable(file.read().rstrip("\n"))
    except OSError:
        name = "gone"
    return f"thread {tid} ({name})" + (
        f" of process {pid}" if pid != tid else "")


class Top:

    def __init__(self, options, work):
        self.options = options
        perf = Perf.find(options.perf)
        self.perf = perf
        self.frequency = min(highest_frequency(), options.frequency
                             or unwinding.FREQUENCY["copy"])
        self.event = perf.find_event(work)
        self.profile = Profile()    # for classify: where things are

    def start(self, pids, has_labels):
        if not has_labels:
            raise output.OutputError("top needs an interpreter with frame "
                                     "labels, as those of cpython-perf")
        how = unwinding.choose("copy", True)
        self.recorder = with_largest_buffers(lambda size: self.perf.record(
            ",".join(map(str, pids)), "", *how.record_options(
                self.event, ["-F", str(self.frequency)], size),
            reduce=lambda source, _: LiveReducer(source)))
        self.reducer = self.recorder.reducer
        self.names = Names(self.reducer.functions)
        self.since = time.monotonic()

    def stop(self):
        """Stop perf, and remove what processes leave that have ended."""
        self.recorder.stop()
        clean.remove_files_of({image.pid for image in self.reducer.images})

    def show(self, title, is_over):
        """Show until the end; return None, or the exit code of a user's end.
        """
        curses = _curses()
        # A terminal waits for more after Escape; people do not like to.
        os.environ.setdefault("ESCDELAY", "25")
        try:
            screen = curses.initscr()
        except curses.error as error:
            raise output.OutputError(f"this terminal cannot be used: {error}")
        view = View(title, self.frequency)
        view.now, view.whole = Samples(), Samples()
        try:
            curses.noecho()
            curses.cbreak()
            screen.keypad(True)
            screen.timeout(PATIENCE)
            with contextlib.suppress(curses.error):
                curses.curs_set(0)
            return self._loop(screen, view, is_over)
        finally:
            screen.keypad(False)
            curses.nocbreak()
            curses.echo()
            with contextlib.suppress(curses.error):
                curses.curs_set(1)
            curses.endwin()

    def _loop(self, screen, view, is_over):
        due = time.monotonic()
        is_changed = True
        while True:
            for number in signal.sigpending() & ENDS:
                return 128 + number
            if time.monotonic() >= due:
                due = time.monotonic() + PERIOD
                self._refresh(view)
                is_changed = True
            if is_changed:
                self._draw(screen, view)
            key = screen.getch()
            is_changed = key != -1
            if is_changed and not view.type(key):
                return 0
            if not view.is_over and is_over():
                view.is_over = view.is_whole = is_changed = True
                if self.options.command:
                    return None

    def _refresh(self, view):
        self.recorder.ping()
        counts = self.reducer.take()
        now = time.monotonic()
        passed, self.since = now - self.since, now
        view.whole.counts.update(counts)
        if not view.is_over:
            view.whole.seconds += passed
        view.threads = sorted({key[:2] for key in view.whole.counts})
        if not view.is_paused:
            view.now = Samples(counts, passed)
            self.names.refresh()

    def _draw(self, screen, view):
        height, width = screen.getmaxyx()
        curses = _curses()
        screen.erase()
        for place, (text, is_reversed) in enumerate(view.lines(
                self.names, self.profile, height, width)):
            text = columns.start(text, width - 1)
            if is_reversed:
                text = columns.pad(text, width - 1)
            with contextlib.suppress(curses.error):     # a smaller window
                screen.addstr(place, 0, text,
                              curses.A_REVERSE if is_reversed else 0)
        screen.refresh()


@contextlib.contextmanager
def _blocked_signals():
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        while signal.sigtimedwait(ENDS, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _output_to(file):
    """Let a child have no terminal, but a file to write to."""
    saved = [os.dup(number) for number in range(3)]
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.devnull) as nothing:
        for number, target in enumerate((nothing, file, file)):
            os.dup2(target.fileno(), number)
    try:
        yield
    finally:
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)


def top_attached(top, pid):
    with contextlib.ExitStack() as stack:
        if not top.options.no_activate:
            stack.enter_context(activate.activated([pid], print))
        return _top_attached(top, pid)


def _top_attached(top, pid):
    target = attach.find_all([pid])[0]
    with _blocked_signals():
        top.start(family.with_children([pid]), attach.has_labels(target))
        try:
            return top.show(
                f"process {pid}: {family.command_line(pid)}",
                lambda: top.recorder.process.poll() is not None)
        finally:
            top.stop()


def top_command(top, options):
    """Show a script while it runs.

    Return the exit code, or None if the script has ended by itself, and its
    status.
    """
    program, interpreter = run.understand(options)
    top.profile.meta["stdlib"] = interpreter.stdlib
    top.profile.meta["directory"] = os.getcwd()
    how = unwinding.choose("copy", interpreter.has_labels)
    arguments, environment = run.command_line(options, interpreter, how,
                                              program)
    with tempfile.TemporaryFile() as file:
        with _output_to(file):
            command = Command(arguments, environment,
                              program or interpreter.program)
        try:
            top.start([command.pid], interpreter.has_labels)
        except BaseException:
            command.cancel()
            raise
        command.release()
        try:
            with _blocked_signals():
                code = top.show(" ".join(options.command), lambda: os.waitid(
                    os.P_PID, command.pid,
                    os.WEXITED | os.WNOHANG | os.WNOWAIT))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(command.pid, signal.SIGTERM)
            status = command.wait()
            top.stop()
            _copy(file)
    return code, status


def _copy(file):
    """Show what the script has written."""
    file.seek(0)
    while data := file.read(1 << 16):
        sys.stdout.buffer.write(data)
    sys.stdout.flush()


def main(options):
    try:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise output.OutputError("top needs a terminal; perfpy run "
                                     "--attach PID records without one")
        try:
            _curses()
        except ImportError:
            raise output.OutputError("top needs the module curses, which this "
                                     "Python was built without") from None
        with collect.work_directory() as work:
            top = Top(options, work)
            if options.attach:
                return top_attached(top, options.attach[0])
            code, status = top_command(top, options)
        if code is None:
            exit_like(status)       # does not return
        return code
    except (PerfError, InterpreterError, attach.AttachError,
            output.OutputError, OSError) as error:
        print(f"perfpy: {error}", file=sys.stderr)
        return run.CANNOT_RECORD
