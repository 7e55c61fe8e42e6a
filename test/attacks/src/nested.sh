#!/bin/sh
# Tries: to widen its own session by starting another one inside it with toolguard (argument 1) and a policy of its own
# making (2) that lets it read everything, and to read a secret (3) there.
# Must get: the intersection of both policies: a refusal.
# Event: of the outer session: fs read of the secret, reason outside_workspace.
exec "$1" exec --policy "$2" --report never -- sh -c '
if (: <"$1") 2>&-; then echo "RESULT ok nested"; else echo "RESULT denied EACCES nested"; fi' sh "$3"
