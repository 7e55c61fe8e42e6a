#!/bin/sh
# Tries: to read ~/.ssh/id_ed25519 (argument 1) from a shell and from a program that the shell starts.
# Must get: a refusal in both.
# Event: fs read of the key, reason outside_workspace.
if (: <"$1") 2>/dev/null; then echo "RESULT ok shell"; else echo "RESULT denied EACCES shell"; fi
if cat "$1" >/dev/null 2>&1; then echo "RESULT ok child"; else echo "RESULT denied EACCES child"; fi
