//go:build linux

package net

import (
	"archive/zip"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

// Addresses in the network namespace with real servers (needsServers), behind a pair of devices.
const (
	nameIP     = "151.101.1.53"
	webIP      = "151.101.1.1" // of web.test and of others
	otherIP    = "151.101.1.2" // of other.test
	shellIP    = "151.101.1.22"
	dataIP     = "151.101.1.32"
	web6       = "2a04:4e42::1"
	link6      = "fe80::77:2" // on the device that leads there only
	metadataIP = "169.254.169.254"
	privateIP  = "192.168.77.7"
)

// part is a group of real servers, which start when a test needs them.
type part struct {
	needs []string // programs, and patterns of files
	start func() error
}

// All real servers need the name server and the web servers; some clients need another part.
var (
	web = part{
		[]string{"knotd", "knotc", "nginx"},
		sync.OnceValue(func() error {
			return errors.Join(realInternet.serveWeb(), realInternet.serveEchoes(), realInternet.reachable(webIP+":80", webIP+":443", "["+web6+"]:443"))
		}),
	}
	files = part{[]string{"git"}, sync.OnceValue(func() error { return realInternet.publish() })}
	shell = part{
		[]string{"sshd", "ssh-keygen", "ssh"},
		sync.OnceValue(func() error { return errors.Join(realInternet.serveShell(), realInternet.reachable(shellIP+":22")) }),
	}
	data = part{
		[]string{"redis-server", "redis-cli", "psql", "iperf3", initdbs},
		sync.OnceValue(func() error {
			return errors.Join(realInternet.serveData(), realInternet.reachable(dataIP+":5433", dataIP+":6379", dataIP+":5201"))
		}),
	}
	proxies = part{
		[]string{"squid", "tinyproxy"},
		sync.OnceValue(func() error {
			return errors.Join(realInternet.serveProxies(), realInternet.reachable(dataIP+":3128", dataIP+":8888"))
		}),
	}
)

const initdbs = "/usr/lib/postgresql/*/bin/initdb"

// missing returns the missing programs and files.
func (p *part) missing() (names []string) {
	for _, name := range p.needs {
		_, err := exec.LookPath(name)
		if found, _ := filepath.Glob(name); err != nil && len(found) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// require skips a test if a part can't start here.
func (p *part) require(t *testing.T) {
	t.Helper()
	if names := p.missing(); names != nil {
		t.Skip("needs ", strings.Join(names, ", "), ": scripts/setup test")
	}
	must(t, p.start())
}

// internet is the other network namespace, with a thread of this process that runs functions there.
type internet struct {
	dir    string // of the servers, readable for all users
	thread int
	todo   chan func()
	ca     *nettest.Authority

	mu    sync.Mutex // for the names
	names map[string]string
}

// realInternet has the real servers; nil: this machine lacks requirements.
var realInternet *internet

func newInternet(ca *nettest.Authority) (*internet, error) {
	dir, err := os.MkdirTemp("", "net-servers-")
	if err != nil {
		return nil, err
	}
	n := &internet{dir: dir, todo: make(chan func()), ca: ca, names: map[string]string{}}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread is in the namespace
		n.thread = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for do := range n.todo {
			do()
		}
	}()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "bin"), 0o755), <-ready, n.wire()); err != nil {
		return nil, err
	}
	for name, addrs := range zone {
		n.names[name] = strings.Join(addrs, " ")
	}
	for name, value := range names {
		n.names[name] = value
	}
	return n, n.serveNames()
}

// wire connects the two namespaces.
func (n *internet) wire() error {
	var there []string
	for _, a := range []string{nameIP, webIP, otherIP, shellIP, dataIP, metadataIP, privateIP} {
		there = append(there, a+"/32")
	}
	out := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "out"}, PeerName: "in", PeerNamespace: netlink.NsPid(n.thread)}
	if err := netlink.LinkAdd(out); err != nil {
		return err
	}
	return errors.Join(
		n.run(func() error {
			return errors.Join(nettest.Loopback(append(there, web6)...), nettest.Address("in", "100.64.0.2/30", "fd77::2/64", link6+"/64"))
		}),
		nettest.Address("out", "100.64.0.1/30", "fd77::1/64", "fe80::77:1/64"),
		netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP("100.64.0.2")}), netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP("fd77::2")}),
	)
}

// run runs a function in the namespace.
func (n *internet) run(f func() error) error {
	over := make(chan error)
	n.todo <- func() { over <- f() }
	return <-over
}

// start starts a server that ends with this process.
func (n *internet) start(uid uint32, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = n.dir
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return n.run(cmd.Start)
}

// file writes a file for the servers.
func (n *internet) file(name, text string) string {
	file := filepath.Join(n.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, 0o644))
	for d := filepath.Dir(file); d != n.dir; d = filepath.Dir(d) {
		err = errors.Join(err, os.Chmod(d, 0o755))
	}
	if err != nil {
		panic(err)
	}
	return file
}

