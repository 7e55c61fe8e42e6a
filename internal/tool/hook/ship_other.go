//go:build !linux

package hook

import (
	"context"
	"errors"
)

// Ship returns a Runner.URL that fails: toolguard-ship runs on Linux.
func Ship([]string) func(ctx context.Context, address string, body []byte) (int, []byte, error) {
	return func(context.Context, string, []byte) (int, []byte, error) {
		return 0, nil, errors.New("no address can be called here: hooks with a url need Linux")
	}
}
