"""From a Python script to a picture of where its time went, by Linux perf.

The command is ``python -m perfpy``; see Doc/howto/perfpy.rst.  Only ``run``
needs an interpreter that names its functions for profilers; everything else
works under any Python 3.11 or newer.

    cli                 the command line
    run                 record and show, with
        which             the interpreter and the script that are meant
        interpreter       what the interpreter can do
        perf              what perf can do, and how to call it
        unwinding         the choice that follows
        launch, attach    what is recorded: a command, or running processes
            family          those processes' children
        reduce            takes from perf's stream what is needed, with
            perfstream      its format
            places          processes, and where in them evaluators run
            returnpoints    the same, in a file
            stackcopy       Python functions in a copy of a C stack
        collect           from perf's file to a profile, with
            wholestacks     Python functions and perf's, put together
            labels          names of Python functions
            marks           what is said of a stack
        advice            how the next recording could be better
        nothing           why there is nothing in it
    report, diff        show recordings again
    doctor, clean       look after the machine, with
        framepointers     whether compiled code has them

    profile             the model that all of them use: frames, stacks, samples
    fold, totals        what is derived from it: without the interpreter's
                        internals; the time of each function
    classify, units     whose code a function is; what is counted
    perfscript          reads what perf prints into it, with
        processes         names that tell processes apart
        jitdump           lines of what perf inject has named
    recording           keeps it in a file
    table               prints it on a terminal
    output              writes it, in one of
        formats, html     the formats
        files             and leaves what was there if that fails
    architecture        what all of them have to know of one
"""