// names is the zone of the real servers: addresses, or "-> name", or text in quotes.
var names = map[string]string{
	"web.test":             webIP + " " + web6,
	"second.test":          webIP, // a second name of the same server
	"many.test":            otherIP + " " + webIP,
	"other.test":           otherIP,
	"*.wild.test":          webIP,
	"alias.test":           "-> web.test",
	"alias-other.test":     "-> other.test",
	"alias-inside.test":    "-> private.test",
	"private.test":         privateIP,
	"metadata.test":        metadataIP,
	"metadata6.test":       "fd00:ec2::254",
	"loopback.test":        "127.0.0.1",
	"mapped.test":          "::ffff:127.0.0.1",
	"mixed.test":           webIP + " 127.0.0.1",
	"moving.test":          webIP,
	"brief.test":           otherIP,
	"git.test":             webIP,
	"packages.test":        webIP,
	"shell.test":           shellIP,
	"data.test":            dataIP,
	"proxy.test":           dataIP,
	"third.test":           otherIP,
	"text.test":            `"hello"`,
	"_https._tcp.web.test": `"none"`,
}

// zoneFile returns all names as a root zone.
func (n *internet) zoneFile() string {
	z := strings.Builder{}
	fmt.Fprintf(&z, ". 5 SOA a. a. %d 60 60 60 1\n. 60 NS ns.test.\nns.test. 60 A %s\nweb.test. 60 HTTPS 1 other.test.\n", time.Now().UnixNano()/1e6%1e9, nameIP)
	for name, value := range n.names {
		if to, ok := strings.CutPrefix(value, "-> "); ok {
			fmt.Fprintf(&z, "%s. 2 CNAME %s.\n", name, to)
			continue
		}
		for _, a := range strings.Fields(value) {
			kind := "A"
			switch {
			case strings.HasPrefix(a, `"`):
				kind = "TXT"
			case strings.Contains(a, ":"):
				kind = "AAAA"
			}
			fmt.Fprintf(&z, "%s. 2 %s %s\n", name, kind, a)
		}
	}
	return z.String()
}

// serveNames starts the name server.
func (n *internet) serveNames() error {
	n.file("zone", n.zoneFile())
	conf := n.file("knot.conf", fmt.Sprintf(`
server:
  listen: %[2]s@53
  rundir: %[1]s
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
control:
  listen: %[1]s/knot.sock
database:
  storage: %[1]s/knot
zone:
  - domain: .
    file: %[1]s/zone
    journal-content: none
    zonefile-sync: -1
log:
  - target: stderr
    any: warning
`, n.dir, nameIP))
	if err := n.start(0, "knotd", "-c", conf); err != nil {
		return err
	}
	return n.reachable(nameIP + ":53")
}

