package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// layers is the import table: of each package its level, its name, and everything that it imports besides the standard library.
// Packages of this module have no "internal/"; another module stands for all its packages. A package imports packages of lower
// levels only. docs/ARCHITECTURE.md says what each is for.
const layers = `
9 cmd/toolguard: cmd/toolguard/output api audit/report calls calls/ask calls/host calls/client darwin desktop event grant/lastrun jsonline ownprogram
	policy policy/explain policy/hostfs policy/netname policy/policyfile policy/policyload policy/tomlformat policy/toolset policy/written session
	session/backend session/launch terminal tool tool/catalog tool/gate tool/message tool/visibility userfiles version session/streams tool/access
	github.com/spf13/cobra github.com/spf13/pflag golang.org/x/sys policy/imports tool/manifest tool/manifest/load
9 cmd/toolguard-ship: allowlist desktop/notify event ship tool/hook/endpoint version golang.org/x/sys
9 cmd/toolguard-egress: egress/process
9 cmd/toolguardd: allowlist api audit audit/report daemon daemon/systemd egress/process loader version golang.org/x/sys
8 cmd/toolguard/output: api audit/report calls/ask darwin event grant grant/lastrun printable policy policy/explain policy/toolset session
	session/backend session/denials tool/gate tool/manifest tool/message tool/visibility userfiles github.com/spf13/cobra github.com/spf13/pflag
	golang.org/x/sys
8 daemon: api api/http1 audit cgroup cgroup/managed daemon/forward daemon/peer daemon/systemd event kernelaudit landlock loader loader/cgroupsock
	loader/image metrics policy policy/hostfs policy/policyfile proc session/denials session/network tool/message github.com/go-json-experiment/json github.com/pelletier/go-toml/v2
	golang.org/x/sys
8 calls/host: tool/gate api calls calls/serve calls/socket policy policy/hostfs policy/policyfile policy/policyload policy/toolset session tool
	tool/approval tool/callstate tool/constraint
7 calls: api api/http1 calls/serve event grant policy policy/explain policy/fspath policy/toolset tool tool/approval tool/binding tool/callstate
	tool/gate tool/hook tool/message tool/strictjson
7 session: api cgroup darwin darwin/oslog darwin/sandboxexec egress/control egress/loopback egress/message event kernelaudit landlock loader
	loader/cgroupsock loader/image policy policy/fspath seccomp session/backend session/denials session/launch session/launch/forkexec
	session/launch/forkexec/nofile session/network golang.org/x/sys
6 egress/process: allowlist egress egress/message egress/ownaddr landlock loader/cgroupsock policy golang.org/x/sys
6 session/backend: api bubblewrap cgroup darwin darwin/oslog darwin/sandboxexec firejail kernelaudit landlock loader loader/cgroupsock loader/image
	mounts policy policy/explain policy/hostfs proc seccomp session/launch session/network version golang.org/x/sys
5 daemontest: api
5 session/denials: api darwin/oslog egress/message event kernelaudit loader loader/cgroupsock loader/image policy policy/explain proc seccomp
	golang.org/x/sys
5 session/network: cgroup egress/control egress/message event loader/cgroupsock policy session/launch/forkexec golang.org/x/sys
5 tool: policy policy/fspath policy/toolset tool/constraint tool/gate tool/schema tool/visibility
4 allowlist: seccomp github.com/elastic/go-seccomp-bpf golang.org/x/sys
5 daemon/forward: api/http1 api daemon/peer tool/message golang.org/x/sys
5 calls/client: api api/http1 calls/socket tool/message
5 calls/serve: api api/http1 calls/socket daemon/peer tool/message golang.org/x/sys
1 calls/socket: userfiles golang.org/x/sys
4 api: api/http1 cgroup event kernelaudit policy github.com/go-json-experiment/json
0 api/http1:
0 lazy:
4 cgroup/managed: cgroup event policy github.com/containerd/cgroups/v3/cgroup2
4 egress: egress/dns egress/message egress/relay event policy policy/explain policy/netname golang.org/x/net golang.org/x/sys
4 egress/control: egress/message loader/cgroupsock ownprogram policy policy/netname session/launch/forkexec golang.org/x/sys
4 loader: loader/bpffs loader/image policy github.com/cilium/ebpf golang.org/x/sys
4 session/launch: kernelaudit landlock mounts policy policy/envname policy/fspath proc seccomp session/launch/forkexec golang.org/x/sys
3 cgroup: policy golang.org/x/sys
3 egress/message: event policy policy/explain
5 grant/lastrun: grant policy policy/hostfs policy/policyload userfiles golang.org/x/sys
4 grant: policy policy/explain policy/fspath policy/tomlformat policy/tomltext
5 darwin/sandboxexec/substitute:
4 darwin/sandboxexec: darwin policy
4 egress/loopback: egress/message
3 darwin: policy policy/fspath policy/netname golang.org/x/text
1 darwin/oslog: lazy
3 landlock: policy policy/fspath github.com/landlock-lsm/go-landlock golang.org/x/sys
3 loader/cgroupsock: event loader/bpffs policy policy/netname github.com/cilium/ebpf github.com/vishvananda/netlink golang.org/x/sys
3 loader/image: loader/bpffs policy policy/fspath
3 mounts: policy policy/fspath policy/hostfs golang.org/x/sys
4 bubblewrap: landlock mounts policy
4 firejail: landlock mounts policy proc golang.org/x/sys
4 mounts/mountstest: childtest landlock mounts policy policy/hostfs golang.org/x/sys
3 nettest: policy policy/hostfs github.com/vishvananda/netlink github.com/vishvananda/netns golang.org/x/net golang.org/x/sys
3 tool/gate: printable policy policy/explain policy/fspath policy/tomltext policy/toolset tool/message tool/patch tool/program tool/shell
	tool/strictjson github.com/go-json-experiment/json
1 tool/approval: policy/tomltext tool/message
0 tool/message:
6 calls/ask: calls/client tool/message golang.org/x/text
7 desktop: calls/ask ownprogram tool/message golang.org/x/sys
8 desktop/notify: desktop github.com/godbus/dbus/v5
7 terminal: calls/ask tool/message github.com/creack/pty golang.org/x/sys golang.org/x/term
1 tool/patch: lazy
1 tool/schema: tool/strictjson github.com/go-json-experiment/json
4 tool/callstate: policy/toolset tool/approval tool/constraint tool/message golang.org/x/sys
3 tool/constraint: policy/toolset
3 tool/binding: lazy policy/fspath printable tool/message tool/program tool/shell golang.org/x/sys
4 tool/hook: ownprogram policy/fspath policy/toolset printable proc tool/binding tool/strictjson golang.org/x/sys
0 tool/hook/endpoint:
3 tool/visibility: policy/toolset
5 tool/manifest/load: policy policy/hostfs policy/policyload tool/manifest
4 tool/manifest: event policy policy/explain policy/fspath policy/netname policy/toolset tool/schema tool/strictjson tool/visibility
2 tool/access: policy policy/fspath policy/netname
3 seccomp: policy proc golang.org/x/sys
3 ship: audit event metrics github.com/nats-io/nats.go github.com/nats-io/nkeys github.com/pelletier/go-toml/v2 golang.org/x/sys
2 audit: audit/report event
2 loader/loadertest: childtest policy policy/fspath golang.org/x/sys
2 policy/explain: policy policy/envname policy/fspath policy/netname policy/tomltext
2 policy/hostfs: policy/fspath
4 policy/policyload: policy policy/hostfs policy/policyfile seccomp userfiles
4 policy/written: policy policy/fspath policy/hostfs policy/policyfile userfiles
3 policy/imports: lazy policy/nearest policy/netname policy/tomltext policy/tomltree policy/toolset printable go.yaml.in/yaml/v3
3 policy/policyfile: policy policy/fspath policy/nearest policy/tomltext policy/tomltree policy/toolset tool/schema
2 policy/tomlformat: policy policy/tomltext policy/tomltree
2 policy/toolset: policy
2 policy/policytest: childtest policy policy/fspath policy/fspath/fspathtest pgregory.net/rapid
2 session/launch/forkexec: session/launch/forkexec/nofile golang.org/x/sys
1 daemon/peer: proc golang.org/x/sys
1 kernelaudit: golang.org/x/sys
1 policy: policy/envname policy/fspath policy/netname policy/tomltext github.com/go-json-experiment/json
1 policy/fspath/fspathtest: policy/fspath
0 audit/report:
0 daemon/systemd:
0 childtest: golang.org/x/sys
0 darwin/sbpltest:
0 egress/dns: golang.org/x/net/dns/dnsmessage
0 egress/ownaddr: github.com/vishvananda/netlink golang.org/x/sys
0 egress/relay: golang.org/x/sys
0 event: golang.org/x/sys
0 jsonline:
0 loader/bpffs: golang.org/x/sys
0 metrics:
0 policy/envname:
0 policy/fspath:
0 policy/netname: golang.org/x/net/idna
0 policy/nearest:
0 policy/tomltext:
0 policy/tomltree: github.com/pelletier/go-toml/v2
1 tool/program: lazy policy/envname
0 tool/strictjson: github.com/go-json-experiment/json
1 tool/catalog: tool/strictjson github.com/go-json-experiment/json
2 tool/shell: lazy tool/program mvdan.cc/sh/v3
0 printable:
0 ownprogram: golang.org/x/sys
0 proc: golang.org/x/sys
0 session/streams: golang.org/x/sys
0 session/launch/forkexec/nofile:
0 userfiles:
0 version:
`

