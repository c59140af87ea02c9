"""The fuzzer's target for the jitdump's reader and Tools/profile/jitdump.py.

Run by fuzz.py, in our interpreter, with atheris: libFuzzer for Python.

usage: reader.py COMMAND [ARGUMENT of libFuzzer...]

COMMAND runs this, too: libFuzzer needs it for processes that it starts.
"""

import random
import sys

import atheris

with atheris.instrument_imports(include=["jitdump", "perf_jitdump"]):
    import fuzz_model
    import perf_jitdump


def change_record(dump, data, max_size, chance):
    """Return data with one record changed, and its size made true."""
    records = [data[record.offset:record.offset + record.total_size]
               for record in dump.records]
    number = chance.randrange(len(records))
    record = records[number]
    match chance.randrange(5):
        case 0:
            records.insert(chance.randrange(len(records) + 1), record)
        case 1:
            del records[number]
        case 2:
            chance.shuffle(records)
        case _:
            order = "little" if data[0] == perf_jitdump.MAGIC & 0xff else "big"
            body = atheris.Mutate(record[8:], max_size)
            size = (8 + len(body)).to_bytes(4, order)
            records[number] = record[:4] + size + body
    return data[:dump.header.total_size] + b"".join(records)


def mutate(data, max_size, seed):
    """Change bytes, or a record of a jitdump that is well-formed."""
    chance = random.Random(seed)
    try:
        dump = perf_jitdump.Jitdump(data)
    except perf_jitdump.JitdumpError:
        dump = None
    if dump and dump.records and chance.randrange(2):
        return change_record(dump, data, max_size, chance)[:max_size]
    return atheris.Mutate(data, max_size)


if __name__ == "__main__":
    atheris.Setup(sys.argv[1:], fuzz_model.check_reader,
                  custom_mutator=mutate)
    atheris.Fuzz()