// setName changes the address of a name.
func (n *internet) setName(t *testing.T, name, to string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = to
	n.file("zone", n.zoneFile())
	if out, err := exec.Command("knotc", "-b", "-c", filepath.Join(n.dir, "knot.conf"), "zone-reload", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// reachable waits until a server listens at each address.
func (n *internet) reachable(addrs ...string) error {
	for _, a := range addrs {
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			c, err := net.DialTimeout("tcp", a, time.Second)
			if err == nil {
				_ = c.Close()
				break
			}
			if time.Now().After(end) {
				log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
				return fmt.Errorf("%w: the servers' log: %s", err, log)
			}
		}
	}
	return nil
}

// needsServers skips a test if the real web servers can't start here.
func needsServers(t *testing.T, clients ...string) {
	t.Helper()
	if missing != "" {
		t.Skip("needs ", missing)
	}
	needs(t, clients...)
	web.require(t)
}

// serveWeb starts a web server for all names on every address. Ports 80 and 8081 serve HTTP/1, 8082 HTTP/2 without TLS, and 443 and 853 TLS.
func (n *internet) serveWeb() error {
	cert, err := n.ca.Certify(slices.Collect(maps.Keys(n.names))...)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(n.ca.Key)
	if err != nil {
		return err
	}
	n.file("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	n.file("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	conf := n.file("nginx.conf", fmt.Sprintf(`
daemon off; master_process off; user root; pid %[1]s/nginx.pid; error_log stderr warn; worker_rlimit_nofile 50000;
events { worker_connections 40000; }
http {
	access_log off; root %[1]s/www; default_type text/plain; keepalive_timeout 600s; client_max_body_size 0;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	server {
		listen 80 default_server; listen [::]:80 default_server; listen 8081; listen 8082 http2;
		listen 443 ssl http2 default_server; listen [::]:443 ssl http2 default_server; listen 853 ssl;
		ssl_certificate cert.pem; ssl_certificate_key key.pem;
		location / { return 200 "real $request_method $scheme://$http_host$request_uri by $server_protocol at $server_addr\n"; }
		location /files/ { alias %[1]s/www/; autoindex on; }
		location /upload/ { alias %[1]s/uploads/; dav_methods PUT; create_full_put_path on; }
	}
}
`, n.dir))
	return n.start(0, "sh", "-c", `ulimit -n 50000; exec nginx -p "$0" -c "$1"`, n.dir, conf)
}

// publish makes a repository for git, and a package each for pip and npm.
func (n *internet) publish() error {
	wheel := bytes.Buffer{}
	z := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"small.py": "", "small-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n",
		"small-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "small-1.0.dist-info/RECORD": "",
	} {
		w, err := z.Create(name)
		if err != nil {
			return err
		}
		fmt.Fprint(w, text)
	}
	err := z.Close()
	self, err2 := os.Executable()
	err = errors.Join(err, err2)
	n.file("www/simple/small/small-1.0-py3-none-any.whl", wheel.String())
	n.file("www/simple/small/index.html", `<a href="small-1.0-py3-none-any.whl">small</a>`)
	n.file("www/npm/small", `{"name": "small", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "small", "version": "1.0.0",
		"dist": {"tarball": "https://packages.test/files/npm/small-1.0.0.tgz"}}}}`)
	n.file("package/package.json", `{"name": "small", "version": "1.0.0"}`)
	cmd := exec.Command("sh", "-ec", `umask 022
cp "$0" bin/get
tar -czf www/npm/small-1.0.0.tgz package
git init -q repo; cd repo; echo "from the repository" >file; git add file; git -c user.name=t -c user.email=t@example.com commit -qm first
git clone -q --bare . ../www/repo.git; git -C ../www/repo.git update-server-info; cp -r ../www/repo.git ../www/other.git`, self)
	cmd.Dir = n.dir
	out, err2 := cmd.CombinedOutput()
	if err2 != nil {
		err2 = fmt.Errorf("%w: %s", err2, out)
	}
	return errors.Join(err, err2)
}

// serveEchoes starts servers that answer with their names, one per trick.
func (n *internet) serveEchoes() error {
	return n.run(func() error {
		errs := []error{nettest.Echo("tcp", dataIP+":5432")}
		for port := 7001; port <= 7009; port++ {
			errs = append(errs, nettest.Echo("tcp", fmt.Sprintf("%s:%d", otherIP, port)))
		}
		for _, at := range []string{dataIP + ":9999", otherIP + ":9001", otherIP + ":9002", webIP + ":443", webIP + ":4433"} {
			errs = append(errs, nettest.Echo("udp", at))
		}
		return errors.Join(append(errs, serveCareless(webIP+":8091"), nettest.Echo("udp", "["+link6+"%in]:9999"))...)
	})
}

// serveShell starts an SSH server that accepts root with a key.
func (n *internet) serveShell() error {
	for _, name := range []string{"hostkey", "key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(n.dir, name)).CombinedOutput(); err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(n.dir, "key.pub"))
	if err != nil {
		return err
	}
	host, err := os.ReadFile(filepath.Join(n.dir, "hostkey.pub"))
	if err != nil {
		return err
	}
	n.file("authorized", string(public))
	n.file("known", "* "+string(bytes.TrimSpace(host))+"\n")
	conf := n.file("sshd.conf", fmt.Sprintf(`
HostKey %[1]s/hostkey
AuthorizedKeysFile %[1]s/authorized
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PidFile none
`, n.dir))
	sshd, err := exec.LookPath("sshd") // sshd needs its absolute path
	return errors.Join(err, os.MkdirAll("/run/sshd", 0o755), n.start(0, sshd, "-D", "-e", "-f", conf))
}

const nobodyUID = 65534

// serveData starts PostgreSQL, Redis and iperf3.
func (n *internet) serveData() error {
	found, err := filepath.Glob(initdbs)
	if err != nil {
		return err
	}
	db, bin := filepath.Join(n.dir, "db"), filepath.Dir(found[0])
	if err := errors.Join(os.Mkdir(db, 0o700), os.Chown(db, nobodyUID, nobodyUID)); err != nil {
		return err
	}
	cmd := exec.Command(found[0], "-D", db, "-U", "postgres", "-A", "trust", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(db, "pg_hba.conf"), []byte("host all all 0.0.0.0/0 trust\n"), 0o644); err != nil {
		return err
	}
	return errors.Join(os.Chown(filepath.Join(db, "pg_hba.conf"), nobodyUID, nobodyUID),
		n.start(nobodyUID, filepath.Join(bin, "postgres"), "-D", db, "-h", dataIP, "-p", "5433", "-c", "unix_socket_directories=", "-c", "fsync=off"),
		n.start(nobodyUID, "redis-server", "--bind", dataIP, "--save", "", "--protected-mode", "no", "--dir", "/"),
		n.start(nobodyUID, "iperf3", "-s", "-B", dataIP))
}

// serveProxies starts squid and tinyproxy without access rules.
func (n *internet) serveProxies() error {
	squid := n.file("squid.conf", nettest.Squid(dataIP, "3128"))
	tinyproxy := n.file("tinyproxy.conf", nettest.Tinyproxy(dataIP, "8888"))
	return errors.Join(n.start(nobodyUID, "squid", "-N", "-f", squid), n.start(nobodyUID, "tinyproxy", "-d", "-c", tinyproxy))
}
