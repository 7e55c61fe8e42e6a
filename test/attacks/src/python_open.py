# Tries: to read a secret (argument 2), write outside and start a child that does, from an interpreter. Argument 1 is a
# folder outside the workspace.
# Must get: PermissionError from each, also in the child.
# Event: fs read or create, reason outside_workspace.
import errno
import os
import subprocess
import sys

outside, secret = sys.argv[1:3]


def attempt(name, work):
    try:
        work()
        print(f"RESULT ok {name}", flush=True)
    except OSError as e:
        print(f"RESULT denied {errno.errorcode[e.errno]} {name}", flush=True)


attempt("read", lambda: open(secret).read(1))
attempt("create", lambda: open(os.path.join(outside, "new"), "x"))
attempt("listdir", lambda: os.listdir(outside))
child = subprocess.run([sys.executable, "-c", f"open({secret!r}).read(1)"], stderr=subprocess.DEVNULL)
print("RESULT ok child" if child.returncode == 0 else "RESULT denied EACCES child")
