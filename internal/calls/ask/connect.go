package ask

import (
	"context"
	"errors"

	"github.com/toolguard/toolguard/internal/calls/client"
)

// Connect returns the source at one address: a path, or fd:N.
func Connect(address string) Source {
	s := newServer(client.Found{Address: address})
	s.Several = false
	return Servers(func(context.Context) ([]Server, error) { return []Server{s}, nil })
}

// All returns the source of all of a user's sessions. Their processes are looked for each time.
func All(home string, getenv func(string) string) Source {
	return Servers(func(ctx context.Context) (list []Server, err error) {
		found, err := client.Sockets(ctx, home, getenv)
		if len(found) == 0 {
			return nil, err
		}
		for _, f := range found {
			list = append(list, newServer(f))
		}
		return list, nil
	})
}

func newServer(f client.Found) Server {
	c := &client.Client{Address: f.Address}
	return Server{Name: f.Address, Several: f.Session == "", Do: c.Do, Status: Status}
}

// Status returns the HTTP status in an error of a client's, or 0.
func Status(err error) int {
	var s *client.StatusError
	if errors.As(err, &s) {
		return s.Status
	}
	return 0
}
