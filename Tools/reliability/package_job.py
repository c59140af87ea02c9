#!/usr/bin/env python3
"""Use one compiled package in this interpreter and print what came out.

Its own tests, of package_suites.py, and the outcome of each; or a workload, of
this file, or of package_tools.py for tools that look at programs, and the
result of each step.  The last line of the output is JSON: {name: outcome}.
Called by packages.py with each interpreter, in each mode.

usage: package_job.py JOB
"""

import hashlib
import io
import json
import os
import resource
import sys

import package_tools                # noqa: F401  its jobs are in JOBS, too
from package_suites import JOBS, job

# A test that wants more fails, in all modes, rather than the machine.
ADDRESS_SPACE = 6 << 30


def digest(data):
    if isinstance(data, str):
        data = data.encode()
    return hashlib.sha256(data).hexdigest()[:16]


@job
def lxml():
    from lxml import etree, html, objectify
    root = etree.Element("list")
    for number in range(3000):
        item = etree.SubElement(root, "item", id=str(number))
        item.text = "é" * (number % 7)
    text = etree.tostring(root)

    def double(context, nodes):         # called from C
        return [str(2 * int(node)) for node in nodes][0]

    functions = etree.FunctionNamespace("urn:test")
    functions.prefix = "t"
    functions["double"] = double
    found = [root.xpath(f"t:double(item[{n}]/@id)") for n in range(1, 200)]

    class Target:                       # called from the parser
        def __init__(self):
            self.events = []

        def start(self, tag, attributes):
            self.events.append(tag)

        def end(self, tag):
            self.events.append("/" + tag)

        def close(self):
            return ",".join(self.events)

    events = etree.XML(text, etree.XMLParser(target=Target()))
    sheet = etree.XSLT(etree.XML(
        '<x:stylesheet version="1.0" '
        'xmlns:x="http://www.w3.org/1999/XSL/Transform">'
        '<x:template match="/"><n><x:value-of select="sum(//@id)"/></n>'
        '</x:template></x:stylesheet>'))
    try:
        etree.fromstring("<a><b></a>")
        error = "none"
    except etree.XMLSyntaxError as exception:
        error = str(exception)
    tree = objectify.fromstring("<a><b>1</b><b>2.5</b></a>")
    page = html.fromstring("<p>one<p>two<br>three")
    return {"xml": digest(text), "xpath": found, "events": digest(events),
            "xslt": str(sheet(root)), "error": error,
            "objects": [repr(b.pyval) for b in tree.b],
            "html": html.tostring(page).decode(),
            "iterparse": sum(1 for _ in etree.iterparse(io.BytesIO(text)))}


@job
def gevent():
    import gevent
    from gevent import event, pool, pywsgi, queue, socket
    from gevent.lock import Semaphore
    out = {}

    def deep(depth):
        if depth:
            return deep(depth - 1) + 1
        gevent.sleep(0)
        return 0

    out["map"] = pool.Pool(20).map(deep, [n % 200 for n in range(1000)])
    tasks, done = queue.Queue(maxsize=5), []

    def worker():
        for number in tasks:
            gevent.sleep(0)
            done.append(number)

    workers = [gevent.spawn(worker) for _ in range(10)]
    for number in range(2000):
        tasks.put(number)
    for _ in workers:
        tasks.put(StopIteration)
    gevent.joinall(workers)
    out["queue"] = sorted(done) == list(range(2000))
    try:
        with gevent.Timeout(0.01, ValueError("late")):
            event.Event().wait()
    except ValueError as error:
        out["timeout"] = str(error)
    killed = gevent.spawn(gevent.sleep, 100)
    gevent.sleep(0)
    killed.kill()
    out["killed"] = repr(killed.value)
    semaphore, most, inside = Semaphore(3), [0], [0]

    def limited():
        with semaphore:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            gevent.sleep(0)
            inside[0] -= 1

    gevent.joinall([gevent.spawn(limited) for _ in range(50)])
    out["semaphore"] = most[0]

    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    server = pywsgi.WSGIServer(("127.0.0.1", 0), application, log=None)
    server.start()

    def fetch(number):
        with socket.create_connection(server.address) as client:
            client.sendall(f"GET /{number} HTTP/1.0\r\n\r\n".encode())
            data = b""
            while part := client.recv(4096):
                data += part
        return data.partition(b"\r\n\r\n")[2].decode()

    out["server"] = pool.Pool(20).map(fetch, range(500))
    server.stop()
    out["threads"] = gevent.get_hub().threadpool.map(abs, range(-100, 0))
    return out


