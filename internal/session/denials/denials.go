package denials

import "github.com/toolguard/toolguard/internal/event"

// Denial is a denial and how often it happened.
type Denial struct {
	event.Event
	Count uint64
}

// Summary has the denials of a session.
type Summary struct {
	Denials   []Denial // without repetition, in the order of their first appearance
	Total     uint64   // denials seen, repetitions included
	More      uint64   // denials of operations that the policy allows: stated gaps of the backend that deny too much
	Lost      uint64   // denials that were counted and not received; a lower bound
	WhyLost   string   // why denials were lost; "": none were, or Visible is false
	Visible   bool     // this user can see denials on this machine
	WhyUnseen string   // why not; "": unknown
}
