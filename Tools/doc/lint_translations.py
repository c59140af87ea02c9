"""Check that translations of the documentation are in step with it.

    Tools/doc/lint_translations.py TEMPLATES LOCALE

TEMPLATES is what Sphinx's gettext builder has written, LOCALE our Doc/locale/.
Each page that one language has, all must have, and of each page every message:
none missing, fuzzy or obsolete, and all with the markup of the original.
Messages without a word, such as numbers and lone literals, need no
translation.  Called by Tools/doc/build-doc.sh;
Tools/doc/update-translations.sh marks what is to be done.
"""

import argparse
import collections
import gettext
import pathlib
import re
import subprocess
import sys
import tempfile

LITERAL = re.compile(r"``.+?``", re.DOTALL)
ROLE = re.compile(r":([\w:+-]+):`([^`]+)`")
TARGET = re.compile(r".*<(.+)>\Z", re.DOTALL)
URL = re.compile(r"https?://[^\s<>`]+")


def without_markup(message):
    return URL.sub("", ROLE.sub("", LITERAL.sub("", message)))


def markup(message):
    """Return how often each thing occurs that no translation may change."""
    found = collections.Counter(LITERAL.findall(message))
    found.update(URL.findall(message))
    for role, content in ROLE.findall(LITERAL.sub("", message)):
        target = TARGET.match(content)
        found[f":{role}:`{target[1] if target else content}`"] += 1
    # A paragraph that announces a literal block.
    found["::"] += message.endswith("::")
    return found


def needs_translation(message):
    return re.search(r"[^\W\d_]", without_markup(message)) is not None


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def catalog(path, *, complete=False):
    """Return the messages of a PO file with their translations.

    Those without are left out or, with complete, stand for themselves.
    """
    with tempfile.TemporaryDirectory() as directory:
        filled = pathlib.Path(directory, "filled.po")
        compiled = pathlib.Path(directory, "compiled.mo")
        if complete:
            run("msgen", "-o", filled, path)
            path = filled
        run("msgfmt", "-o", compiled, path)
        with compiled.open("rb") as file:
            messages = gettext.GNUTranslations(file)._catalog
    return {key: value for key, value in messages.items() if key}


def check_page(template, path):
    source = catalog(template, complete=True)
    translated = catalog(path)
    for message in source:
        if message not in translated and needs_translation(message):
            yield f"no translation, or a fuzzy one, of: {message}"
    for message in translated.keys() - source.keys():
        yield f"not in the page: {message}"
    if "#~ msgid" in run("msgattrib", "--only-obsolete", path):
        yield "has obsolete messages"
    for message in source.keys() & translated.keys():
        original, translation = markup(message), markup(translated[message])
        if original != translation:
            lacks = list((original - translation).elements())
            adds = list((translation - original).elements())
            yield (f"other markup, lacks {lacks}, adds {adds}: "
                   f"{translated[message]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("templates", type=pathlib.Path)
    parser.add_argument("locale", type=pathlib.Path)
    args = parser.parse_args()

    languages = sorted(path.name for path in args.locale.iterdir())
    pages = sorted({path.relative_to(args.locale / language / "LC_MESSAGES")
                    for language in languages
                    for path in (args.locale / language).rglob("*.po")})
    problems = []
    for language in languages:
        for page in pages:
            path = args.locale / language / "LC_MESSAGES" / page
            template = (args.templates / page).with_suffix(".pot")
            if not template.exists():
                problems.append(f"{path}: there is no such page")
            elif not path.exists():
                problems.append(f"{path}: missing, other languages have it")
            else:
                problems += [f"{path}: {problem}"
                             for problem in check_page(template, path)]
    for problem in problems:
        print(f"lint_translations: {problem}", file=sys.stderr)
    if problems:
        sys.exit("lint_translations: Tools/doc/update-translations.sh marks "
                 "what is missing; see CONTRIBUTING.rst")
    print(f"lint_translations: {', '.join(languages)}: {len(pages)} pages "
          "each, no problem")


if __name__ == "__main__":
    main()
