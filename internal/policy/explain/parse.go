package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// ParseQuestion reads a resource and an action as the command line names them. The question has no target yet. An error is about one of
// the two words.
func ParseQuestion(resource, action string) (Question, error) {
	switch resource {
	case "fs":
		return parseFS(action)
	case "net":
		q := Question{Resource: policy.Net, Listen: action == "listen"}
		if action != "connect" && action != "listen" {
			q.Method = action
		}
		if strings.Trim(q.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
			return Question{}, errors.New("net has no action \"" + action + "\": use connect, listen or a method of HTTP, such as GET")
		}
		return q, nil
	case "env":
		if action != "read" {
			return Question{}, errors.New("env has no action \"" + action + "\": use read")
		}
		return Question{Resource: policy.Env}, nil
	case "command", "commands":
		if action != "run" {
			return Question{}, errors.New("command has no action \"" + action + "\": use run")
		}
		return Question{Resource: policy.Commands}, nil
	}
	return Question{}, errors.New("there is no resource \"" + resource + "\": use fs, net, env or command")
}

func parseFS(action string) (Question, error) {
	if action == "readlink" {
		return Question{Resource: policy.FS, Caps: policy.Read, Symlink: true}, nil
	}
	caps, ok := policy.ParseCap(action)
	if !ok {
		return Question{}, errors.New("fs has no action \"" + action + "\": use read, readlink, create, update, delete or execute")
	}
	return Question{Resource: policy.FS, Caps: caps}, nil
}

// NormalizeTarget converts a target that a person wrote to the form that the rules have. home is the user's, or "". An error is that the
// target is invalid, where that's an error and not a denial.
func (q *Question) NormalizeTarget(home string) error {
	switch q.Resource {
	case policy.FS:
		return q.normalizePath(home)
	case policy.Net:
		_, err := netname.ParseTarget(q.Target)
		return err
	case policy.Env:
		if name, _, ok := strings.Cut(q.Target, "="); ok {
			return fmt.Errorf("a variable is asked about by its name alone: %q, not what it's set to", name)
		}
	}
	return nil
}

// normalizePath converts a path as in a rule: ~/ is the home, and a variable or a wildcard that a shell would have expanded is an error.
func (q *Question) normalizePath(home string) error {
	t := q.Target
	switch msg, hint := fspath.Misread(t, false); {
	case t == "~" || strings.HasPrefix(t, "~/"):
		if home == "" {
			return fmt.Errorf("the home folder that %q is relative to isn't known", t)
		}
		q.Target = home + t[1:]
	case strings.HasPrefix(t, "~"):
		return fmt.Errorf("%q names another user's home: write it out, or ./%s for a file of that name", t, t)
	case msg != "" && (strings.HasPrefix(t, "file:") || strings.HasPrefix(t, "$") || strings.HasPrefix(t, "%")):
		return fmt.Errorf("%s: %s, or ./%s for a file of that name", msg, hint, t)
	}
	return nil
}
