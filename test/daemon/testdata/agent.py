"""Does what each line of its input says, all at once, and writes a line with each result. A line is JSON with a number n, and either a request
to the socket in TOOLGUARD_SOCKET (method, path, body), or something else to do."""
import _socket as socket, array, errno, json, os, sys, threading, time

address = sys.argv[1] if len(sys.argv) > 1 else os.environ["TOOLGUARD_SOCKET"]
writing = threading.Lock()


def connect():
    if not address.startswith("fd:"):
        s = socket.socket(socket.AF_UNIX)
        s.connect(address)
        return s
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    on = socket.socket(fileno=int(address[3:]))
    try:
        on.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [its.fileno()]))])
    finally:
        on.detach()
        its.close()
    return own


def request(method, path, body=None):
    text = b"" if body is None else json.dumps(body).encode()
    s = connect()
    try:
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: toolguard\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        answer = b""
        while got := s.recv(1 << 16):
            answer += got
    finally:
        s.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        chunks, text = text, b""
        while chunks:
            size, _, chunks = chunks.partition(b"\r\n")
            text, chunks = text + chunks[: int(size, 16)], chunks[int(size, 16) + 2 :]
    return int(head.split()[1]), json.loads(text or b"null")


def opens(path, mode):
    """Whether a file can be opened."""
    try:
        os.close(os.open(path, os.O_WRONLY if mode == "write" else os.O_RDONLY))
        return True
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM):
            raise
        return False


def tried(path, mode):
    """Whether a file can be opened, a program executed, or an address connected to."""
    if mode == "connect":
        host, port = path.split(":")
        try:
            s = socket.socket(socket.AF_INET)
            s.connect((host, int(port)))
            s.close()
            return True
        except OSError as e:
            if e.errno not in (errno.EACCES, errno.EPERM):
                raise
            return False
    if mode == "run":
        pid = os.fork()
        if pid == 0:
            try:
                os.execv(path, [path])
            except OSError:
                os._exit(126)
        return os.waitpid(pid, 0)[1] == 0
    return opens(path, mode)


def until(path, mode, want):
    """When it can, or can't any more, by the clock of all processes, and how often it was tried."""
    n = 1
    while tried(path, mode) != want:
        n += 1
        time.sleep(0.01)
    return {"at": time.monotonic_ns(), "n": n}


def env(name):
    return os.environ.get(name)


def sh(command):
    return os.popen(command).read()


def persistent(*what):
    """Repeats a request until it's answered: toolguardd may be restarting, or have too many requests."""
    while True:
        try:
            status, answer = request(*what)
            if status not in (429, 502, 503):
                return status, answer
        except (OSError, IndexError, ValueError):
            pass
        time.sleep(0.02)


def caller(name, tool, invocation):
    """Submits calls and reports that they have ended, until one is denied. Returns the ids of those that could run."""
    ran = []
    while True:
        call = f"{name}-{len(ran)}"
        status, state = persistent("POST", "/v1/calls", {"id": call, "tool": tool, "arguments": {}, "invocation": invocation})
        if status != 200 or state["state"] != "running":
            return {"ran": ran, "status": status, "last": state}
        ran.append(call)
        status, answer = persistent("POST", f"/v1/calls/{call}/result", {"result": "ok"})
        if status not in (200, 404):  # 404: it was reported before, and the answer was lost
            return {"ran": ran, "status": status, "last": answer}


def floods(name, tool, n):
    """Submits calls, one after the other, and returns how many were denied."""
    denied = 0
    for i in range(n):
        status, state = request("POST", "/v1/calls", {"id": f"{name}{i}", "tool": tool, "arguments": {}})
        denied += status == 200 and state["state"] == "denied"
    return denied


def waits(path):
    """Asks for a grant and waits for the decision. Returns the status of the last answer."""
    status, approval = request("POST", "/v1/approvals", {"why": "test", "resource": "fs", "action": "read", "target": path})
    if status == 200:
        status, _ = request("GET", f"/v1/approvals/{approval['id']}/decision?wait_ms=1800000")
    return status


def answer(x):
    if "method" in x:
        do = persistent if x.get("persist") else request
        status, body = do(x["method"], x["path"], x.get("body"))
        return {"status": status, "body": body}
    return {"body": globals()[x["do"]](*x["args"])}


def one(line):
    x = json.loads(line)
    try:
        result = answer(x)
    except Exception as e:
        result = {"error": repr(e)}
    result["n"] = x["n"]
    with writing:
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


threading.stack_size(1 << 18)
for line in sys.stdin:
    threading.Thread(target=one, args=(line,), daemon=True).start()
