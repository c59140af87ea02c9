#!/bin/sh
# Brings Doc/locale/ in step with the pages after a change of these.  New messages
# are left empty and changed ones marked as fuzzy, with the translation of a similar
# message: translate, remove the word fuzzy, and run `make doc`.
#
# usage: Tools/doc/update-translations.sh
set -eu
cd "$(dirname "$0")/../.."

sphinx-build -q -c Tools/doc -b gettext Doc build/doc-templates
find Doc/locale -name '*.po' | while read -r file; do
    page=${file#Doc/locale/*/LC_MESSAGES/}
    msgmerge --quiet --no-location --previous \
        "$file" "build/doc-templates/${page%.po}.pot" |
        msgattrib --no-obsolete |
        sed '/^"POT-Creation-Date:/d' >"$file.new"
    mv "$file.new" "$file"
done
