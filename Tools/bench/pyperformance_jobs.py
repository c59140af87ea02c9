"""Those benchmarks of pyperformance that do little but call Python functions.

They need nothing but pyperf and the standard library.  Each is run as
pyperf runs its own workers: one process, a fixed number of loops, no other
process around it.  Used by bench.py, with what
Tools/bench/fetch-pyperformance.sh has unpacked.
"""

# Name, directory, arguments, and the loops that take about half a second.
BENCHMARKS = (
    ("chaos", "chaos", [], 10),
    ("coroutines", "coroutines", [], 25),
    ("deepcopy", "deepcopy", [], 1500),
    ("deltablue", "deltablue", [], 150),
    ("generators", "generators", [], 10),
    ("go", "go", [], 5),
    ("hexiom", "hexiom", [], 100),
    ("logging_simple", "logging", ["simple"], 12_000),
    ("nqueens", "nqueens", [], 7),
    ("pickle_pure", "pickle", ["--pure-python", "pickle"], 120),
    ("raytrace", "raytrace", [], 2),
    ("richards", "richards", [], 12),
    ("richards_super", "richards_super", [], 12),
    ("unpickle_pure", "pickle", ["--pure-python", "unpickle"], 160),
)


def commands(directory):
    """Yield each benchmark's name and the arguments for an interpreter."""
    benchmarks = directory / "pyperformance" / "data-files" / "benchmarks"
    for name, subdirectory, arguments, loops in BENCHMARKS:
        script = benchmarks / f"bm_{subdirectory}" / "run_benchmark.py"
        yield name, [str(script), "--worker", "--loops", str(loops),
                     "--values", "1", "--warmups", "0", *arguments]
