#!/bin/sh
# Makes HTML of our documentation with Sphinx: build/doc/perf.html in English, and
# in each language that Doc/locale/ has, such as build/doc/es/perf.html.
# Called by `make doc`.
set -eu
cd "$(dirname "$0")/../.."

sphinx() {
    sphinx-build -W -n -q -c Tools/doc "$@"
}

title() {
    sed -n '/<title>/,/<\/title>/p' "$1"
}

sphinx -b html Doc build/doc
sphinx -b gettext Doc build/doc-templates
python3 Tools/doc/lint_translations.py build/doc-templates Doc/locale

# Sphinx compiles the messages where it finds them.
rm -rf build/locale
cp -R Doc/locale build/locale
for directory in Doc/locale/*/; do
    language=$(basename "$directory")
    sphinx -b html -D language="$language" Doc "build/doc/$language"
    # Sphinx says nothing when it does not find the messages.
    if [ "$(title build/doc/perf.html)" = \
         "$(title "build/doc/$language/perf.html")" ]; then
        echo "build-doc: build/doc/$language is in English" >&2
        exit 1
    fi
done
