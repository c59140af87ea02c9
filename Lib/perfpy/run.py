"""perfpy run: record a script, or a running process, and show where time went.

Called by cli.py.
"""

import contextlib
import datetime
import os
import shlex
import shutil
import sys
import time

from perfpy import (activate, attach, classify, clean, collect, family,
                    nothing, output, permissions, recording, table, tasks,
                    units, unwinding, which)
from perfpy.advice import advice
from perfpy.cli import choice_of, take_python_options
from perfpy.interpreter import InterpreterError
from perfpy.launch import Command, exit_like
from perfpy.perf import Perf, PerfError, highest_frequency
from perfpy.reduce import Reducer
from perfpy.wallrecorder import WallRecorder, with_largest_buffers

RAW = "perf.data"           # the format that is not made from a Profile

NAMES = "/tmp"              # where perf looks for the names of functions

# What ends perfpy before the script begins, as env and timeout have it.
CANNOT_RECORD = 125
CANNOT_SHOW = 1

NO_WALL = (
    "--wall needs the stacks of threads that stop to run, and the kernel "
    "keeps them from you: sudo sysctl kernel.perf_event_paranoid=1, or run "
    "perfpy as root or with CAP_PERFMON. Without --wall, it records CPU time, "
    "and says whether the program was mostly waiting")

ERRORS = (PerfError, InterpreterError, attach.AttachError, output.OutputError,
          OSError)