// layer is a line of the table.
type layer struct {
	level   int
	name    string
	imports []string
}

func parseLayers(t *testing.T) (all []layer) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(strings.TrimSpace(layers), "\n\t", " ")) {
		head, imports, ok := strings.Cut(line, ":")
		var l layer
		if _, err := fmt.Sscan(head, &l.level, &l.name); err != nil || !ok {
			t.Fatalf("the import table has the line %q", line)
		}
		l.imports = strings.Fields(imports)
		all = append(all, l)
	}
	return all
}

// tools are packages that don't ship, with what they import. They have no level.
var tools = map[string]string{
	"scripts/bench/guest":   "github.com/cilium/ebpf golang.org/x/sys",
	"scripts/bench/network": "nettest golang.org/x/sys",
}

// TestImports also fails for an import in the table that the package doesn't have, so that the table shows the real imports.
func TestImports(t *testing.T) {
	imports := map[string][]string{}
	layers := parseLayers(t)
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range packages(t, goos) {
			name := short(p.ImportPath)
			imports[name] = append(append(imports[name], ""), p.Imports...)
		}
	}
	levels := map[string]int{}
	for _, l := range layers {
		levels[l.name] = l.level
	}
	for _, l := range layers {
		checkImports(t, l.name, l.imports, imports[l.name])
		for _, imported := range l.imports {
			if level, ours := levels[imported]; ours && level >= l.level {
				t.Errorf("%s (level %d) may not import %s (level %d)", l.name, l.level, imported, level)
			}
		}
	}
	for name := range imports {
		if _, ours := levels[name]; !ours {
			if !strings.HasPrefix(name, "scripts/") && !strings.HasPrefix(name, "test") {
				t.Errorf("%s has no line in the import table", name)
			}
			checkImports(t, name, strings.Fields(tools[name]), imports[name])
		}
	}
}

func checkImports(t *testing.T, name string, listed, imported []string) {
	t.Helper()
	if imported == nil {
		t.Errorf("the import table has %s, which isn't there", name)
	}
	used := map[string]bool{}
	for _, i := range imported {
		if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
			continue // the standard library
		}
		i = short(i)
		at := slices.IndexFunc(listed, func(l string) bool {
			module := strings.Contains(l, ".")
			return i == l || module && strings.HasPrefix(i, l+"/")
		})
		if at < 0 {
			t.Errorf("%s may not import %s", name, i)
			continue
		}
		used[listed[at]] = true
	}
	for _, l := range listed {
		if !used[l] {
			t.Errorf("the import table has %s for %s, which doesn't import it", l, name)
		}
	}
}

// short is a package's path as the import table has it.
func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module+"/"), "internal/")
}
