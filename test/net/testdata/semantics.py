"""Tries rows of semantics.txt: each line of standard input is a row in JSON, each line of output "reached" or the reason why not."""
import json, os, socket, ssl, sys

def ascii(host):
    return host.encode("idna").decode() if not host.isascii() else host

def parts(target):
    scheme, rest = target.split("://", 1)
    authority, slash, path = rest.partition("/")
    host, port = authority, {"http": 80, "ws": 80, "https": 443, "wss": 443, "ssh": 22, "git": 9418}.get(scheme, 0)
    if host.startswith("["):
        host, _, after = host[1:].partition("]")
        port = int(after[1:] or port)
    elif ":" in host:
        host, _, number = host.partition(":")
        port = int(number)
    return scheme, ascii(authority), ascii(host), port, slash + path or "/"

def request(c, method, path, authority, scheme):
    more = "Connection: Upgrade\r\nUpgrade: websocket\r\n" if scheme.startswith("ws") else "Connection: close\r\n"
    c.sendall(f"{method} {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 0\r\n{more}\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got or b"toolguard" in got and b"}" not in got:
        more = c.recv(4096)
        if not more:
            break
        got += more
    return "refused" if b"denied by toolguard" in got else "reached" if got.startswith(b"HTTP/1.1 ") else "no answer"

def attempt(q):
    scheme, authority, host, port, path = parts(q["target"])
    if q["method"] == "listen":
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, port))
        if scheme == "tcp":
            s.listen()
        return "reached"
    if scheme == "udp":
        family, _, _, _, to = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(20)
        s.sendto(b"ping", to)
        return "reached" if s.recv(99) else "no answer"
    c = socket.create_connection((q["via"] or host, port), 20)
    if scheme in ("https", "wss"):
        authorities = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        context = ssl.create_default_context(cafile=authorities)
        context.check_hostname = False # of addresses: the servers' certificates have none
        c = context.wrap_socket(c, server_hostname=host.rstrip("."))
    if scheme in ("http", "https", "ws", "wss"):
        return request(c, q["method"] or "GET", path, authority, scheme)
    c.sendall(b"ping")
    return "reached" if c.recv(99) else "no answer"

for line in sys.stdin:
    try:
        print(attempt(json.loads(line)))
    except OSError as e:
        print("refused", type(e).__name__, e)
