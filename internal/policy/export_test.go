package policy

import "github.com/toolguard/toolguard/internal/policy/netname"

// What the tests of this package, which are outside of it, need of its insides.

const (
	MaxAliases = maxAliases
	MaxLayers  = maxLayers
	MaxText    = maxText
	MaxTold    = maxTold
	MaxListed  = maxListed
)

var (
	Own        = own
	Same       = same
	SuggestNet = suggestNet
	SuggestFS  = suggestFS
	AskRaw     = ask
	LimitText  = limitText
)

type (
	Wire       = wire
	WireLayer  = wireLayer
	WireLayers = wireLayers
	Run        = run
	Asked      = asked
)

func (c *Compiled) Wire() Wire               { return c.wire() }
func (w *wire) Compiled() (*Compiled, error) { return w.compiled() }
func (w *wire) RulesOf(r *run) []*Rule       { return w.rules(r) }

func (w *wire) Check() error { return w.check() }

// AskedNet is a question about the network that was understood.
func AskedNet(t netname.Target) *Asked { return &asked{net: t} }
