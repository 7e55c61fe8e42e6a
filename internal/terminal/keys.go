package terminal

import "time"

// quiet is how long there must be no input before a key decides; settle is how long there must be none after it.
const (
	quiet  = 500 * time.Millisecond
	settle = 100 * time.Millisecond
)

// sequence is a position within what a terminal sends on its own: answers, mouse reports, function keys.
type sequence int

const (
	ground sequence = iota
	escape
	control // CSI: until a final byte
	single  // SS3: one byte
	text    // OSC, DCS, APC, PM, SOS: until ST or BEL
	textEscape
	mouse // the three bytes of an old mouse report
)

// unfinished is how long a sequence may have a gap. One with a longer gap was no sequence.
const unfinished = 2 * time.Second

// keys finds deliberate keys in the input while a prompt stands.
type keys struct {
	last    time.Time // of any input; at first when the prompt appeared
	state   sequence
	bytes   int       // still to come of a mouse report
	pasting bool      // between the marks of a bracketed paste
	number  string    // of a control sequence
	key     byte      // waits until settle is over; 0: none
	since   time.Time // of key
}

func newKeys(now time.Time) keys { return keys{last: now} }

// feed takes input. It returns a key that only changes the view (v or a blank); decide returns the others.
func (k *keys) feed(input []byte, now time.Time) (view byte, early bool) {
	idle := now.Sub(k.last)
	k.last, k.key = now, 0
	if idle > unfinished && !k.pasting {
		k.state = ground
	}
	alone := len(input) == 1 && k.state == ground && !k.pasting && input[0] > ' '-1 && input[0] < 0x7f
	for _, b := range input {
		k.parse(b)
	}
	if !alone {
		return 0, false
	}
	b := input[0]
	if b >= 'A' && b <= 'Z' {
		b += 'a' - 'A'
	}
	if b == 'v' || b == ' ' {
		return b, false
	}
	if idle < quiet {
		return 0, true
	}
	k.key, k.since = b, now
	return 0, false
}

// decide returns the key that has settled, or 0, and how long to wait before it's asked again.
func (k *keys) decide(now time.Time) (key byte, wait time.Duration) {
	if k.key == 0 {
		return 0, 0
	}
	if wait = settle - now.Sub(k.since); wait > 0 {
		return 0, wait
	}
	key, k.key = k.key, 0
	return key, 0
}

// parse follows the sequences in the input.
func (k *keys) parse(b byte) {
	switch k.state {
	case ground:
		if b == 0x1b {
			k.state = escape
		}
	case escape:
		k.state = map[byte]sequence{'[': control, 'O': single, ']': text, 'P': text, 'X': text, '^': text, '_': text, 0x1b: escape}[b]
		k.number = ""
	case control:
		k.parseControl(b)
	case single:
		k.state = ground
	case text:
		switch b {
		case 0x07, 0x18, 0x1a:
			k.state = ground
		case 0x1b:
			k.state = textEscape
		}
	case textEscape:
		if k.state = text; b == '\\' {
			k.state = ground
		}
	case mouse:
		if k.bytes--; k.bytes == 0 {
			k.state = ground
		}
	}
}

func (k *keys) parseControl(b byte) {
	switch {
	case b == 0x1b:
		k.state = escape
	case b == 'M' && k.number == "":
		k.state, k.bytes = mouse, 3
	case b >= 0x40 && b <= 0x7e:
		k.state = ground
		if b == '~' && k.number == "200" {
			k.pasting = true
		}
		if b == '~' && k.number == "201" {
			k.pasting = false
		}
	case len(k.number) < 8:
		k.number += string(b)
	}
}
