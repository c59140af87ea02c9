"""Pretty-print JSON, which is pure Python, and parse it, which is C."""

import json

record = {
    "name": "a name", "tags": ["one", "two", "three"], "size": 12345,
    "ratio": 0.25, "nested": {"list": list(range(20)), "flag": True},
}
document = {f"record{i}": record for i in range(600)}

for _ in range(20):
    text = json.dumps(document, indent=2)
    json.loads(text)
