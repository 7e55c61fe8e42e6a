"""Tricks to reach targets that a policy doesn't grant. Arguments: the names of tricks. Each prints its result on one line. After "apart"
each runs in a process of its own, and its PID is printed too."""
import ctypes, errno, os, re, socket, ssl, struct, sys, time

NAMES, WEB, OTHER, DATA = "151.101.1.53", "151.101.1.1", "151.101.1.2", "151.101.1.32"
CARELESS = 8091 # the port of a server that accepts what proper servers reject
DATA6, HOP6, LINK6 = "2a04:4e42::1", "2a04:4e42::2", "fe80::77:2"
METADATA, PRIVATE = "169.254.169.254", "192.168.77.7"
socket.setdefaulttimeout(5)
libc = ctypes.CDLL(None, use_errno=True)
tricks = {}


def trick(f):
    tricks[f.__name__] = f


def receive(s):
    got = b""
    while part := s.recv(4096):
        got += part
    return got


def tcp(ip, port):
    s = socket.create_connection((ip, port), 5)
    return s


def echo(s):
    """The first bytes of an echo server, or other data."""
    return "reached" if s.recv(4) == b"echo" else "closed"


def codes(got):
    return b" ".join(re.findall(rb"HTTP/1.1 (\d{3}) ", got)).decode() or "nothing"


def statuses(raw, ip=WEB, port=80):
    """The statuses of all responses to requests; the last request must close the connection."""
    s = tcp(ip, port)
    s.sendall(raw)
    return codes(receive(s))


def get(host, path="/", fields="", method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n".encode()


def context():
    c = ssl.create_default_context()
    c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    return c


def tls(ip, name, port=443):
    return context().wrap_socket(tcp(ip, port), server_hostname=name)


def question(name, kind=1):
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.split("."))
    return struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def dns(name, kind=1, over_tcp=False, server=NAMES):
    """The code of the answer, and its number of records of the type."""
    q = question(name, kind)
    if over_tcp:
        s = tcp(server, 53)
        s.sendall(struct.pack(">H", len(q)) + q)
        a = s.recv(4096)[2:]
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5)
        s.sendto(q, (server, 53))
        a = s.recv(4096)
    return f"code {a[3] & 15}, {struct.unpack('>H', a[6:8])[0]} answers"


def resolved(name):
    return ",".join(sorted({a[4][0] for a in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)}))


# Requests for another host to a granted address.

@trick
def another_host(): return statuses(get("other.test"))
@trick
def another_server_name(): return tls(WEB, "other.test").version()
@trick
def fronting():
    s = tls(WEB, "web.test")
    s.sendall(get("other.test"))
    return receive(s)[9:12].decode()
@trick
def no_server_name(): resolved("web.test"), resolved("x.wild.test"); return tls(WEB, None).version()
@trick
def ech():
    """A hello with an extension 0xfe0d (ECH), which the server ignores."""
    resolved("web.test"), resolved("x.wild.test")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context().wrap_bio(incoming, outgoing, server_hostname="web.test").do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = bytearray(outgoing.read())
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + struct.unpack_from(">H", hello, at)[0]
    at += 1 + hello[at]
    more = struct.pack(">HH", 0xfe0d, 8) + b"\0\0\1\0\1\1\0\0"
    hello[at + 2:at + 2] = more
    struct.pack_into(">H", hello, at, struct.unpack_from(">H", hello, at)[0] + len(more))
    struct.pack_into(">H", hello, 3, len(hello) - 5)
    struct.pack_into(">I", hello, 5, 1 << 24 | len(hello) - 9)
    s = tcp(WEB, 443)
    s.sendall(hello)
    return {0x16: "a server's hello", 0x15: "alert"}.get(s.recv(1)[0])
@trick
def second_hello():
    """A record that isn't a hello."""
    s = tcp(WEB, 443)
    s.sendall(b"\x16\x03\x01\0\x05\1\0\0\1\0")
    return {0x15: "alert"}.get((s.recv(1) or b"\0")[0], "closed")

