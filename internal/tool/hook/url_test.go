package hook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// TestStatuses checks each HTTP status at a limit, and the errors of an exchange, before and after a call.
func TestStatuses(t *testing.T) {
	h := []*toolset.Hook{{URL: "https://hooks.example/a%20b?key=secret", Timeout: time.Minute, Layer: &toolset.Layer{}}}
	for _, x := range []struct {
		status        int
		text          string
		err           error
		before, after string
	}{
		{200, "{}", nil, "", ""},
		{200, "", nil, "answer is empty", ""},
		{200, "{}" + strings.Repeat(" ", maxAnswer-2), nil, "", ""},
		{200, "{}" + strings.Repeat(" ", maxAnswer-1), nil, "larger than 1 MiB", "larger than 1 MiB"},
		{201, "{}", nil, "status is 201", ""},
		{204, "", nil, "status is 204", ""},
		{299, "{}", nil, "status is 299", ""},
		{199, "{}", nil, "status is 199", "status is 199"},
		{300, "{}", nil, "redirects aren't followed", "redirects aren't followed"},
		{399, "{}", nil, "redirects aren't followed", "redirects aren't followed"},
		{400, "{}", nil, "status is 400", "status is 400"},
		{200, "{}", errors.New("broken"), "broken", "broken"},
	} {
		var f failures
		r := &Runner{Failed: f.add, URL: func(_ context.Context, address string, body []byte) (int, []byte, error) {
			if address != h[0].URL || !strings.Contains(string(body), `"id":"c1"`) {
				t.Errorf("%s got %s", address, body)
			}
			return x.status, []byte(x.text), x.err
		}}
		v := r.Before(t.Context(), h, call, "", accept)
		if (v.Block == nil) != (x.before == "") || v.Block != nil && (!strings.Contains(v.Block.Text, x.before) || v.Block.Hook != "hooks.example/a%20b") {
			t.Errorf("%d %.9s before: %+v", x.status, x.text, v.Block)
		}
		r.After(h, After{Before: call}, "")
		r.Close(time.Minute)
		if got := strings.Join(f.list(), " "); (got == "") != (x.after == "") || !strings.Contains(got, x.after) || strings.Contains(got, "secret") {
			t.Errorf("%d %.9s after: %s", x.status, x.text, got)
		}
	}
	if v := (&Runner{}).Before(t.Context(), h, call, "", accept); v.Block == nil || !strings.Contains(v.Block.Text, "no address can be called here") {
		t.Errorf("without URL: %+v", v.Block)
	}
}
