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

// systemBundles are where systems keep their certificate authorities, in one file, where SSL_CERT_FILE doesn't name another.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// WriteBundle writes the bundle of a session's certificate authority, with those of the machine, into its TMPDIR. The file isn't its
// user's, so that the command is without the privilege to write it; a session that puts another file there deceives itself alone.
func WriteBundle(c *policy.Compiled, authority []byte) (file string, err error) {
	if len(authority) == 0 {
		return "", errors.New("egress has made none")
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
		return "", fmt.Errorf("the policy doesn't let it read %s: grant read on the TMPDIR, or leave `runtime` on", file)
	}
	err = errors.Join(os.WriteFile(file, bundle(system, authority), 0o400), os.Chmod(file, 0o444))
	if err == nil && os.Geteuid() == 0 { // any other user's remains his
		err = os.Chown(file, message.UserID, message.UserID)
	}
	return file, err
}

// bundle is the system's bundle of authorities, in PEM, with the session's own.
func bundle(system, own []byte) []byte {
	out := bytes.TrimRight(system, "\n")
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return append(out, own...)
}
