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

from perfpy import output, table
from perfpy.formats import FORMATS
from perfpy.launch import exit_like, handle_ends

RUN_USAGE = """\
%(prog)s [options] SCRIPT [ARGUMENT ...]
       %(prog)s [options] -m MODULE [ARGUMENT ...]
       %(prog)s [options] -c CODE [ARGUMENT ...]
       %(prog)s [options] -- [PYTHON OPTION ...] SCRIPT [ARGUMENT ...]
       %(prog)s [options] --attach PID[,PID ...]"""

ATTACH_SECONDS = 10.0


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


def _share(text):
    number = float(text.removesuffix("%")) / (100 if "%" in text else 1)
    if not 0 <= number < 1000:
        raise ValueError(text)
    return number


_share.__name__ = "share, such as 5%,"


def _pids(text):
    return [_positive(int)(word) for word in text.split(",")]


_pids.__name__ = "number of a process"


class _Version(argparse.Action):
    """Print what this is, and what it would use."""

    def __call__(self, parser, *_):
        print(f"perfpy of {output.build_name()}")
        parser.exit()


def _add_table_options(parser):
    """Add what chooses the functions of the table; see choice_of()."""
    group = parser.add_argument_group("which functions are listed")
    group.add_argument("--top", type=_positive(int), metavar="N",
                       help="list N functions (default: 15)")
    group.add_argument("--sort", choices=table.SORTS, default="self",
                       help="the order (default: %(default)s)")
    group.add_argument("--only", metavar="mine|PATTERN", default="",
                       help="only the program's own, or those with PATTERN in "
                       "their name or file. What others do for them counts "
                       "as their own time")
    group.add_argument("--native", action="store_true",
                       help="also those of libraries and of the kernel")
    group.add_argument("--imports", action="store_true",
                       help="also those that run when the program starts and "
                       "imports modules, which are one line otherwise")
    group.add_argument("--lines", action="store_true",
                       help="each line of a function for itself")


def choice_of(options):
    """Return the table.Choice that the options make."""
    return table.Choice(options.sort, options.native, options.only,
                        options.imports, options.top or table.Choice().top,
                        options.lines)


def _add_perf(parser):
    parser.add_argument("--perf", metavar="PROGRAM",
                        help="perf (default: $PERF, or perf)")


def _add_no_activate(parser):
    parser.add_argument("--no-activate", action="store_true",
                        help="leave a process alone that does not name its "
                        "functions, instead of switching that on meanwhile, "
                        "which takes a cpython-perf or Python 3.14")


def _add_no_source(parser):
    parser.add_argument("--no-source", action="store_true",
                        help="leave the text of functions out of the page")


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
    parser.add_argument("--no-lines", action="store_true",
                        help="record functions, and not which line they are "
                        "executing, which costs the program a few percent")
    parser.add_argument("--count", type=_positive(int), metavar="N",
                        help="with --event: take every Nth (default: each, "
                        "of an event that perf can count so)")
    parser.add_argument("--wall", action="store_true",
                        help="record wall-clock time: also what threads wait "
                        "for, and where")
    _add_no_source(parser)
    parser.add_argument("-q", "--quiet", action="store_true",
                        help="print nothing but errors")
    parser.add_argument("--python", metavar="PROGRAM",
                        help="the interpreter (default: that of the virtual "
                        "environment that is active, or the one that runs "
                        "perfpy)")
    _add_perf(parser)
    parser.add_argument("--attach", type=_pids, metavar="PID", default=[],
                        action="extend",
                        help="record running processes, and their children, "
                        "instead of a script")
    _add_no_activate(parser)
    parser.add_argument("--duration", type=_positive(float), metavar="SECONDS",
                        help="with --attach: for so long "
                        f"(default: {ATTACH_SECONDS:g}), or until Ctrl-C")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", dest="module", action="store_true",
                      help="run a module, as python -m does")
    what.add_argument("-c", dest="code", action="store_true",
                      help="run code, as python -c does")
    _add_table_options(parser)
    # Whatever follows the first word that is no option belongs to the script.
    parser.add_argument("command", nargs=argparse.REMAINDER,
                        help=argparse.SUPPRESS)


