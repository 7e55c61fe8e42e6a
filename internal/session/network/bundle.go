package network

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/policy"
)

// systemBundles are the usual files of the system's certificate authorities. SSL_CERT_FILE has precedence.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// WriteBundle writes a bundle of the session's certificate authority and the machine's into the session's TMPDIR. The
// file belongs to another user, so the command can't write it. A session that replaces it deceives only itself.
func WriteBundle(c *policy.Compiled, authority []byte) (file string, err error) {
	if len(authority) == 0 {
		return "", errors.New("egress sent no authority")
	}
	var system []byte
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles...) {
		if b, err := os.ReadFile(file); err == nil {
			system = b
			break
		}
	}
	file = filepath.Join(c.TmpDir, "toolguard-ca.pem")
	if v := c.CheckFS(file, policy.Read); !v.Allow {
		return "", fmt.Errorf("the policy doesn't let the command read %s: grant read on the TMPDIR, or leave `runtime` on", file)
	}
	err = errors.Join(os.WriteFile(file, bundle(system, authority), 0o400), os.Chmod(file, 0o444))
	if err == nil && os.Geteuid() == 0 { // only root can change the owner
		err = os.Chown(file, message.UserID, message.UserID)
	}
	return file, err
}

// bundle returns the session's bundle after the system's, both in PEM.
func bundle(system, own []byte) []byte {
	out := bytes.TrimRight(system, "\n")
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return append(out, own...)
}
