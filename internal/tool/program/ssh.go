package program

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// sshHarmless are the keywords of ssh's configuration that neither run a program nor load another configuration.
var sshHarmless = lazy.Set(`addressfamily batchmode bindaddress bindinterface casignaturealgorithms checkhostip ciphers clearallforwardings
	compression connectionattempts connecttimeout controlpersist escapechar exitonforwardfailure fingerprinthash forwardagent gatewayports
	gssapiauthentication hashknownhosts hostkeyalgorithms hostkeyalias hostname identitiesonly identityfile ipqos kexalgorithms
	kbdinteractiveauthentication loglevel macs nohostauthenticationforlocalhost numberofpasswordprompts passwordauthentication port
	preferredauthentications pubkeyacceptedalgorithms pubkeyauthentication rekeylimit requesttty serveralivecountmax serveraliveinterval
	stricthostkeychecking tcpkeepalive updatehostkeys user verifyhostkeydns visualhostkey`)

// checkSSHOption is for ssh -o: KEYWORD=VALUE or KEYWORD VALUE.
func (in *inspection) checkSSHOption(w, shown Word) {
	keyword := strings.ToLower(w.certain())
	i := strings.IndexAny(keyword, "= \t\"")
	switch {
	case i >= 0 && sshHarmless()[keyword[:i]]:
	case i >= 0 && w.Known && keyword[:i] == "userknownhostsfile":
		for f := range strings.FieldsSeq(strings.TrimLeft(w.Text[i:], "= ")) {
			in.file(Literal(f), Read)
		}
	default:
		in.unclear(shown.Text, "can make "+in.name+" run a program")
	}
}