class Session:
    """One recording, from the choice of how to make it to its files."""

    def __init__(self, options):
        self.options = options
        self.perf = Perf.find(options.perf)
        self.progress = output.Progress(options.quiet)
        self.choose_files(options)
        for path in self.path, self.recording:
            output.check_writable(path)
        self.has_jitdump = False
        self.when_stopped = None        # a function to call then
        self.meta = {"perf": self.perf.version_text}

    def choose_files(self, options):
        """Choose the format, and the names of what is written."""
        if not options.format and (options.output or "").endswith(
                recording.SUFFIX):
            self.format = None      # the recording alone
            self.path = self.recording = options.output
            return
        self.format = output.choose_format(options.format, options.output)
        if self.format == RAW and options.unwind == "copy":
            raise output.OutputError(f"{RAW} cannot have stacks by copies: "
                                     "use --unwind fp, or another format")
        self.path = options.output or (
            RAW if self.format == RAW else output.default_path(self.format))
        self.recording = output.recording_path(self.path, self.format)

    def say(self, text):
        if not self.options.quiet:
            self.progress.clear()
            print(f"perfpy: {text}", file=sys.stderr, flush=True)

    def prepare(self, has_labels):
        """Choose how to record, once the work directory is there."""
        # perf itself reads what is kept of its data.
        forced = self.options.unwind or ("fp" if self.format == RAW else None)
        if self.options.wall:
            if not permissions.may_record_kernel():
                raise output.OutputError(NO_WALL)
            if not has_labels:
                forced = "copy"
        self.how = unwinding.choose(forced, has_labels)
        self.frequency = min(highest_frequency(), self.options.frequency
                             or unwinding.FREQUENCY[self.how.method])
        self.event = self.options.event or self.perf.find_event(self.work)
        self.data = os.path.join(self.work, RAW)
        self.choose_rate()
        self.say(f"recording {self.rate_text}; stacks by {self.how.reason}")

    def choose_rate(self):
        """Choose between so many samples a second, and every so many events.
        """
        count = self.options.count
        if count is None and not self.options.frequency and units.is_counted(
                self.event):
            count = 1
        if count is None:
            self.rate = ["-F", str(self.frequency)]
            self.rate_text = f"{self.frequency} samples a second"
            self.meta["frequency"] = str(self.frequency)
        else:
            self.rate = ["-c", str(count)]
            self.rate_text = (f"each {self.event}" if count == 1 else
                              f"one in {count} {self.event}")
            self.meta["period"] = str(count)

    def record(self, pid, *options):
        recorder = self.start(pid, *options)
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self.clock = time.monotonic()
        return recorder

    def start(self, pid, *options):
        """Start perf with the largest buffers that it may have."""
        if self.how.method != "copy":
            return self.perf.record(pid, self.data, *self.how.record_options(
                self.event, self.rate), *options)
        if self.options.wall:
            return WallRecorder(self.perf, pid, self.data, self.how,
                                self.event, self.rate,
                                bool(self.options.attach))
        in_bursts = "period" in self.meta
        return with_largest_buffers(
            lambda size: self.perf.record(
                pid, self.data, *self.how.record_options(
                    self.event, self.rate, size, in_bursts), *options,
                reduce=Reducer),
            unwinding.LARGEST_BUFFERS if in_bursts
            else unwinding.LARGEST_BUFFER)

    def finish(self, recorder, interpreters):
        """Stop perf, read what it recorded, and write it for the user."""
        self.meta.update({
            "started": self.started.isoformat(timespec="seconds"),
            "duration": f"{time.monotonic() - self.clock:.3f}",
            "unwinding": self.how.method,
        })
        self.progress("finishing the recording")
        try:
            recorder.stop()
        except PerfError as error:
            self.progress.clear()
            print(f"perfpy: {error}", file=sys.stderr)
            # What there is can be shown.
        if self.when_stopped:
            self.when_stopped()
        data = self.data
        if self.has_jitdump:
            self.progress("merging the names of functions")
            data += ".jit"
            self.perf.inject(self.data, data)
        self.progress("reading samples")
        profile, processes = collect.collect(
            self.perf, data, frequency=self.frequency,
            interpreters=interpreters, progress=self.progress.samples,
            reduced=recorder.reducer)
        if self.options.wall:
            self.progress("reading what threads waited for")
            recorder.add_waits(profile, interpreters)
        profile.meta.update(self.meta)
        self.explain_nothing(profile)
        self.progress(f"writing {self.path}")
        recording.save(profile, self.recording)
        if self.format == RAW:
            shutil.move(data, self.path)
        else:
            if self.format:
                output.write(profile, self.format, self.path,
                             source=not self.options.no_source)
            clean.remove_files_of(processes)
        self.progress.clear()
        self.show(profile)

    def explain_nothing(self, profile):
        """Raise OutputError if there is nothing to show."""
        if not any(thread.times for thread in profile.threads):
            raise output.OutputError(nothing.reason(
                self.event, time.monotonic() - self.clock,
                self.cpu_seconds() if self.options.attach else None))

    def cpu_seconds(self):
        """Return how long the attached processes have run meanwhile."""
        return family.cpu_seconds(self.pids) - self.cpu_before

    def show(self, profile):
        if self.options.quiet:
            return
        file = sys.stdout if self.options.attach else sys.stderr
        print(f"\nperfpy: {table.summary(profile)}", file=file)
        table.write_functions(profile, file, choice_of(self.options))
        table.write_threads(profile, file)
        if not self.options.only:
            tasks.write(profile, file)
        if not self.options.only and table.is_elsewhere(profile):
            print("perfpy: Which of the program's own functions take the "
                  f"time: {output.program_name()} report --only mine "
                  f"{shlex.quote(self.recording)}", file=file)
        for line in advice(profile.functions()):
            print(f"perfpy: {line}", file=file)
        if self.format:
            for line in output.how_to_view(self.format, self.path):
                print(f"perfpy: {line}", file=file)
        print(f"perfpy: For {'another' if self.format else 'a'} format: "
              f"{output.program_name()} report --format NAME "
              f"{shlex.quote(self.recording)}", file=file, flush=True)


def command_line(options, interpreter, how, program):
    """Return the arguments to run, and the environment."""
    arguments, environment = [interpreter.command], dict(os.environ)
    if interpreter.has_trampoline:
        has_lines = interpreter.has_labels and not options.no_lines
        arguments += ["-X", how.backend + "=lines" * has_lines]
        # For interpreters that the script starts in turn.
        environment["PYTHON_PERF_JIT_SUPPORT" if how.method == "dwarf"
                    else "PYTHONPERFSUPPORT"] = "lines" if has_lines else "1"
    if program:
        return options.command, environment
    arguments += [*interpreter.options, *options.python_options]
    if options.module:
        arguments.append("-m")
    elif options.code:
        arguments.append("-c")
    return arguments + options.command, environment


def understand(options):
    """Return the program to run, or None, and the Interpreter.

    If there is no such program, the interpreter runs what the options say.
    """
    name = program = None
    if not (options.module or options.code or options.command[0] == "-"):
        path, environment = which.command(options.command[0])
        if not os.path.exists(path):
            raise output.OutputError(f"there is no script {path}")
        if environment:
            name = which.interpreter_of(environment)
        if not which.is_program(path):
            options.command[0] = path
        elif which.is_interpreter(path):
            name = path
            del options.command[0]
            take_python_options(options, _complain)
            if not options.command:
                raise output.OutputError(f"what shall {path} run?")
        else:
            program = path
    return program, which.interpreter(options.python, name)


