package terminal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// TestFrame: at any size, the prompt stays within its lines, and the pages together show everything.
func TestFrame(t *testing.T) {
	long := strings.Repeat("long ", 100)
	a := message.Approval{
		ID: "x", Tool: "Bash", Agent: long, Argv: []string{"git", long, "東京東京東京東京東京東京東京", "\x1b[2J\x1b[31m", "pythоn"}, Cwd: "/src/" + long,
		Reason: "\x1b[1;1Hfoo\r\nbar", Rule: strings.Repeat("key = \"value\"\n", 30), Offers: []string{message.AllowOnce, message.AllowAlways, message.Deny},
		Files: []message.File{{Path: "/a b", SHA256: "0123456789abcdef"}}, Expires: time.Now().Add(time.Minute).UnixMilli(),
	}
	line := regexp.MustCompile(`\x1b\[(\d+);1H\x1b\[K`)
	for width := 20; width < 130; width += 7 {
		for height := 5; height < 60; height += 6 {
			p := prompt{approval: a}
			all := ""
			for page := 0; ; page++ {
				f := p.frame(width, height, 1, 1, time.Now())
				if page > 0 && p.page == 0 {
					break
				}
				parts := line.Split(f, -1)[1:]
				if len(parts) != height {
					t.Fatalf("%dx%d: %d lines", width, height, len(parts))
				}
				for i, l := range parts {
					plain := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(l)
					if ask.Width(plain) > width || strings.ContainsAny(plain, "\x1b\r\n") {
						t.Fatalf("%dx%d: line %d is %q", width, height, i, plain)
					}
					if page > 0 && i > 1 && i < height-len(p.foot(width)) && len(plain) > nameWidth {
						all += plain[nameWidth:]
					}
				}
				p.page++
			}
			if height > 11 { // the head and the keys need some
				for _, r := range ask.Rows(&a) {
					if !strings.Contains(all, r.Text) {
						t.Errorf("%dx%d: no page shows %s %s", width, height, r.Name, r.Text)
					}
				}
			}
		}
	}
}

// TestKeys are inputs with their times in milliseconds after the prompt appeared, and the keys that decide.
func TestKeys(t *testing.T) {
	type input struct {
		at   int
		text string
	}
	for _, c := range []struct {
		what   string
		inputs []input
		want   string
	}{
		{"deliberate", []input{{600, "o"}}, "o"},
		{"at once", []input{{10, "o"}}, ""},
		{"too soon", []input{{499, "o"}}, ""},
		{"soon after another", []input{{600, "q"}, {900, "o"}}, "q"},
		{"long after another", []input{{600, "q"}, {1200, "o"}}, "qo"},
		{"followed", []input{{600, "o"}, {650, "k"}}, ""},
		{"a word", []input{{600, "ok"}}, ""},
		{"enter", []input{{600, "\r"}, {1200, "\n"}}, ""},
		{"sequence", []input{{600, "\x1b[?1;2c"}, {1200, "o"}}, "o"},
		{"sequence in pieces", []input{{600, "\x1b["}, {1200, "o"}, {1800, "d"}}, "d"},
		{"string in pieces", []input{{600, "\x1b]l"}, {1200, "o"}, {1800, "d"}, {2400, "\x1b\\"}, {3000, "a"}}, "a"},
		{"unfinished string", []input{{600, "\x1b]l"}, {2700, "o"}}, "o"},
		{"old mouse", []input{{600, "\x1b[M"}, {1200, "o"}, {1800, "o"}, {2400, "o"}, {3000, "d"}}, "d"},
		{"paste", []input{{600, "\x1b[200~"}, {1200, "o"}, {4200, "o"}, {4900, "\x1b[201~"}, {5500, "d"}}, "d"},
		{"meta", []input{{600, "\x1b"}, {1200, "o"}, {1800, "d"}}, "d"},
		{"utf-8", []input{{600, "\xc3"}, {1200, "\xb6"}}, ""},
	} {
		start := time.Now()
		k := newKeys(start)
		got := ""
		for i, in := range c.inputs {
			now := start.Add(time.Duration(in.at) * time.Millisecond)
			k.feed([]byte(in.text), now)
			if key, _ := k.decide(now); key != 0 {
				t.Errorf("%s: decided at once", c.what)
			}
			next := in.at + 1000
			if i+1 < len(c.inputs) {
				next = c.inputs[i+1].at - 1
			}
			if key, _ := k.decide(start.Add(time.Duration(next) * time.Millisecond)); key != 0 {
				got += string(key)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestModes(t *testing.T) {
	for text, want := range map[string]struct {
		on     []int
		hidden bool
		alt    bool
	}{
		"\x1b[?1049h":               {on: []int{1049}, alt: true},
		"\x1b[?1049h\x1b[?1049l":    {},
		"\x1b[?1000;1006h\x1b[?25l": {on: []int{1000, 1006}, hidden: true},
		"\x1b]0;\x1b[?1000h\a":      {on: []int{1000}}, // ESC ends the string
		"\x1b]0;x\x1b\\\x1b[?1000h": {on: []int{1000}},
		"\x1b]0;x\x18\x1b[?1000h":   {on: []int{1000}},
		"\x1b[?10\x1b[?1000h":       {on: []int{1000}},
		"\x1b[?1000h\x1bc":          {},
		"\x1b[?31337h\x1b[1000h":    {},
		"\x1b[?" + strings.Repeat("1;", 1000) + "1049h\x1b[?47h": {on: []int{1, 47}, alt: true},
	} {
		for _, size := range []int{1, 3, len(text)} {
			var m modes
			for piece := range slices.Chunk([]byte(text), size) {
				m.write(piece)
			}
			var on []int
			for n, is := range m.on {
				if is {
					on = append(on, n)
				}
			}
			slices.Sort(on)
			if !slices.Equal(on, want.on) || m.cursor != want.hidden || m.alternate() != want.alt {
				t.Errorf("%.40q in pieces of %d: %v, cursor hidden %t", text, size, on, m.cursor)
			}
			if begins := strings.Contains(m.begin(), "\x1b[?1049h"); begins == want.alt {
				t.Errorf("%.40q: the alternate screen is begun: %t", text, begins)
			}
			_ = fmt.Sprint(m.end(), m.reset())
		}
	}
}
