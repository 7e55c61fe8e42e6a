package denials

import "github.com/toolguard/toolguard/internal/event"

// Denial is one kind of denial and how often it happened.
type Denial struct {
	event.Event
	Count uint64
}

// Summary is what was denied in a session.
type Summary struct {
	Denials   []Denial // without repetition, in the order of their first appearance
	Total     uint64   // denials seen, repetitions included
	More      uint64   // denials of what the policy allows: stated gaps of the backend that deny too much
	Lost      uint64   // denials that the kernel counted and nobody received; a lower bound
	WhyLost   string   // what went by unseen, for people; "" when nothing did or Visible is false
	Visible   bool     // denials can be seen on this machine by this user
	WhyUnseen string   // why they can't, for people; "" where that isn't known
}