# Addresses.

@trick
def direct_ip(): return statuses(get(OTHER), OTHER)
@trick
def direct_ip_as_allowed(): return statuses(get("web.test"), OTHER)
@trick
def metadata(): return statuses(get(METADATA), METADATA)
@trick
def metadata_as_allowed(): return statuses(get("web.test"), METADATA)
@trick
def private_as_allowed(): return statuses(get("web.test"), PRIVATE)
@trick
def raw_ip(): return echo(tcp(OTHER, 7001))
@trick
def mapped():
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:" + OTHER, 7002))
    return echo(s)
@trick
def mapped_web():
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:" + OTHER, 80))
    s.sendall(get("web.test"))
    return receive(s)[9:12].decode()
@trick
def unspec_reconnect():
    s = tcp(resolved("data.test"), 5432)
    if libc.connect(s.fileno(), struct.pack("H14x", 0), 16):
        raise OSError(ctypes.get_errno(), "disconnect")
    s.connect((OTHER, 7003))
    return echo(s)
@trick
def fast_open():
    s = socket.socket()
    s.settimeout(None)
    s.sendto(b"x", socket.MSG_FASTOPEN, (OTHER, 7004))
    return echo(s)
@trick
def mptcp():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    s.connect((OTHER, 7005))
    return echo(s)
OUT = "out" # the device that leads to all of these

def out_index(form): return struct.pack(form, socket.if_nametoindex(OUT))

@trick
def bind_to_device():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, OUT.encode())
    s.connect((resolved("data.test"), 5432))
    return "reached"
@trick
def bind_to_device_later():
    s = tcp(resolved("data.test"), 5432)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, OUT.encode())
    return "reached"
@trick
def bind_to_index():
    s = datagram()
    s.setsockopt(socket.SOL_SOCKET, 62, out_index("i")) # SO_BINDTOIFINDEX
    s.sendto(b"x", (resolved("data.test"), 9999))
    return echoed(s)
@trick
def unicast_device():
    s = datagram()
    s.setsockopt(socket.SOL_IP, 50, out_index("!I")) # IP_UNICAST_IF
    s.sendto(b"x", (resolved("data.test"), 9999))
    return echoed(s)
@trick
def packet_info():
    s = datagram()
    to = resolved("data.test"), 9999
    s.sendmsg([b"x"], [(socket.SOL_IP, 8, out_index("i8x"))], 0, to) # IP_PKTINFO
    return echoed(s)
@trick
def bind_to_link():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("fe80::77:1", 0, 0, socket.if_nametoindex(OUT)))
    s.connect((DATA6, 9999))
    s.send(b"x")
    return "reached"
@trick
def on_link():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.connect((LINK6, 9999, 0, socket.if_nametoindex(OUT)))
    s.send(b"x")
    s.sendto(b"x", (LINK6, 9999, 0, socket.if_nametoindex(OUT)))
    return echoed(s)
@trick
def mark():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 7)
    s.connect((OTHER, 7007))
    return echo(s)
# Datagrams.

def datagram():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(5)
    return s

def echoed(s): return "reached" if s.recv(99)[:4] == b"echo" else "nothing"

@trick
def udp_granted():
    s = datagram()
    s.connect((resolved("data.test"), 9999))
    s.send(b"x")
    return echoed(s)
@trick
def connected_then_sendto():
    s = datagram()
    s.connect((resolved("data.test"), 9999))
    return f"sent {s.sendto(b'x', (OTHER, 9001))}"
@trick
def send_many():
    class Part(ctypes.Structure): _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]
    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Part)), ("iovlen", ctypes.c_size_t),
                    ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_long), ("len", ctypes.c_uint)]
    at = lambda ip, port: struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8)
    s = datagram()
    all = (Message * 2)(*(Message(at(ip, port), 16, ctypes.pointer(Part(b"x", 1)), 1)
                          for ip, port in [(resolved("data.test"), 9999), (OTHER, 9002)]))
    return f"sent {libc.sendmmsg(s.fileno(), all, 2, 0)}"
