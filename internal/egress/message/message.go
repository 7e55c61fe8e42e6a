// Package message defines the messages between toolguard and egress, in JSON on a socket: Instructions to egress, and Messages from egress.
// Egress is a process of toolguardd's program, because net/http and crypto/tls would slow down every start of toolguard. So toolguard
// imports this package, which imports neither.
//
// # Threats
//
// Egress parses hostile input, so its messages aren't trusted, except the first one, which it sends before it reads anything from the
// session. That message has the session's certificate authority.
package message

import (
	"net/netip"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// UserID is the user and group of egress (nobody), who also owns the session's bundle of certificate authorities.
const UserID = 65534

// Format is the version of the messages. It changes with every change of them, but not of policies, which have a digest.
const Format = 6

// Instructions are the input of egress. TCP, UDP, Originals and Names are descriptors that it inherits. Later instructions have only
// another policy and its Hosts.
type Instructions struct {
	Format           int
	Generation       uint32 // of the policy
	TCP, UDP         []int
	Originals, Names int
	Upstream         []netip.AddrPort
	Policy           *policy.Compiled
	Hosts            map[string][]netip.Addr // the machine's hosts file, limited to names with rules
	Authority        []byte                  // from the Message of an earlier process; without it, egress makes one if the policy needs it
}

// Egress sends a message every HeartbeatInterval, an empty one if necessary. After HeartbeatTimeout without a message it counts as hung.
const (
	HeartbeatInterval = 5 * time.Second
	HeartbeatTimeout  = 6 * HeartbeatInterval
)

// Message is a message from egress. The fields up to Bundle are in the first message, and Generation also in the reply to instructions.
type Message struct {
	Ready      bool
	Generation uint32 // of the policy in force
	Authority  []byte // with its key, if egress made it; only for later instructions
	Bundle     []byte // its certificate, in PEM
	Error      string
	Denial     *Denial
	Lost       uint64 // unreported denials
}

// Denial is a denial by egress.
type Denial struct {
	Client   netip.AddrPort
	Process  event.Observed // of the client
	To       netip.AddrPort // the connection's destination; zero for DNS
	Protocol string         // "dns", "tls", "http", "raw"
	Method   string         // of an HTTP request
	Answer   explain.Answer
}

// BundleVars returns the environment variables that name a certificate bundle in common programs.
func BundleVars() []string {
	return []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"}
}