def _complain(text):
    raise output.OutputError(text)


def run_command(session, options):
    """Record a command; return its status and whether all went well."""
    program, interpreter = understand(options)
    if interpreter.has_trampoline and not os.access(NAMES, os.W_OK):
        raise output.OutputError(f"{NAMES} is not writable; the interpreter "
                                 "writes the names of functions there")
    if program:
        session.say(f"running {program}; each {interpreter.file} that it "
                    "starts tells its functions")
    elif interpreter.program != interpreter.command:
        session.say(f"running {interpreter.file} as {interpreter.command}")
    session.meta["python"] = interpreter.version
    session.meta["stdlib"] = interpreter.stdlib
    session.meta["directory"] = os.getcwd()
    if packages := classify.places_of_packages(
            os.environ.get("PYTHONPATH", "")):
        session.meta["packages"] = packages
    session.prepare(interpreter.has_labels)
    if not interpreter.has_trampoline:
        session.say(f"{interpreter.command} has no -X perf, so there are C "
                    "functions only; --python names another interpreter")
    arguments, environment = command_line(options, interpreter, session.how,
                                          program)
    session.meta["command"] = shlex.join(arguments)
    record_options = []
    with contextlib.ExitStack() as stack:
        if session.how.method == "dwarf":
            # Until its exec, the command has perfpy's own libraries.  perf
            # 6.12 would look for unwind information where those were.
            record_options = ["--synth=task"]
            session.has_jitdump = True
            environment["JITDUMPDIR"] = stack.enter_context(
                collect.jitdump_directory(keep=session.format == RAW))
        command = Command(arguments, environment,
                          program or interpreter.program)
        try:
            recorder = session.record(command.pid, *record_options)
        except BaseException:
            command.cancel()
            raise
        command.release()
        status = command.wait()
        session.meta["queued"] = f"{command.queued:.3f}"
        return status, show_safely(session, recorder, [interpreter.file])


def run_attached(session, options):
    """Record a running process; return whether all went well."""
    with contextlib.ExitStack() as stack:
        if not options.no_activate:
            session.when_stopped = stack.enter_context(activate.activated(
                options.attach, session.say, not options.no_lines,
                session.format == RAW))
        return record_attached(session, options)


def record_attached(session, options):
    """The same, of one that names its functions."""
    targets = attach.find_all(options.attach)
    session.prepare(attach.has_labels(targets[0]))
    session.meta["command"] = ", ".join(
        f"process {pid}: {family.command_line(pid)}" for pid in options.attach)
    session.meta["python"] = targets[0].program
    session.pids = family.with_children(options.attach)
    with contextlib.ExitStack() as stack:
        for target in targets:
            if target.jitdump and session.how.method != "copy":
                session.has_jitdump = True
                stack.enter_context(attach.InjectedFiles(target))
        try:
            recorder = session.record(",".join(map(str, session.pids)))
        except PerfError:
            attach.find_all(options.attach)     # one may have ended
            raise
        session.cpu_before = family.cpu_seconds(session.pids)
        queued = family.queued_seconds(session.pids[0])
        session.progress(f"recording for {options.duration:g} s, "
                         "Ctrl-C ends it")
        attach.wait(recorder, options.duration)
        if len(session.pids) == 1:
            queued = family.queued_seconds(session.pids[0]) - queued
            session.meta["queued"] = f"{max(queued, 0):.3f}"
        return show_safely(session, recorder,
                           {target.program for target in targets})


def show_safely(session, recorder, interpreters):
    """Finish; return False, with a message, if it fails."""
    try:
        session.finish(recorder, interpreters)
    except KeyboardInterrupt:
        session.progress.clear()
        print("\nperfpy: interrupted; the recording is not complete",
              file=sys.stderr)
    except ERRORS as error:
        session.progress.clear()
        print(f"perfpy: {error}", file=sys.stderr)
    else:
        return True
    return False


def main(options):
    """Do what the options say, and exit as the script does."""
    status, well = 0, False
    try:
        session = Session(options)
        with collect.work_directory() as session.work:
            if options.attach:
                well = run_attached(session, options)
            else:
                status, well = run_command(session, options)
    except ERRORS as error:
        print(f"perfpy: {error}", file=sys.stderr)
        return CANNOT_RECORD
    if status or well:
        exit_like(status)
    return CANNOT_SHOW
