package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/tool/hook/endpoint"
	"github.com/toolguard/toolguard/internal/version"
)

// longestHook is the longest deadline of a hook in a policy.
const longestHook = time.Minute

// hook posts a tool call to the address of a hook: toolguard starts it as its user, without settings.
func hook(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("toolguard-ship hook", flag.ContinueOnError)
	timeout := flags.Duration("timeout", longestHook, "end after `DURATION`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected %q: the address and the call are on the input", flags.Args())
	}
	if err := allowlist.Load(allowlist.Ship); err != nil {
		return err
	}
	if err := limitMemory(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(*timeout, longestHook))
	defer cancel()
	a, err := endpoint.Serve(ctx, in, "toolguard/"+version.String())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(a)
}
