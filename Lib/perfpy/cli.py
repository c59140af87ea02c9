"""The command line of perfpy.

Called by __main__.py and by the script that is installed beside the
interpreter.  Each subcommand is a module with main(options), imported when it
is asked for.
"""

import argparse
import importlib
import os
import signal
import sys

from perfpy import output
from perfpy.formats import FORMATS

RUN_USAGE = """\
%(prog)s [options] SCRIPT [ARGUMENT ...]
       %(prog)s [options] -m MODULE [ARGUMENT ...]
       %(prog)s [options] -c CODE [ARGUMENT ...]
       %(prog)s [options] --attach PID"""


def _positive(convert):
    def parse(text):
        number = convert(text)
        if not 0 < number < 10**9:
            raise ValueError(text)
        return number
    parse.__name__ = f"positive {convert.__name__}"     # for argparse's error
    return parse


def _one_event(text):
    # The weights of several would be added up.
    if "," in text:
        raise argparse.ArgumentTypeError("one event, please")
    return text


def _add_run(subcommands):
    parser = subcommands.add_parser(
        "run", help="record a script and show where its time goes",
        description="Record a script with perf, write a picture of where its "
        "time goes, and print its hottest Python functions. Exit code, "
        "streams and signals are those of the script.",
        usage=RUN_USAGE, allow_abbrev=False)
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to FILE (default: profile.html, or what "
                        "fits the format). The recording is put beside it, "
                        "with the ending .perfpy; if FILE ends so, it is all "
                        "that is written")
    parser.add_argument("--format", choices=[*FORMATS, "perf.data"],
                        help="default: what the name of FILE ends with, "
                        "or html")
    parser.add_argument("-F", "--frequency", type=_positive(int), metavar="N",
                        help="samples a second (default: 499; 999 with "
                        "--unwind fp, 199 with --unwind dwarf)")
    parser.add_argument("--unwind", choices=["copy", "fp", "dwarf"],
                        help="find callers in copies of the stack, by frame "
                        "pointers, or by unwind information (default: copy, "
                        "or what fits the interpreter)")
    parser.add_argument("--event", type=_one_event,
                        help="perf's event to sample (default: cycles, or "
                        "cpu-clock where there is no counter)")
    parser.add_argument("--top", type=_positive(int), metavar="N", default=15,
                        help="print N functions (default: %(default)s)")
    parser.add_argument("-q", "--quiet", action="store_true",
                        help="print nothing but errors")
    parser.add_argument("--python", metavar="PROGRAM",
                        help="the interpreter (default: the one that runs "
                        "perfpy)")
    parser.add_argument("--perf", metavar="PROGRAM",
                        help="perf (default: $PERF, or perf)")
    parser.add_argument("--attach", type=_positive(int), metavar="PID",
                        help="record this running process instead of a script")
    parser.add_argument("--duration", type=_positive(float), metavar="SECONDS",
                        default=10.0, help="with --attach: for so long "
                        "(default: %(default)g), or until Ctrl-C")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", dest="module", action="store_true",
                      help="run a module, as python -m does")
    what.add_argument("-c", dest="code", action="store_true",
                      help="run code, as python -c does")
    # Whatever follows the first word that is no option belongs to the script.
    parser.add_argument("command", nargs=argparse.REMAINDER,
                        help=argparse.SUPPRESS)


def _add_report(subcommands):
    parser = subcommands.add_parser(
        "report", help="show a recording again, or in another format",
        description="Print the hottest Python functions of a recording, or "
        "write it in another format.", allow_abbrev=False)
    parser.add_argument("recording", nargs="?", default="profile.perfpy",
                        help="default: %(default)s")
    parser.add_argument("--format", choices=list(FORMATS))
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="- is standard output")
    parser.add_argument("--tree", action="store_true",
                        help="print who calls whom")
    parser.add_argument("--interpreter", action="store_true",
                        help="with --tree: show the interpreter's own "
                        "functions, too")
    parser.add_argument("--top", type=_positive(int), metavar="N", default=15,
                        help="print N functions (default: %(default)s)")


def _add_diff(subcommands):
    parser = subcommands.add_parser(
        "diff", help="compare two recordings",
        description="Print the functions whose share of the time changed "
        "most.", allow_abbrev=False)
    parser.add_argument("before", help="a recording")
    parser.add_argument("after", help="another one")
    parser.add_argument("--top", type=_positive(int), metavar="N", default=15,
                        help="print N functions (default: %(default)s)")


def _add_doctor(subcommands):
    parser = subcommands.add_parser(
        "doctor", help="say what stands in the way, and what to do",
        description="Say what on this machine stands in the way of profiles, "
        "and what to do about it. Exit with 0 if a profile is possible.",
        allow_abbrev=False)
    parser.add_argument("--python", metavar="PROGRAM",
                        help="the interpreter (default: the one that runs "
                        "perfpy)")
    parser.add_argument("--perf", metavar="PROGRAM",
                        help="perf (default: $PERF, or perf)")


def _add_clean(subcommands):
    parser = subcommands.add_parser(
        "clean", help="remove what profiled processes left in /tmp",
        description="List the files that processes which are gone, of this "
        "user, left for profilers, and remove them.", allow_abbrev=False)
    parser.add_argument("-y", "--yes", action="store_true",
                        help="do not ask")
    parser.add_argument("-n", "--dry-run", action="store_true",
                        help="remove nothing")


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        prog=output.program_name(), allow_abbrev=False,
        description="Show where the time of a Python program goes, by Linux "
        "perf.")
    subcommands = parser.add_subparsers(dest="subcommand", required=True,
                                        metavar="COMMAND")
    for add in _add_run, _add_report, _add_diff, _add_doctor, _add_clean:
        add(subcommands)
    options = parser.parse_args(arguments)
    if options.subcommand == "run":
        if options.command[:1] == ["--"]:
            del options.command[0]
        if bool(options.attach) == bool(options.command):
            subcommands.choices["run"].error(
                "give either something to run or --attach PID")
    return options


def main(arguments=None):
    # Names come from anywhere, and not every terminal knows all characters.
    sys.stdout.reconfigure(errors="backslashreplace")
    options = parse(arguments)
    module = importlib.import_module(f"perfpy.{options.subcommand}")
    try:
        status = module.main(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:     # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
