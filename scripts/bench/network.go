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
	fmt.Fprintf(out, `On this machine's loopback device, with client, server and what is between them on its processors: medians of rounds in which
all took turns. Of MiB/s and requests more is better, of µs less. "Bare, again" shows which differences mean nothing. Of an address the
kernel alone decides, and what is sent goes straight to the server; what is decided by name goes through egress, which programs needn't
know of, as they must of a proxy. Under TLS tinyproxy, squid and egress by the server name pass on what they can't read; tls_intercept
and mitmproxy read it. Versions: %s; %s; %s.

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

Four threads of a session are refused connections and datagrams by the kernel's programs, as fast as they can ask, for 30 seconds. Each
refusal is told in the audit or counted there, or the benchmark fails. Beside it another user's session is refused something again and
again, for 30 seconds before and for these: how long after each it's in the audit, and with who listens.

| a second | told | counted | toolguardd, resident |
|---|---|---|---|
| %s | %s | %s | %s MiB |

| another user's denials | kept, median | worst | heard, median | worst |
|---|---|---|---|---|
`, is["denials/s"], is["reported"], is["counted"], is["MiB"])
	for _, when := range []string{"-alone", ""} {
		fmt.Fprintf(out, "| %s | %s ms | %s ms | %s ms | %s ms |\n", map[string]string{"-alone": "before", "": "meanwhile"}[when],
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
What the kernel's programs add to a TCP connection that they let through, by how many rules they hold. Two processes connect by turns, on
one processor; one of them is in a session. "Added" is the median of the rounds' differences. What it takes to connect by egress is in the first table.

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
