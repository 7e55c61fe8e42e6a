package output

import (
	"bytes"
	"encoding/json"

	"github.com/toolguard/toolguard/internal/audit/report"
)

// VerificationProgress reads the progress messages of a verification.
type VerificationProgress struct {
	Screen *Screen
	text   bytes.Buffer
	Last   report.Progress
	shown  bool
}

// Write implements io.Writer: the messages, in any pieces.
func (p *VerificationProgress) Write(text []byte) (int, error) {
	p.text.Write(text)
	for {
		line, err := p.text.ReadBytes('\n')
		if err != nil { // not all of it yet
			p.text.Write(line)
			return len(text), nil
		}
		if err := json.Unmarshal(line, &p.Last); err != nil {
			return 0, err
		}
		if p.Last.Report == nil && p.Screen.Terminal {
			p.Screen.Progress("verified %s of %s", Amount(p.Last.Done), Amount(p.Last.Total))
			p.shown = true
		}
	}
}

// End removes what was shown.
func (p *VerificationProgress) End() {
	if p.shown {
		p.Screen.Progress("")
	}
}
