# Shortens the output of CPython's make: a compiler command to what it makes,
# everything but messages of the compiler to nothing.  Used by Tools/build/build.sh.

# The compiler's messages, with the lines of source that they quote.
/: (warning|error|note|fatal error): / || /^ +[0-9]* \| / || /^make.*\*\*\*/ ||
/: undefined reference to / || /^In file included from / || /: In function / {
    print
    fflush()
    next
}

match($0, / -o [^ ]*[.](o|so|a)( |$)/) && !/^[ *]/ {
    made = substr($0, RSTART + 4, RLENGTH - 4)
    sub(/ $/, "", made)
    print "  " made
    fflush()
}

/^Building with support for profile|^Running code to generate profile|^Rebuilding with profile/ {
    print
    fflush()
}

# The tests that a profile is made of: some hundreds under Debian's rules.
match($0, /^[0-9:]+ load avg: .*\] test_[a-z0-9_]*/) {
    test = substr($0, RSTART, RLENGTH)
    sub(/.* /, "", test)
    print "  training " ++trained ": " test
    fflush()
}
