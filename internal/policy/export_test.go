package policy

// These are the internals that the tests, in package policy_test, use.

const (
	MaxAliases = maxAliases
	MaxLayers  = maxLayers
	MaxText    = maxText
	MaxListed  = maxListed
)

var (
	Own  = own
	Same = same
)

type (
	Wire       = wire
	WireLayer  = wireLayer
	WireLayers = wireLayers
	Run        = run
)

func (c *Compiled) Wire() Wire               { return c.wire() }
func (w *wire) Compiled() (*Compiled, error) { return w.compiled() }
func (w *wire) RulesOf(r *run) []*Rule       { return w.rules(r) }

func (w *wire) Check() error { return w.check() }
