"""perfpy report: show a recording again, or write it in another format.

Called by cli.py.
"""

import sys

from perfpy import output, recording, table, tasks
from perfpy.cli import choice_of


def main(options):
    try:
        name = path = None
        if options.format or options.output:
            name = output.choose_format(options.format, options.output)
            path = options.output or output.default_path(name,
                                                         options.recording)
            output.check_writable(path)
        profile = recording.load(options.recording)
        if name:
            return write_as(profile, name, path, options.interpreter,
                            not options.no_source)
    except (recording.RecordingError, output.OutputError) as error:
        print(f"perfpy: {error}", file=sys.stderr)
        return 1
    for what in "command", "started":
        if what in profile.meta:
            print(f"{what}: {table.printable(profile.meta[what])}")
    print(table.summary(profile))
    if not options.lines:
        profile = profile.functions()
    elif not any(frame.line for frame in profile.frames):
        print("perfpy: the recording has no lines: it was made with "
              "--no-lines, or of an interpreter that tells none",
              file=sys.stderr)
    if options.tree:
        table.write_tree(profile if options.interpreter
                         else profile.folded(), sys.stdout)
    else:
        table.write_functions(profile, sys.stdout, choice_of(options))
        table.write_threads(profile, sys.stdout)
        if not options.only:
            tasks.write(profile, sys.stdout)
    return 0


def write_as(profile, name, path, interpreter, source):
    """Write the profile in the format called name; return an exit code."""
    output.write(profile, name, path, interpreter, source)
    if path != output.STANDARD_OUTPUT:
        for line in output.how_to_view(name, path):
            print(f"perfpy: {line}", file=sys.stderr)
    return 0
