// Package message has what toolguard and egress send to each other, in JSON on a socket: Instructions to egress, and Messages from it for as
// long as both live. Egress is a process of toolguardd's program, since net/http and crypto/tls would cost every start of toolguard; so toolguard imports
// this package and none that leads to those.
//
// # Threats
//
// Egress reads what is hostile, so its messages aren't trusted. The first alone, which it sends before it has read anything of the session's,
// is: in it is the session's authority.
package message

import (
	"net/netip"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Nobody is the user that egress is, and whose the session's bundle of certificate authorities is.
const Nobody = 65534

// Format is raised with every change of the messages. What a policy means shows in its digest.
const Format = 5

// Instructions are what egress's process gets at its start; TCP, UDP, Originals and Names are descriptors, which it inherits. A later one
// brings another policy and its Hosts alone.
type Instructions struct {
	Format           int
	Generation       uint32 // of the policy
	TCP, UDP         []int
	Originals, Names int
	Upstream         []netip.AddrPort
	Policy           *policy.Compiled
	Hosts            map[string][]netip.Addr // what the machine's hosts file says of names that the policy has rules for
	Authority        []byte                  // what an earlier one has sent as the session's; without it, where the policy needs one, egress makes it
}

// Egress sends a message after each Beat, if only an empty one. When it has been silent for Silence it hangs.
const (
	Beat    = 5 * time.Second
	Silence = 6 * Beat
)

// Message is what egress's process sends.
type Message struct {
	Ready     bool   // the first
	Decides   uint32 // with that, and after later instructions: the generation of the policy that decides
	Authority []byte // with that, if it has made one: for the next instructions alone, as its key is in there
	Bundle    []byte // and its certificate, in PEM
	Failed    string
	Denial    *Denial
	Lost      uint64 // denials that it didn't report
}

// Denial is a denial by egress.
type Denial struct {
	Client   netip.AddrPort
	By       event.Observed // whose it is
	To       netip.AddrPort // where the connection was going; the zero value for DNS
	Protocol string         // "dns", "tls", "http", "raw"
	Method   string         // of an HTTP request
	Answer   explain.Answer
}

// BundleVars are the environment variables by which common programs find a bundle of authorities.
func BundleVars() []string {
	return []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}
}
