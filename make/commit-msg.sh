#!/usr/bin/env bash
# commit-msg.sh FILE: what CONTRIBUTING.md asks of a commit message. `make hooks` has git run it for each commit.
set -euo pipefail
export LC_ALL=C.UTF-8  # characters are counted, not bytes
length=72

# Git's own drops comments, and with `git commit --verbose` everything below the scissors.
message=$(sed '/^# -* >8 -*$/,$d; /^#/d' "$1")
subject=${message%%$'\n'*}
rest=${message#"$subject"}

# Git writes these itself, or folds them into the commit that they belong to.
[[ $subject =~ ^(Merge|Revert|fixup!|squash!|amend!)\  ]] && exit 0

wrong=()
if [[ -z $subject ]]; then
  wrong+=("subject: found an empty first line, expected what the commit does; write it")
fi
if ((${#subject} > length)); then
  wrong+=("subject: found ${#subject} characters, expected at most $length; say less, the body has room")
fi
if [[ $subject == *. ]]; then
  wrong+=("subject: found a full stop at its end, expected none; drop it")
fi
if [[ -n $rest && $rest != $'\n\n'* ]]; then
  wrong+=("second line: found text, expected a blank line; begin the body on the third")
fi
# Trailers name people and tickets, they give no reason.
if ! grep -qvE '^[[:space:]]*$|^[A-Z][A-Za-z-]*-by: |^(Refs|Fixes|Closes): ' <<< "$rest"; then
  wrong+=("body: found none, expected why: what was wrong, what a user sees, why this way; write it")
fi
((${#wrong[@]} == 0)) && exit 0
printf 'commit message: %s\n' "${wrong[@]}" >&2
exit 1
