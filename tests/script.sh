# What the scripts of this directory share; they read it with `.`, after `subject` says what a skipped run leaves untried.
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

skip() {
    echo "SKIPPED: $subject: $*."
    exit 0
}
