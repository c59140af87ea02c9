"""Names of processes that tell a parent from its children.

A process that is forked keeps the name of its parent, and what a pool of
workers does would look like what the program itself does.

Called by perfscript.py.
"""


def name_children(profile, parents):
    """Number the processes that are called like the one they were forked by.

    parents   the number of each forked process's parent, by its number
    """
    names = {thread.pid: thread.process_name for thread in profile.threads}
    family, count, renamed = {}, {}, {}
    for pid, parent in parents.items():     # in the order of time
        if pid in names and names[pid] == names.get(parent):
            first = family[pid] = family.get(parent, parent)
            count[first] = count.get(first, 0) + 1
            renamed[pid] = f"{names[pid]} child {count[first]}"
    for thread in profile.threads:
        thread.process_name = renamed.get(thread.pid, thread.process_name)
