"""perfpy report: show a recording again, or write it in another format.

Called by cli.py.
"""

import sys

from perfpy import output, recording, table


def main(options):
    try:
        profile = recording.load(options.recording)
        if options.format or options.output:
            name = output.choose_format(options.format, options.output)
            path = options.output or output.default_path(name)
            output.check_writable(path)
            output.write(profile, name, path)
            if path != output.STANDARD_OUTPUT:
                for line in output.how_to_view(name, path):
                    print(f"perfpy: {line}", file=sys.stderr)
            return 0
    except (recording.RecordingError, output.OutputError) as error:
        print(f"perfpy: {error}", file=sys.stderr)
        return 1
    for name in "command", "started":
        if name in profile.meta:
            print(f"{name}: {table.printable(profile.meta[name])}")
    print(table.summary(profile))
    if not options.interpreter:
        profile = profile.folded()
    if options.tree:
        table.write_tree(profile, sys.stdout)
    else:
        table.write_functions(profile, sys.stdout, options.top)
    return 0
