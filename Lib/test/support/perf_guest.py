"""What test_perf_guest and test_perf_guest_files share."""


MANY = """
def call_many(prefix="function"):
    for number in range(1000):
        make_function(f"{prefix}_{number}", "a file of ours.py")()
"""

# Beyond this size, neither of the files can grow.
LIMIT = """
import resource, signal
def limit(size):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
"""
