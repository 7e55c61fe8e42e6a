package gate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// Request is a call with everything that decides about it.
type Request struct {
	Call      *Call
	Settings  *toolset.Settings
	Gate      *toolset.Gate
	Approvals *toolset.Approvals

	Policy *policy.Compiled // under which the tool runs
	Base   *policy.Compiled // the same without the tool's own table
	Parent *policy.Compiled // with the folder that contains the workspace as workspace; nil where it doesn't count as one

	Files fspath.FileSystem
	Home  string // of the user; "" if it isn't known
}

// Decide judges the arguments of a call, and whether a person has to approve it.
func Decide(r *Request) *Answer {
	own := *r
	own.Files = newFiles(r.Files)
	j := &judge{Request: &own, listed: true, dir: r.Policy.Workspace}
	a := j.decide()
	a.ID = r.Call.ID
	a.Capability = cmp.Or(a.Capability, "none")
	if a.model == "" && a.Swallow() {
		a.model = fmt.Sprintf("tool %s isn't available: %s", r.Call.Tool, a.Message)
	}
	return a
}

func (j *judge) decide() *Answer {
	switch {
	case !j.Gate.Enabled:
		return j.approval(notJudged(j.Gate.Rules["enabled"], "the gate is off"))
	case j.Settings.Exclude:
		return j.approval(notJudged(j.Settings.Rules["exclude"], "the policy excludes the tool from the gate"))
	case j.Settings.Kind == "" && j.Gate.Strict:
		return j.unknown("strict: the policy has no kind for the tool, so what it does with its arguments isn't known")
	}
	if err := j.arguments(); err != nil {
		return Denied(j.Call, ReasonBadCall, nil, err.Error())
	}
	return j.approval(j.verdict())
}

// notJudged allows a call whose arguments aren't judged.
func notJudged(rule toolset.Rule, why string) *Answer {
	a := &Answer{Decision: Allow, Reason: string(policy.Allowed), Rule: ToolRule(rule), Message: why + ", so the arguments of the call aren't judged"}
	if a.Rule == nil { // the command line
		a.Reason = string(policy.AllowedByDefault)
	}
	return a
}

// unknown denies what isn't understood under strict.
func (j *judge) unknown(why string) *Answer {
	return Denied(j.Call, ReasonUnclear, ToolRule(j.Gate.Rules["strict"]), why)
}

// verdict is the answer about the arguments.
func (j *judge) verdict() *Answer {
	switch {
	case j.denied != nil:
		return j.denied
	case len(j.unclear) > 0:
		text := doubts(j.unclear)
		if j.Gate.Strict {
			return j.unknown(text)
		}
		return &Answer{Decision: Ask, Reason: ReasonUnclear, Message: text, Capability: j.capability(), model: "access denied: " + j.capability() + " on " + clip(j.unclear[0].Word) + ": " + text}
	case j.allowed != nil:
		return j.allowed
	}
	return &Answer{Decision: Allow, Reason: string(policy.AllowedNoPolicy), Message: "the call names no file, address or command that the policy decides on"}
}

func (j *judge) capability() string {
	if j.ran {
		return "execute"
	}
	return "unknown"
}

// maxDoubts is how many unclear words an answer names.
const maxDoubts = 5

func doubts(list []program.Unclear) string {
	var parts []string
	for _, u := range list {
		part := fmt.Sprintf("%q %s", clip(u.Word), u.Why)
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if n := len(parts) - maxDoubts; n > 0 {
		parts = append(parts[:maxDoubts], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, "; ")
}

var errNoWorkingDir = errors.New("the working directory of the call isn't known")

// arguments judges each argument of the call.
func (j *judge) arguments() error {
	if j.Call.Cwd != "" {
		list, why := readings(j.Call.Cwd, j.Home)
		if why != "" || len(list) > 1 && !strings.HasPrefix(j.Call.Cwd, "~") && !strings.HasPrefix(j.Call.Cwd, "$") {
			return errNoWorkingDir
		}
		j.dir = absolute(j.Policy.Workspace, list[len(list)-1])
	}
	w, err := values(j.Call.Arguments, rolesOf(j.Settings))
	if err != nil {
		return err
	}
	for _, name := range w.odd {
		j.doubt(name, "is a number where a text is expected")
	}
	j.args, j.commands, j.argv = w, w.with(roleCommand), w.with(roleArgv)
	for i := range w.values {
		j.argument(&w.values[i])
	}
	j.understood()
	return nil
}

// rolesOf are those of the tool's arguments. A tool without a kind could execute something, so that it has further arguments of a command. One
// that executes something does it in a folder that it's given.
func rolesOf(s *toolset.Settings) map[string]string {
	roles := maps.Clone(s.Parameters)
	switch s.Kind {
	case "execute":
		for _, name := range []string{"directory", "dir", "folder"} {
			if _, own := s.Rules["parameters."+name]; !own {
				roles[name] = roleCwd
			}
		}
		return roles
	case "":
	default:
		return roles
	}
	for _, name := range []string{"args", "argv"} {
		if roles[name] == "" {
			roles[name] = roleArgv
		}
	}
	return roles
}