@trick
def quic():
    s = datagram()
    s.sendto(b"\xc0" + bytes(1199), (resolved("web.test").split(",")[0], 443))
    return echoed(s)
@trick
def quic_connected():
    s = datagram()
    s.connect((WEB, 4433))
    s.send(b"\xc0" + bytes(1199))
    return echoed(s)

# Source routes: the hosts on them get the packets first, and forward them or not.

@trick
def source_route():
    s = datagram()
    hop = bytes([131, 7, 4]) + socket.inet_aton(OTHER) # IPOPT_LSRR
    s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, hop + bytes(1))
    return f"sent {s.sendto(b'x', (resolved('data.test'), 9999))}"
@trick
def routing_header():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    at = lambda a: socket.inet_pton(socket.AF_INET6, a)
    segments = bytes([0, 4, 4, 1, 1, 0, 0, 0]) + at(DATA6) + at(HOP6) # RFC 8754
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RTHDR, segments)
    return f"sent {s.sendto(b'x', (DATA6, 9999))}"

# Sockets other than internet sockets of TCP and UDP.

def made(*args): socket.socket(*args); return "made"
@trick
def raw_socket(): return made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
@trick
def raw_socket6(): return made(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP)
@trick
def packet_socket(): return made(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
@trick
def netlink_audit(): return made(socket.AF_NETLINK, socket.SOCK_RAW, 15) # uevents
@trick
def vsock(): return made(40, socket.SOCK_STREAM)
@trick
def sctp(): return made(socket.AF_INET, socket.SOCK_STREAM, 132)
@trick
def mptcp_socket(): return made(socket.AF_INET, socket.SOCK_STREAM, 262)
@trick
def ping(): return made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
@trick
def io_uring(): return "made" if libc.syscall(425, 8, (ctypes.c_char * 120)()) >= 0 else errno.errorcode[ctypes.get_errno()]

# Multicast groups: the kernel announces a join to the local network, with an address that the process chooses.

def option(level, name, value):
    s = socket.socket(socket.AF_INET6 if level == socket.IPPROTO_IPV6 else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(level, name, value)
    return "set"
GROUP, GROUP6 = socket.inet_aton("239.1.2.3"), socket.inet_pton(socket.AF_INET6, "ff02::1234")
LO, LO_INDEX = socket.inet_aton("127.0.0.1"), struct.pack("=I", 1)
def stored(a): return struct.pack("=H2x4s120x" if len(a) == 4 else "=H6x16s104x", socket.AF_INET if len(a) == 4 else socket.AF_INET6, a)
def group(*addresses): return LO_INDEX + bytes(4) + b"".join(stored(a) for a in addresses)
@trick
def join_group(): return option(socket.IPPROTO_IP, 35, GROUP + LO)
@trick
def join_source(): return option(socket.IPPROTO_IP, 39, GROUP + LO + socket.inet_aton(OTHER))
@trick
def join_any_group(): return option(socket.IPPROTO_IP, 42, group(GROUP))
@trick
def join_any_source(): return option(socket.IPPROTO_IP, 46, group(GROUP, socket.inet_aton(OTHER)))
@trick
def join_group6(): return option(socket.IPPROTO_IPV6, 20, GROUP6 + LO_INDEX)
@trick
def join_anycast6(): return option(socket.IPPROTO_IPV6, 27, socket.inet_pton(socket.AF_INET6, "::1") + LO_INDEX)
@trick
def join_any_group6(): return option(socket.IPPROTO_IPV6, 42, group(GROUP6))
@trick
def join_any_source6(): return option(socket.IPPROTO_IPV6, 46, group(GROUP6, socket.inet_pton(socket.AF_INET6, DATA6)))

# A foreign source address, whose answers would go to other hosts.

@trick
def freebind(): return option(socket.IPPROTO_IP, 15, b"\1\0\0\0")
@trick
def freebind6(): return option(socket.IPPROTO_IPV6, 78, b"\1\0\0\0")
@trick
def transparent(): return option(socket.IPPROTO_IP, 19, b"\1\0\0\0")
@trick
def transparent6(): return option(socket.IPPROTO_IPV6, 75, b"\1\0\0\0")

# Names.

@trick
def dns_denied(): return dns("other.test")
@trick
def dns_by_tcp(): return dns("second-secret.test", over_tcp=True)
@trick
def dns_by_another_server(): return dns("other.test", server=OTHER)
@trick
def dns_over_tls(): return tls(NAMES, "ns.test", 853).version()
@trick
def dns_over_https():
    s = tls(NAMES, "ns.test")
    s.sendall(get("ns.test", "/dns-query?dns=AAAB"))
    return receive(s)[9:12].decode()
@trick
def tunnel_in_name(): return dns(".".join(["0123456789abcdef" * 3] * 3) + ".wild.test")
@trick
def tunnel_in_labels(): return dns(".".join("abcdefgh") + ".wild.test")
@trick
def tunnel_elsewhere(): return dns("secret.second-zone.test")
@trick
def tunnel_in_txt(): return dns("text.test", 16)
@trick
def https_record(): return dns("web.test", 65)
@trick
def alias(): return resolved("alias.test")
@trick
def alias_to_denied(): return resolved("alias-other.test")
@trick
def alias_to_private(): return resolved("alias-inside.test")
@trick
def name_of_private(): return resolved("private.test")
@trick
def name_of_metadata(): return resolved("metadata.test")
@trick
def name_of_metadata6(): return dns("metadata6.test", 28)
@trick
def name_of_loopback(): return resolved("loopback.test")
@trick
def name_of_mapped(): return dns("mapped.test", 28)
@trick
def name_of_both(): return resolved("mixed.test")

# Requests past a rule about paths and methods: second.test grants GET of /open.

def second(path, fields="", method="GET"): return statuses(get("second.test", path, fields, method))
@trick
def path_granted(): return second("/open/a")
@trick
def path_denied(): return second("/shut")
@trick
def path_with_prefix(): return second("/opened")
@trick
def path_dots(): return second("/open/../shut")
@trick
def path_percent_dots(): return second("/open/%2e%2e/shut")
@trick
def path_percent_slash(): return second("/open%2f..%2fshut")
@trick
def path_backslash(): return second("/open\\..\\shut")
@trick
def path_double_slash(): return second("//open/../shut")
@trick
def path_semicolon(): return second("/open/..;/shut")
@trick
def path_nul(): return second("/open/%00/../../shut")
@trick
def path_rewritten(): return second("/open/a", "X-Original-URL: /shut\r\n")
@trick
def method_override(): return second("/open/a", "X-HTTP-Method-Override: DELETE\r\n")
@trick
def method_denied(): return second("/open/a", "Content-Length: 0\r\n", "POST")
@trick
def pipelined(): return statuses(b"GET /open/a HTTP/1.1\r\nHost: second.test\r\n\r\n" + get("second.test", "/shut/pipelined"))
@trick
def kept_alive():
    s = tcp(WEB, 80)
    s.sendall(b"GET /open/a HTTP/1.1\r\nHost: second.test\r\n\r\n")
    time.sleep(0.3)
    first = s.recv(4096)
    s.sendall(get("second.test", "/shut/kept-alive"))
    return codes(first + receive(s))
def careless(raw): return statuses(raw, port=CARELESS)
@trick
def two_lengths():
    inner = get("second.test:8091", "/shut/smuggled")
    return careless(f"GET /open/a HTTP/1.1\r\nHost: second.test:8091\r\nContent-Length: {len(inner)}\r\nContent-Length: 0\r\n\r\n".encode() + inner)
@trick
def length_and_chunks():
    inner = get("second.test:8091", "/shut/smuggled")
    chunk = f"{len(inner):x}\r\n".encode()
    return careless(f"GET /open/a HTTP/1.1\r\nHost: second.test:8091\r\nContent-Length: {len(chunk)}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk + inner + b"\r\n0\r\n\r\n")
@trick
def line_feeds_end_a_head(): return careless(b"GET /open/a HTTP/1.1\r\nHost: second.test:8091\r\nX: y\n\n" + get("second.test:8091", "/shut/smuggled"))
@trick
def bare_line_feeds(): return statuses(b"GET /open/a HTTP/1.1\nHost: second.test\nConnection: close\n\n")
@trick
def two_hosts(): return statuses(b"GET /open/a HTTP/1.1\r\nHost: second.test\r\nHost: other.test\r\nConnection: close\r\n\r\n")
@trick
def absolute_form(): return statuses(b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
@trick
def absolute_form_unlike_host(): return statuses(b"GET http://other.test/ HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n")
@trick
def absolute_form_of_path(): return statuses(b"GET http://second.test/shut/absolute HTTP/1.1\r\nHost: second.test\r\nConnection: close\r\n\r\n")
@trick
def authority_form(): return statuses(get("second.test", "second.test:80"))
@trick
def connect(): return statuses(get("other.test:443", "other.test:443", method="CONNECT"))
def upgraded(path, to, fields=""):
    """The answer of a server that changes to any protocol, and whether it then echoes its input."""
    s = tcp(WEB, CARELESS)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: second.test:8091\r\nUpgrade: {to}\r\nConnection: Upgrade\r\n{fields}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head and (part := s.recv(1)):
        head += part
    s.sendall(get("second.test:8091", "/shut/tunnelled", "X-Through: it\r\n"))
    s.shutdown(socket.SHUT_WR)
    return head[9:12].decode() + " through" * (b"X-Through" in receive(s))
@trick
def websocket_granted(): return upgraded("/chat", "websocket")
@trick
def websocket(): return upgraded("/open/ws", "websocket")
@trick
def h2c_upgrade(): return upgraded("/open/a", "h2c", "HTTP2-Settings: AAMAAABkAAQAAP__\r\n")
@trick
def other_upgrade(): return upgraded("/open/a", "tls/1.0, anything")
@trick
def h2c_at_once():
    s = tcp(WEB, 80)
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    return "answered" if s.recv(9) else "closed"
@trick
def host_with_port(): return statuses(get("web.test:80"))
@trick
def host_with_another_port(): return statuses(get("web.test:8081"))
@trick
def host_with_dot_and_capitals(): return statuses(get("WEB.test."))
@trick
def host_with_user(): return statuses(get("web.test@other.test"))
@trick
def host_decimal(): return statuses(get("2130706433"))
@trick
def host_hex(): return statuses(get("0x7f.1"))
@trick
def host_octal(): return statuses(get("0177.0.0.1"))
@trick
def host_zone(): return statuses(get("[fe80::1%25lo]"))
@trick
def host_nul(): return statuses(get("other.test\0.web.test"))
@trick
def host_space(): return statuses(get("web.test other.test"))
@trick
def host_newline(): return careless(get("second.test:8091\r\n other.test", "/open/a"))
@trick
def host_unicode(): return statuses(get("web.test\u3002other.test"))
@trick
def host_empty(): return statuses(get(""))
@trick
def name_decimal(): return tcp("2539979010", 7008) and "reached" # inet_aton parses it as OTHER
@trick
def name_hex(): return tcp("0x97650102", 7009) and "reached"


names = sys.argv[1:]
if apart := names[0] == "apart":
    del names[0]
for name in names:
    if apart and (child := os.fork()):
        os.waitpid(child, 0)
        print(name, "by", "->", child, flush=True)
        continue
    try:
        got = tricks[name]()
    except ssl.SSLError as e:
        got = "alert" if "ALERT" in str(e).upper() else repr(e)
    except socket.gaierror as e:
        got = "unresolved"
    except OSError as e:
        got = errno.errorcode.get(e.errno, repr(e))
    print(name, "->", got, flush=True)
    if apart:
        os._exit(0)
