"""From a Python script to a picture of where its time went, by Linux perf.

The command is ``python -m perfpy``; see Doc/howto/perfpy.rst.
"""
