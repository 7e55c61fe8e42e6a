//go:build unix

package callstate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Approvals is a store of what people have allowed for more than once, in a file. It is safe for concurrent use, by processes too.
type Approvals struct {
	path string
	now  func() time.Time
}

// NewApprovals returns the store in a file, which needn't exist.
func NewApprovals(path string, now func() time.Time) *Approvals { return &Approvals{path, now} }

// Grant allows calls with exactly the facts that its rule names.
type Grant struct {
	Key string `json:"key"` // approval.Key of the rule
	Stored
	Tool  string `json:"tool"`
	Agent string `json:"agent"`
}

// Addition is a rule that is added to a session's policy when the session begins.
type Addition struct {
	Key string `json:"key"` // set by AddRule
	Stored
	Workspace string   `json:"workspace"`
	Agent     string   `json:"agent"`    // of the session that asked for it
	Policies  []string `json:"policies"` // the policy files, in their order
}

// Stored is a rule that a person has allowed.
type Stored struct {
	Rule    string     `json:"rule"` // TOML, as it was shown
	Created int64      `json:"created_at_ms"`
	By      message.By `json:"by"`
	Expires int64      `json:"expires_at_ms"` // 0: never
	Once    bool       `json:"once"`          // it's removed when it's used
}

// inForce reports whether a rule has not expired.
func (s *Stored) inForce(now time.Time) bool { return s.Expires == 0 || now.UnixMilli() < s.Expires }

// Add stores a grant. When it returns without an error, the grant is on the disk. A grant with the same key is replaced.
func (a *Approvals) Add(g *Grant) error {
	if err := g.check(); err != nil {
		return fmt.Errorf("%s: the grant can't be stored: %w", approvals.what, err)
	}
	return a.change(func(st *approvalState) bool {
		st.Grants = slices.DeleteFunc(st.Grants, func(other Grant) bool { return other.Key == g.Key })
		st.Grants = append(st.Grants, *g)
		return true
	})
}

// Find returns the grant with a key that is in force; nil if there is none. One for a single use is still there: Use removes it.
func (a *Approvals) Find(key string) (*Grant, error) {
	grants, err := a.List()
	if err != nil {
		return nil, err
	}
	return findGrant(grants, key), nil
}

