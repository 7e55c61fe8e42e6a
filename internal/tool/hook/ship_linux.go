package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/ownprogram"
)

// shipped is what toolguard-ship writes in its mode "hook": endpoint.Answer, whose package links HTTP.
type shipped struct {
	Status int    `json:"status"`
	Body   []byte `json:"body"`
}

// Ship returns a Runner.URL that starts toolguard-ship, which is next to toolguard's own program. env is its environment: proxies and certificates
// are those of toolguard's user.
func Ship(env []string) func(ctx context.Context, address string, body []byte) (int, []byte, error) {
	return func(ctx context.Context, address string, body []byte) (int, []byte, error) {
		if strings.ContainsAny(address, "\r\n") {
			return 0, nil, errors.New("its address has a line break")
		}
		fd, err := ownprogram.Open("toolguard-ship", "calls the addresses of hooks")
		if err != nil {
			return 0, nil, err
		}
		defer unix.Close(fd)
		argv := []string{"toolguard-ship", "hook"}
		if at, ok := ctx.Deadline(); ok {
			argv = append(argv, "--timeout", max(time.Until(at), time.Millisecond).String()) // in case that this process is killed
		}
		// The address is on the input, as any process of the user can read command lines, and it may contain a secret.
		p := &program{
			path: fmt.Sprintf("/proc/self/fd/%d", fd), argv: argv, dir: "/", env: env,
			most: 2 * maxAnswer,
		}
		text, err := p.run(ctx, append([]byte(address+"\n"), body...))
		if err != nil {
			return 0, nil, err
		}
		var s shipped
		if err := json.Unmarshal(text, &s); err != nil {
			return 0, nil, fmt.Errorf("toolguard-ship's answer can't be read: %w", err)
		}
		return s.Status, s.Body, nil
	}
}