@job
def psycopg2():
    # No server is needed for what it converts.
    import datetime
    import decimal

    import psycopg2
    from psycopg2 import extensions, extras
    out = {}
    values = [1, 2.5, "it's", None, True, b"\0\xff", [1, [2, None]], (1, "a"),
              datetime.date(2026, 1, 2), decimal.Decimal("1.50"),
              datetime.timedelta(1, 2), extras.Json({"a": [1]})]
    for number, value in enumerate(values):
        adapted = extensions.adapt(value)
        out[f"adapt {number}"] = adapted.getquoted().decode("latin-1")

    class Point:
        pass

    def adapt_point(point):             # called from C
        return extensions.AsIs("'(1,2)'")

    extensions.register_adapter(Point, adapt_point)
    quoted = [extensions.adapt(Point()).getquoted() for _ in range(2000)]
    out["points"] = (len(quoted), quoted[0].decode())
    kind = extensions.new_type((99999,), "DOUBLE",
                               lambda text, cursor: text * 2)
    out["casts"] = [kind(str(n), None) for n in range(500)]
    out["interval"] = str(extensions.INTERVAL("1 day 02:03:04", None))
    out["array"] = psycopg2._psycopg.INTEGERARRAY("{1,2,{3,4}}", None)
    out["dsn"] = extensions.parse_dsn("dbname=a user='b c'")
    try:
        psycopg2.connect(host="/nonexistent", dbname="a")
    except psycopg2.OperationalError as error:
        out["error"] = type(error).__name__, "No such file" in str(error)
    return out


@job
def cryptography():
    import datetime

    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.fernet import Fernet, InvalidToken
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.ciphers import aead
    from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
    out = {"sealed": digest(aead.AESGCM(bytes(16)).encrypt(
        bytes(12), b"text" * 1000, b"more"))}
    out["pbkdf2"] = PBKDF2HMAC(hashes.SHA256(), 32, b"salt", 20_000).derive(
        b"password").hex()
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    out["signature"] = digest(key.sign(b"message"))
    try:
        key.public_key().verify(bytes(64), b"message")
    except InvalidSignature as error:
        out["refused"] = type(error).__name__
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.test")])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 7, datetime.datetime(2026, 1, 1),
        datetime.datetime(2036, 1, 1)).add_extension(
            x509.BasicConstraints(True, 0), critical=True)
    certificate = builder.sign(key, None)
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    out["certificate"] = digest(pem)
    out["read"] = str(x509.load_pem_x509_certificate(pem).subject)
    private = rsa.generate_private_key(65537, 2048)
    out["rsa"] = private.key_size
    curve = ec.generate_private_key(ec.SECP256R1())
    signature = curve.sign(b"x", ec.ECDSA(hashes.SHA256()))
    out["ecdsa"] = curve.public_key().verify(signature, b"x",
                                             ec.ECDSA(hashes.SHA256()))
    fernet = Fernet(Fernet.generate_key())
    out["fernet"] = all(fernet.decrypt(fernet.encrypt(bytes(n))) == bytes(n)
                        for n in range(500))
    try:
        fernet.decrypt(b"nothing")
    except InvalidToken as error:
        out["token"] = type(error).__name__
    return out


@job
def PIL():
    from PIL import Image, ImageChops, ImageDraw, ImageFilter
    image = Image.new("RGB", (320, 200), "navy")
    draw = ImageDraw.Draw(image)
    for n in range(100):
        draw.ellipse((n, n, 2 * n + 9, n + 50), outline=(n, 2 * n, 255 - n))
    out = {"drawn": digest(image.tobytes())}
    for kind in ("GaussianBlur", "FIND_EDGES", "MedianFilter"):
        made = getattr(ImageFilter, kind)
        made = made if kind.isupper() else made()
        out[kind] = digest(image.filter(made).tobytes())
    out["point"] = digest(image.point(lambda value: 255 - value).tobytes())
    out["turned"] = digest(image.rotate(30).resize((99, 77)).tobytes())
    for kind in "PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP":
        file = io.BytesIO()             # written to from C
        image.save(file, kind)
        file.seek(0)
        again = Image.open(file).convert("RGB")
        out[kind] = digest(file.getvalue()), digest(again.tobytes())
    out["same"] = ImageChops.difference(image, image.copy()).getbbox()
    try:
        Image.open(io.BytesIO(b"no image"))
    except OSError as error:
        out["error"] = type(error).__name__
    return out


@job
def cffi():
    # As a binary interface, by libffi: nothing is compiled.
    import cffi
    ffi = cffi.FFI()
    ffi.cdef("""
        void qsort(void *, size_t, size_t,
                   int (*)(const void *, const void *));
        struct pair { int a; double b; };
        size_t strlen(const char *);
    """)
    library = ffi.dlopen(None)
    calls = []

    @ffi.callback("int(const void *, const void *)")
    def compare(left, right):
        calls.append(1)
        left, right = (ffi.cast("int *", side)[0] for side in (left, right))
        return (left > right) - (left < right)

    numbers = ffi.new("int[]", [n * 7919 % 3001 for n in range(3000)])
    library.qsort(numbers, 3000, ffi.sizeof("int"), compare)

    @ffi.callback("int(int)", error=-1, onerror=lambda *error: True)
    def fail(number):
        raise ValueError(number)

    pair = ffi.new("struct pair *", {"a": 3, "b": 0.5})
    return {"sorted": list(numbers) == sorted(numbers), "calls": len(calls),
            "failed": [fail(n) for n in range(100)],
            "struct": (pair.a, pair.b, ffi.sizeof(pair[0])),
            "length": library.strlen(b"four")}