def _add_top(subcommands):
    parser = subcommands.add_parser(
        "top", help="show what a program is doing right now",
        description="Show, once a second, in which functions a running "
        "process or a script is. q leaves, and ends the script.",
        usage="%(prog)s [options] PID\n"
        "       %(prog)s [options] SCRIPT [ARGUMENT ...]\n"
        "       %(prog)s [options] -m MODULE [ARGUMENT ...]",
        allow_abbrev=False)
    parser.add_argument("-F", "--frequency", type=_positive(int), metavar="N",
                        help="samples a second (default: 499)")
    parser.add_argument("--python", metavar="PROGRAM",
                        help="the interpreter of a script")
    _add_perf(parser)
    _add_no_activate(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-m", dest="module", action="store_true",
                      help="run a module, as python -m does")
    what.add_argument("-c", dest="code", action="store_true",
                      help="run code, as python -c does")
    parser.add_argument("command", nargs=argparse.REMAINDER,
                        help=argparse.SUPPRESS)


def _add_report(subcommands):
    parser = subcommands.add_parser(
        "report", help="show a recording again, or in another format",
        description="Print the hottest Python functions of a recording, or "
        "write it in another format.", allow_abbrev=False)
    parser.add_argument("recording", nargs="?", default="profile.perfpy",
                        help="default: %(default)s")
    parser.add_argument("--format", choices=list(FORMATS),
                        help="default: what the name of FILE ends with")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to FILE (default: named like the "
                        "recording); - is standard output")
    parser.add_argument("--tree", action="store_true",
                        help="print who calls whom")
    _add_no_source(parser)
    parser.add_argument("--interpreter", action="store_true",
                        help="with --tree or a format: show the "
                        "interpreter's own functions, too")
    _add_table_options(parser)


def _add_diff(subcommands):
    parser = subcommands.add_parser(
        "diff", help="compare two recordings",
        description="Print the functions whose time changed most surely, with "
        "an estimate of the error.", allow_abbrev=False)
    parser.add_argument("before", help="a recording")
    parser.add_argument("after", help="another one")
    parser.add_argument("-o", "--output", metavar="FILE.html",
                        help="write a page, too, with a flame graph of the "
                        "changes, and lines")
    _add_no_source(parser)
    parser.add_argument("--top", type=_positive(int), metavar="N", default=15,
                        help="print N functions (default: %(default)s)")
    parser.add_argument("--only", metavar="mine|PATTERN", default="",
                        help="only the program's own functions, or those with "
                        "PATTERN in their name or file")
    parser.add_argument("--fail-above", type=_share, metavar="SHARE",
                        help="exit with 3 if the program, or a function with "
                        "what it calls, surely takes longer than before by "
                        "more than this share of the program's time, such as "
                        "5%%")


def _add_doctor(subcommands):
    parser = subcommands.add_parser(
        "doctor", help="say what stands in the way, and what to do",
        description="Say what on this machine stands in the way of profiles, "
        "and what to do about it. Exit with 0 if a profile is possible.",
        allow_abbrev=False)
    parser.add_argument("--python", metavar="PROGRAM",
                        help="the interpreter (default: the one that runs "
                        "perfpy)")
    _add_perf(parser)


def _add_clean(subcommands):
    parser = subcommands.add_parser(
        "clean", help="remove what profiled processes left in /tmp",
        description="List the files that processes which are gone, of this "
        "user, left for profilers, and remove them.", allow_abbrev=False)
    parser.add_argument("-y", "--yes", action="store_true",
                        help="do not ask")
    parser.add_argument("-n", "--dry-run", action="store_true",
                        help="remove nothing")