// Use is Find for a call that runs now: a grant for a single use is removed from the disk before it's returned, so that no other call gets it.
func (a *Approvals) Use(key string) (*Grant, error) {
	found, err := a.Find(key)
	if err != nil || found == nil || !found.Once {
		return found, err
	}
	err = a.change(func(st *approvalState) bool {
		found = findGrant(st.Grants, key) // another process may have used it, or replaced it
		st.Grants = slices.DeleteFunc(st.Grants, func(g Grant) bool { return g.Key == key && g.Once })
		return found != nil && found.Once
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func findGrant(grants []Grant, key string) *Grant {
	i := slices.IndexFunc(grants, func(g Grant) bool { return g.Key == key })
	if i < 0 {
		return nil
	}
	g := grants[i]
	return &g
}

// List returns the grants that are in force, the oldest first.
func (a *Approvals) List() ([]Grant, error) {
	st, err := approvals.read(a.path)
	if err != nil {
		return nil, err
	}
	st.prune(a.now())
	return st.Grants, nil
}

// Remove removes a grant, or a rule that would be added. It reports whether there was one.
func (a *Approvals) Remove(key string) (removed bool, err error) {
	err = a.change(func(st *approvalState) bool {
		before := len(st.Grants) + len(st.Additions)
		st.Grants = slices.DeleteFunc(st.Grants, func(g Grant) bool { return g.Key == key })
		st.Additions = slices.DeleteFunc(st.Additions, func(r Addition) bool { return r.Key == key })
		removed = len(st.Grants)+len(st.Additions) < before
		return removed
	})
	return removed && err == nil, err
}

// AddRule stores a rule for the next session with the same workspace, agent and policy files, or for all of them unless it's for a single use. When
// it returns without an error, the rule is on the disk. The same rule is replaced.
func (a *Approvals) AddRule(r *Addition) error {
	own := *r
	own.Key, own.Policies = own.key(), append([]string{}, r.Policies...)
	if err := own.check(); err != nil {
		return fmt.Errorf("%s: the rule can't be stored: %w", approvals.what, err)
	}
	return a.change(func(st *approvalState) bool {
		st.Additions = slices.DeleteFunc(st.Additions, func(other Addition) bool { return other.Key == own.Key })
		st.Additions = append(st.Additions, own)
		return true
	})
}

// Rules returns the rules that are in force, the oldest first.
func (a *Approvals) Rules() ([]Addition, error) {
	st, err := approvals.read(a.path)
	if err != nil {
		return nil, err
	}
	st.prune(a.now())
	return st.Additions, nil
}

// TakeRules returns the rules in force for a session that begins now, the oldest first. Those for a single use are removed from the disk before
// they are returned: of two sessions that begin at once, one gets them.
func (a *Approvals) TakeRules(workspace, agent string, policies []string) ([]Addition, error) {
	applies := func(r Addition) bool {
		return r.Workspace == workspace && r.Agent == agent && slices.Equal(r.Policies, policies)
	}
	others := func(all []Addition) []Addition {
		return slices.DeleteFunc(all, func(r Addition) bool { return !applies(r) })
	}
	once := func(r Addition) bool { return r.Once }
	all, err := a.Rules()
	if err != nil {
		return nil, err
	}
	found := others(all)
	if !slices.ContainsFunc(found, once) {
		return found, nil
	}
	err = a.change(func(st *approvalState) bool {
		found = others(slices.Clone(st.Additions))
		st.Additions = slices.DeleteFunc(st.Additions, func(r Addition) bool { return r.Once && applies(r) })
		return slices.ContainsFunc(found, once)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// change is one transaction. What has expired is removed.
func (a *Approvals) change(do func(*approvalState) (changed bool)) error {
	return approvals.change(a.path, func(st *approvalState) (bool, error) {
		st.prune(a.now())
		return do(st), nil
	})
}

// approvals is the kind of file that Approvals is in.
var approvals = kind[approvalState]{
	what: "the stored approvals", parse: parseApprovals,
	damaged: "remove the file to be asked about everything again", large: "remove it to be asked about everything again",
}

// maxRule is the longest rule, in bytes: a person has read it.
const maxRule = 64 << 10

// approvalsFormat is the first value of each file.
const approvalsFormat = "toolguard.approvals"

// approvalState is the content of a file.
type approvalState struct {
	Format    string     `json:"format"`
	Version   int        `json:"version"`
	Grants    []Grant    `json:"grants"`
	Additions []Addition `json:"rules"`
}

func (st *approvalState) prune(now time.Time) {
	st.Grants = slices.DeleteFunc(st.Grants, func(g Grant) bool { return !g.inForce(now) })
	st.Additions = slices.DeleteFunc(st.Additions, func(r Addition) bool { return !r.inForce(now) })
}

// parseApprovals reads the content of a file; nil: there is none.
func parseApprovals(text []byte) (*approvalState, error) {
	st := &approvalState{Format: approvalsFormat, Version: 1, Grants: []Grant{}, Additions: []Addition{}}
	if text == nil {
		return st, nil
	}
	*st = approvalState{}
	if err := decode(text, st); err != nil {
		return nil, err
	}
	if st.Format != approvalsFormat || st.Version != 1 || st.Grants == nil || st.Additions == nil {
		return nil, fmt.Errorf("these are no stored approvals that this version reads: format %q, version %d", st.Format, st.Version)
	}
	seen := map[string]bool{}
	for i := range st.Grants {
		g := &st.Grants[i]
		if err := g.check(); err != nil || seen[g.Key] {
			return nil, fmt.Errorf("it's damaged: the grant %.64q is impossible: %w", g.Key, orTwice(err))
		}
		seen[g.Key] = true
	}
	for i := range st.Additions {
		r := &st.Additions[i]
		if err := r.check(); err != nil || seen[r.Key] {
			return nil, fmt.Errorf("it's damaged: the rule %.64q is impossible: %w", r.Key, orTwice(err))
		}
		seen[r.Key] = true
	}
	return st, nil
}

func orTwice(err error) error {
	if err != nil {
		return err
	}
	return errors.New("it's there twice")
}

// check returns why a grant can't be one that a person has allowed.
func (g *Grant) check() error {
	switch {
	case g.Key != approval.Key(g.Rule):
		return errors.New("its key isn't that of its rule")
	case g.Tool == "":
		return errors.New("it names no tool")
	}
	return g.checkWith(g.Tool, g.Agent)
}

// check returns why a rule can't be one that a person has allowed.
func (r *Addition) check() error {
	switch {
	case r.Policies == nil:
		return errors.New("it has no list of policy files")
	case r.Workspace == "":
		return errors.New("it has no workspace")
	case r.Key != r.key():
		return errors.New("its key isn't that of its content")
	}
	return r.checkWith(append([]string{r.Workspace, r.Agent}, r.Policies...)...)
}

// key is that of everything that the rule is for.
func (r *Addition) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", r.Workspace, r.Agent, r.Policies, r.Rule))
	return hex.EncodeToString(sum[:])
}

// checkWith checks a rule together with other texts, which the file must also keep as they are.
func (s *Stored) checkWith(texts ...string) error {
	switch {
	case s.Rule == "":
		return errors.New("it has no rule")
	case len(s.Rule) > maxRule:
		return fmt.Errorf("its rule has more than %d KiB", maxRule>>10)
	case s.Created <= 0 || s.Expires < 0:
		return errors.New("its times are impossible")
	case s.By.Via == "":
		return errors.New("it doesn't say who allowed it")
	}
	for _, text := range append(texts, s.Rule, s.By.Exe, s.By.Via) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q isn't UTF-8", text)
		}
	}
	return nil
}
