package ship

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// resolveFiles resolves relative names of the sink's files in systemd's credentials folder (LoadCredential=).
func (s *Sink) resolveFiles() error {
	for _, name := range []*string{&s.Token, &s.Key, &s.Cert, &s.CA, &s.Creds} {
		if *name == "" || filepath.IsAbs(*name) {
			continue
		}
		folder := os.Getenv("CREDENTIALS_DIRECTORY")
		if folder == "" {
			return fmt.Errorf("%s isn't an absolute path, and there are no systemd credentials ($CREDENTIALS_DIRECTORY)", *name)
		}
		*name = filepath.Join(folder, *name)
	}
	return nil
}

// readSecret reads a secret from a file that other users can't access. Each use reads it again, so that it can be replaced.
func readSecret(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&0o007 != 0 {
		return nil, fmt.Errorf("%s is accessible by everybody: chmod o= %[1]s", name)
	}
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// readToken reads a secret of one line.
func readToken(name string) (string, error) {
	text, err := readSecret(name)
	token := strings.TrimSpace(string(text))
	if err == nil && (token == "" || strings.ContainsAny(token, "\r\n")) {
		err = fmt.Errorf("%s must have one line", name)
	}
	return token, err
}

// tlsConfig returns how a sink authenticates the receiver, and itself.
func (s *Sink) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", s.CA)
		}
	}
	if s.Cert != "" {
		cfg.GetClientCertificate = s.certificate
		if _, err := s.certificate(nil); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

func (s *Sink) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	key, kerr := readSecret(s.Key)
	cert, cerr := os.ReadFile(s.Cert)
	if err := errors.Join(kerr, cerr); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}