def _check_run(options, error):
    """Complain about what does not go together."""
    options.python_options = []
    if options.command[:1] == ["--"]:
        del options.command[0]
        if not (options.module or options.code):
            take_python_options(options, error)
    if bool(options.attach) == bool(options.command):
        error("give either something to run or --attach PID")
    if options.count:
        if not options.event:
            error("--count goes with --event")
        if options.frequency:
            error("give either --count or --frequency")
    if options.wall:
        for name, value in [
                ("--event", options.event),
                ("--unwind " + str(options.unwind),
                 options.unwind not in (None, "copy")),
                ("--format perf.data", options.format == "perf.data")]:
            if value:
                error(f"{name} does not go with --wall")
    if options.attach:
        for name, value in [("-m", options.module), ("-c", options.code),
                            ("--python", options.python)]:
            if value:
                error(f"{name} does not go with --attach")
    elif options.duration is not None:
        error("--duration goes with --attach only; a script is recorded "
              "until it ends")
    if options.duration is None:
        options.duration = ATTACH_SECONDS


def take_python_options(options, error):
    """Take the interpreter's options from the beginning of the command."""
    words = options.command
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        if word in ("-m", "-c"):
            options.module, options.code = word == "-m", word == "-c"
            break
        options.python_options.append(word)
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            if not words:
                error(f"{word} needs an argument")
            options.python_options.append(words.pop(0))


def _check_report(options, error):
    if options.tree and (options.format or options.output):
        error("--tree is for the terminal; it does not go with a format")
    if options.interpreter and not (options.tree or options.format
                                    or options.output):
        error("--interpreter goes with --tree or a format")
    if options.tree or options.format or options.output:
        for name in "top", "only", "native", "imports":
            if getattr(options, name):
                error(f"--{name} is for the table of functions")
        if options.lines and not options.tree:
            error("--lines is for the terminal; formats that have a place "
                  "for lines tell them anyway")
        if options.sort != table.SORTS[0]:
            error("--sort is for the table of functions")


def _check_top(options, error):
    options.python_options, options.attach = [], []
    options.no_lines = False
    if options.command[:1] == ["--"]:
        del options.command[0]
        if not (options.module or options.code):
            take_python_options(options, error)
    if not options.command:
        error("give the number of a process, or a script")
    word = options.command[0]
    if (word.isdecimal() and not (options.module or options.code)
            and not os.path.exists(word)):
        if len(options.command) > 1:
            error("give one process")
        options.attach = [int(options.command.pop())]


_CHECKS = {"run": _check_run, "top": _check_top, "report": _check_report}


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        prog=output.program_name(), allow_abbrev=False,
        description="Show where the time of a Python program goes, by Linux "
        "perf.")
    parser.add_argument("--version", action=_Version, nargs=0,
                        help="print what this is, and exit")
    subcommands = parser.add_subparsers(dest="subcommand", required=True,
                                        metavar="COMMAND")
    for add in (_add_run, _add_top, _add_report, _add_diff, _add_doctor,
                _add_clean):
        add(subcommands)
    options = parser.parse_args(arguments)
    if check := _CHECKS.get(options.subcommand):
        check(options, subcommands.choices[options.subcommand].error)
    return options


class _Ended(BaseException):
    """A signal came that ends programs."""


def _end(number, frame):
    """Raise for the first signal, so that others do not stop the cleaning up.
    """
    handle_ends(lambda number, frame: None)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise _Ended(number)


def _open_closed_streams():
    """Let who is started without streams have some that lead nowhere.

    Else other files would be opened in their place.  A script that is run is
    without them as before.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # This takes the lowest number.
            setattr(sys, name, open(os.devnull, "w" if number else "r"))


def main(arguments=None):
    _open_closed_streams()
    # Names come from anywhere, and not every terminal knows all characters.
    sys.stdout.reconfigure(errors="backslashreplace")
    options = parse(arguments)
    module = importlib.import_module(f"perfpy.{options.subcommand}")
    try:
        handle_ends(_end)
        status = module.main(options)
        sys.stdout.flush()
        return status
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader has enough
            place = f": {error.filename}" if error.filename else ""
            print(f"perfpy: {error.strerror or error}{place}",
                  file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:         # what is still to be written cannot be
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except _Ended as end:
        exit_like(*end.args)        # does not return
