package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// network runs scripts/bench/network in namespaces of its own.
func network(out io.Writer, toolguard string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: the user isn't root", errNotHere)
	}
	dir, err := os.MkdirTemp("", "toolguard-bench-net-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := output("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/network", "./scripts/bench/network"); err != nil {
		return err
	}
	built, err := filepath.Abs(filepath.Dir(toolguard))
	if err != nil {
		return err
	}
	tables, err := output("unshare", "--mount", "--net", dir+"/network", built)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `On this machine's loopback device, with client, server and proxies on its processors: medians of rounds in which
all took turns. More MiB/s and requests are better, fewer µs are better. "Bare, again" shows which differences are noise. The kernel alone decides about
addresses, and the data goes directly to the server. Connections by name go through egress, for which programs need no configuration,
unlike for a proxy. Under TLS tinyproxy, squid and egress by the server name pass on encrypted data; tls_intercept
and mitmproxy decrypt it. Versions: %s; %s; %s.

%s
`, firstLine("tinyproxy", "-v"), firstLine("squid", "-v"), firstLine("mitmdump", "--version"), tables)
	if err := connects(out); err != nil {
		return err
	}
	return floods(out)
}

// floods runs internal/daemon's benchmark of a session that causes denials of the network as fast as it can.
func floods(out io.Writer) error {
	text, err := output("go", "test", "-run", "^$", "-bench", "^BenchmarkNetworkFlood$", "-benchtime", "1x", "./internal/daemon", "-flood", "30s")
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	is := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 2 && strings.HasPrefix(words[0], "BenchmarkNetworkFlood") {
			for i := 2; i+1 < len(words); i += 2 {
				is[words[i+1]] = words[i]
			}
		}
	}
	if len(is) == 0 {
		return fmt.Errorf("can't parse the output of the benchmark of floods: %s", text)
	}
	fmt.Fprintf(out, `
### Denials of the network

BPF programs deny connections and datagrams of four threads of a session, as fast as the threads can try, for 30 seconds. The audit reports or
counts each denial, or the benchmark fails. Meanwhile, and for 30 seconds before, another user's session is denied repeatedly: the second table
has the time from each of its denials until the audit has it, and until a subscriber received it.

| denials a second | reported | counted | toolguardd, resident |
|---|---|---|---|
| %s | %s | %s | %s MiB |

| another user's denials | recorded, median | worst | received, median | worst |
|---|---|---|---|---|
`, is["denials/s"], is["reported"], is["counted"], is["MiB"])
	for _, when := range []string{"-alone", ""} {
		fmt.Fprintf(out, "| %s | %s ms | %s ms | %s ms | %s ms |\n", map[string]string{"-alone": "before", "": "during the flood"}[when],
			is["ms-recorded"+when], is["ms-recorded"+when+"-worst"], is["ms-received"+when], is["ms-received"+when+"-worst"])
	}
	return nil
}

// connects measures what the kernel's programs add to a connection, by internal/loader/cgroupsock's benchmark.
func connects(out io.Writer) error {
	text, err := output("go", "test", "-run", "^$", "-bench", "^BenchmarkConnect$", "-benchtime", "30x", "./internal/loader/cgroupsock")
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	fmt.Fprint(out, `
The time that BPF programs add to an allowed TCP connection, by the number of rules. Two processes connect in turn, on
one processor; one of them is in a session. "Added" is the median of the rounds' differences. The first table has the time to connect through egress.

| rules | bare | in a session | added |
|---|---|---|---|
`)
	rows := 0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var rules int
		var ns, added, bare, confined float64
		_, err := fmt.Sscanf(lines.Text(), "BenchmarkConnect/rules=%d-%d %d %f ns/op %f %%added %f µs/bare %f µs/confined", &rules, new(int), new(int), &ns, &added, &bare, &confined)
		if err == nil {
			fmt.Fprintf(out, "| %d | %.2f µs | %.2f µs | %.1f %% |\n", rules, bare, confined, added)
			rows++
		}
	}
	if rows == 0 {
		return fmt.Errorf("can't parse the output of the benchmark of connections: %s", text)
	}
	return nil
}
