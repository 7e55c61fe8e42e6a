package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// network has scripts/bench/network measure in namespaces of its own.
func network(out io.Writer, toolguard string) error {
	if os.Geteuid() != 0 {
		return errors.New("who asked isn't root")
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
	fmt.Fprintf(out, `On this machine's loopback device, with client, server and what is between them on its processors: medians of rounds in which all took
turns. "Bare, again" shows which differences mean nothing. Versions: %s; %s; %s.
%s
`, said("tinyproxy", "-v"), said("squid", "-v"), said("mitmdump", "--version"), tables)
	return nil
}
