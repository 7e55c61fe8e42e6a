package approval

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// The bounds of one approval.
const (
	maxID      = 256      // bytes
	maxSize    = 64 << 10 // of its JSON
	minTimeout = time.Millisecond
	maxTimeout = 24 * time.Hour
)

// request is an approval that is asked for, checked.
type request struct {
	message.Approval
	digest [sha256.Size]byte // of everything that a person decides about, and of who asks
	size   int               // bytes of JSON
}

// newRequest checks what a client asks for, and copies it, so that nothing that the caller does later changes it. What belongs to the
// time after the request is cleared.
func newRequest(c Client, a *message.Approval) (*request, error) {
	if err := check(a); err != nil {
		return nil, err
	}
	r := &request{Approval: *a}
	r.ID, r.Created, r.Expires, r.Decision, r.Resolved, r.ResolvedBy = "", 0, 0, nil, 0, nil
	text, err := json.Marshal(&r.Approval) // one text for one request, since all of it is UTF-8
	if err != nil {
		return nil, rejected("the arguments of the approval are no JSON: %v", err)
	}
	if r.size = len(text) + len(a.ID); r.size > maxSize {
		return nil, rejected("the approval has %d KiB, more than %d: a person can't read it", r.size>>10, maxSize>>10)
	}
	r.digest = sha256.Sum256([]byte(strconv.FormatBool(c.Unconfined) + strconv.Quote(c.Owner) + string(text)))
	r.ID, r.Arguments, r.Argv, r.Files, r.Offers = a.ID, slices.Clone(a.Arguments), slices.Clone(a.Argv), slices.Clone(a.Files), slices.Clone(a.Offers)
	if a.Exe != nil {
		exe := *a.Exe
		r.Exe = &exe
	}
	return r, nil
}

// check returns why a request can't be put to a person.
func check(a *message.Approval) error {
	switch {
	case len(a.ID) > maxID || strings.ContainsFunc(a.ID, unicode.IsControl):
		return rejected("the id of an approval has at most %d bytes, and no control characters", maxID)
	case !allUTF8(a):
		return rejected("what is asked isn't UTF-8: a person would see something else")
	case len(a.Offers) == 0:
		return rejected("the approval offers no decision")
	}
	for i, o := range a.Offers {
		if o != message.AllowOnce && o != message.AllowAlways && o != message.Deny || slices.Contains(a.Offers[:i], o) {
			return rejected("the approval can't offer %.40q", o)
		}
		if o == message.AllowAlways && a.Rule == "" {
			return rejected("the approval offers %s, and shows no rule", o)
		}
	}
	return nil
}

func allUTF8(a *message.Approval) bool {
	texts := []string{a.ID, a.Agent, a.Session, a.Tool, a.Cwd, a.EnvSHA256, a.Risk, a.Reason, a.Rule}
	texts = append(append(texts, a.Argv...), a.Offers...)
	for _, f := range a.Files {
		texts = append(texts, f.Path, f.SHA256)
	}
	if a.Exe != nil {
		texts = append(texts, a.Exe.Path, a.Exe.SHA256)
	}
	return utf8.Valid(a.Arguments) && !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) })
}