@job
def msgpack():
    import msgpack

    class Point:
        def __init__(self, x):
            self.x = x

    def encode(thing):                  # called from Cython
        return msgpack.ExtType(1, str(thing.x).encode())

    def decode(code, data):
        return Point(int(data)) if code == 1 else None

    data = {"numbers": list(range(3000)), "text": "é" * 1000, "none": None,
            "points": [Point(n) for n in range(1000)], "bytes": b"\xff" * 99}
    packed = msgpack.packb(data, default=encode)
    again = msgpack.unpackb(packed, ext_hook=decode,
                            object_pairs_hook=lambda pairs: dict(pairs))
    unpacker = msgpack.Unpacker()
    for _ in range(50):
        unpacker.feed(msgpack.packb([1, {"a": 2.5}]))
    try:
        msgpack.unpackb(b"\xc1")
    except ValueError as error:
        failed = type(error).__name__
    return {"cython": msgpack.Packer.__module__, "packed": digest(packed),
            "points": sum(point.x for point in again["points"]),
            "same": again["numbers"] == data["numbers"],
            "stream": len(list(unpacker)), "error": failed}


@job
def orjson():
    import dataclasses
    import datetime
    import enum

    import orjson

    class Colour(enum.Enum):
        RED = "red"

    @dataclasses.dataclass
    class Point:
        x: int
        y: float

    def encode(thing):                  # called from Rust
        if isinstance(thing, complex):
            return [thing.real, thing.imag]
        raise TypeError(f"cannot encode {thing!r}")

    data = {"numbers": list(range(3000)), "text": "é" * 1000, "none": None,
            "colour": Colour.RED, "points": [Point(n, n / 2)
                                             for n in range(1000)],
            "complex": [complex(n, 1) for n in range(1000)],
            "day": datetime.date(2026, 1, 2)}
    packed = orjson.dumps(data, default=encode,
                          option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)
    again = orjson.loads(packed)
    out = {"packed": digest(packed), "points": len(again["points"]),
           "sum": sum(real for real, _ in again["complex"])}
    for name, broken in ("text", b'{"a": [1, 2'), ("utf8", b'"\xff"'):
        try:
            orjson.loads(broken)
        except orjson.JSONDecodeError as error:
            out[name] = str(error)
    try:
        orjson.dumps({"a": object()}, default=encode)
    except TypeError as error:
        out["refused"] = str(error), type(error.__cause__).__name__
    return out


@job
def pydantic_core():
    from pydantic_core import (SchemaSerializer, SchemaValidator,
                               ValidationError, core_schema)

    class Item:
        def __init__(self, name):
            self.name = name

    def check(value):                   # called from Rust
        if value < 0:
            raise ValueError("negative")
        return value * 2

    def wrap(value, handler):
        return handler(value) + 1

    schema = core_schema.typed_dict_schema({
        "name": core_schema.typed_dict_field(
            core_schema.str_schema(max_length=9)),
        "size": core_schema.typed_dict_field(
            core_schema.no_info_after_validator_function(
                check, core_schema.int_schema())),
        "sum": core_schema.typed_dict_field(
            core_schema.no_info_wrap_validator_function(
                wrap, core_schema.int_schema())),
        "items": core_schema.typed_dict_field(core_schema.list_schema(
            core_schema.no_info_plain_validator_function(Item))),
    })
    validator = SchemaValidator(schema)
    out = {"sizes": []}
    for n in range(1000):
        made = validator.validate_python(
            {"name": "a", "size": n, "sum": str(n), "items": [n] * 3})
        out["sizes"].append((made["size"], made["sum"],
                             made["items"][2].name))
    read = validator.validate_json(
        '{"name": "b", "size": 3, "sum": 4, "items": ["x"]}')
    out["read"] = read["items"][0].name
    try:
        validator.validate_python({"name": "x" * 10, "size": -1, "sum": "y"})
    except ValidationError as error:
        out["errors"] = [(one["type"], one["loc"], one["msg"])
                         for one in error.errors(include_url=False)]
    serializer = SchemaSerializer(core_schema.list_schema(
        core_schema.any_schema(serialization=(
            core_schema.plain_serializer_function_ser_schema(
                lambda item: item.name)))))
    out["written"] = digest(serializer.to_json([Item(n) for n in range(500)]))
    return out


def main():
    name = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    out = JOBS[name]()
    mode = os.environ["PACKAGE_JOB_MODE"]
    is_active = getattr(sys, "is_stack_trampoline_active", bool)()
    if is_active != (mode in ("perf", "perf_jit")):
        sys.exit(f"package_job: the trampoline is not as mode {mode} wants it")
    print()
    print(json.dumps({str(key): value for key, value in out.items()}))


if __name__ == "__main__":
    main()
