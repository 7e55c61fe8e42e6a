// Command network measures what the network costs under toolguard, compared with no proxy and with other proxies: throughput,
// requests, and beginnings of connections. It prints tables, and is to be started as root in namespaces of its own, for its network and
// its mounts (scripts/bench). Server, client and what is between them are all on this machine's loopback device.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

// The server, which counts as one on the internet here.
const (
	name    = "bench.test"
	address = "93.184.215.1"
)

func main() {
	if len(os.Args) == 6 && os.Args[1] == "client" {
		exit(client(os.Args[2], os.Args[3], os.Args[4], os.Args[5] == "tls"))
	}
	rounds := flag.Int("rounds", 7, "how often each is measured")
	mib := flag.Int("mib", 256, "how much a transfer is")
	often := flag.Int("often", 1000, "how many requests, or connections, are measured at once")
	flag.Parse()
	exit(measureAll(flag.Arg(0), *rounds, *mib, *often))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measured is an order to a client, and the conversion of its result.
type measured struct {
	title, order string
	convert      func(each time.Duration) float64
	unit         string
	tls          bool // there, too
}

func measureAll(built string, rounds, mib, often int) error {
	dir, err := os.MkdirTemp("/tmp", "toolguard-bench-net-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), makeInternet(dir)); err != nil {
		return err
	}
	ways, err := begin(dir, built)
	if err != nil {
		return err
	}
	defer end(ways)
	rate := func(n int) func(time.Duration) float64 {
		return func(d time.Duration) float64 { return float64(n) / d.Seconds() }
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(often) }
	all := []measured{
		{"from the server", fmt.Sprint("down ", mib), rate(mib), "MiB/s", true},
		{"to it", fmt.Sprint("up ", mib), rate(mib), "MiB/s", true},
		{"requests, one after the other", fmt.Sprint("requests ", often), rate(often), "1/s", true},
		{"to connect", fmt.Sprint("connect ", often), each, "µs", false},
		{"to connect, ask, and be answered", fmt.Sprint("fresh ", often), each, "µs", false},
	}
	times := make([][][]time.Duration, len(all)) // by what is measured, and by the way
	for i := range times {
		times[i] = make([][]time.Duration, len(ways))
	}
	for round := -1; round < rounds; round++ { // the first is to warm up
		for i, m := range all {
			for _, w := range rand.Perm(len(ways)) {
				if ways[w].tls && !m.tls {
					continue
				}
				took, err := ways[w].ask(m.order)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", ways[w].name, m.order, err)
				}
				if round >= 0 {
					times[i][w] = append(times[i][w], took)
				}
			}
		}
	}
	for _, tls := range []bool{false, true} {
		table(os.Stdout, tls, all, ways, times)
	}
	return nil
}

// table is a row for each way, with the median of each measure, and what that is of the bare one's.
func table(out io.Writer, tls bool, all []measured, ways []*way, times [][][]time.Duration) {
	title, line := "Without TLS", "|---|"
	if tls {
		title = "Under TLS"
	}
	head := "| way |"
	for _, m := range all {
		if m.tls || !tls {
			head += fmt.Sprintf(" %s, %s | of bare |", m.title, m.unit)
			line += "---|---|"
		}
	}
	fmt.Fprintf(out, "\n### %s\n\n%s\n%s\n", title, head, line)
	bare := slices.IndexFunc(ways, func(w *way) bool { return w.tls == tls })
	for w := range ways {
		if ways[w].tls != tls {
			continue
		}
		fmt.Fprintf(out, "| %s |", ways[w].name)
		for i, m := range all {
			if m.tls || !tls {
				got, base := m.convert(median(times[i][w])), m.convert(median(times[i][bare]))
				fmt.Fprintf(out, " %.*f | %.1f %% |", digits(got), got, 100*got/base)
			}
		}
		fmt.Fprintln(out)
	}
}

func digits(x float64) int {
	if x < 1000 {
		return 1
	}
	return 0
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// makeInternet makes the server look as if it were on the internet, in these namespaces, which no other process may share.
func makeInternet(dir string) error {
	ca, err := nettest.NewAuthority()
	if err != nil {
		return err
	}
	resolv := filepath.Join(dir, "resolv.conf")
	return errors.Join(
		// Otherwise, after many connections, the search for a free port becomes slower and slower.
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), nettest.LocalAddresses(address),
		os.WriteFile("/proc/sys/net/ipv4/tcp_max_tw_buckets", []byte("0"), 0o644),
		unix.Mount("none", "/dev/shm", "tmpfs", 0, ""), // squid leaves files there that prevent another one from starting
		os.WriteFile(resolv, []byte("nameserver 127.0.0.53\n"), 0o644), unix.Mount(resolv, "/etc/resolv.conf", "", unix.MS_BIND, ""),
		os.WriteFile(authorities(dir), ca.PEM, 0o644), serve(ca),
	)
}

// authorities is the file of the server's authority.
func authorities(dir string) string { return filepath.Join(dir, "ca.pem") }
