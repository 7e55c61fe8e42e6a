package ship

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// Config is the shipper's settings file. It has no secrets.
type Config struct {
	Spool   string `toml:"spool"`   // the audit's folder
	State   string `toml:"state"`   // a folder that belongs to the shipper
	Metrics string `toml:"metrics"` // where to serve metrics: host:port, or the path of a unix socket
	Sinks   []Sink `toml:"sink"`

	Version string `toml:"-"` // toolguard's
}

// Sink is a receiver of events. A setting that its type doesn't use is an error.
type Sink struct {
	Name   string `toml:"name"`
	Type   string `toml:"type"`
	Format string `toml:"format"` // ocsf, ocsf-1.8, ecs or text

	Path string `toml:"path"`
	URL  string `toml:"url"`

	CA         string `toml:"ca_file"`
	Cert       string `toml:"cert_file"`
	Key        string `toml:"key_file"`
	ServerName string `toml:"server_name"`
	Token      string `toml:"token_file"`
	Header     string `toml:"token_header"` // the header for the token
	Prefix     string `toml:"token_prefix"` // precedes the token in the header

	Index      string `toml:"index"`
	SourceType string `toml:"sourcetype"`
	NoAck      bool   `toml:"no_ack"`
	Subject    string `toml:"subject"`
	Creds      string `toml:"creds_file"`

	Batch     int      `toml:"batch"`       // the maximum number of records at a time
	BatchSize int      `toml:"batch_bytes"` // and of their bytes
	MaxRecord int      `toml:"max_record"`  // the maximum size of a record; a gap replaces a larger one
	Timeout   duration `toml:"timeout"`

	format event.Format
}

// duration is a duration such as "30s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < time.Second {
		return errors.New("write a duration of a second or more, such as \"30s\"")
	}
	*d = duration(v)
	return nil
}

// sinkType is a type of sinks.
type sinkType struct {
	keys     []string // the keys that it uses besides commonKeys
	required []string
	schemes  []string
	open     func(Sink) (sender, error)
}

var commonKeys = []string{"name", "type", "format", "batch", "batch_bytes", "max_record", "timeout"}

func sinkTypes() map[string]sinkType {
	secure := []string{"url", "ca_file", "cert_file", "key_file", "server_name"}
	token := append(slices.Clone(secure), "token_file")
	return map[string]sinkType{
		"file":     {keys: []string{"path"}, required: []string{"path"}, open: openFile},
		"stdout":   {open: openStdout},
		"journald": {keys: []string{"path"}, open: openJournal},
		"syslog":   {keys: secure, required: []string{"url"}, schemes: []string{"unix", "tcp", "tls"}, open: openSyslog},
		"webhook": {
			keys: append(slices.Clone(token), "token_header", "token_prefix"), required: []string{"url"},
			schemes: []string{"http", "https"}, open: openWebhook,
		},
		"otlp": {
			keys: append(slices.Clone(token), "token_header", "token_prefix"), required: []string{"url"},
			schemes: []string{"http", "https"}, open: openOTLP,
		},
		"hec": {
			keys: append(slices.Clone(token), "index", "sourcetype", "no_ack"), required: []string{"url", "token_file"},
			schemes: []string{"http", "https"}, open: openHEC,
		},
		"nats": {
			keys: append(slices.Clone(token), "subject", "creds_file"), required: []string{"url"},
			schemes: []string{"nats", "tls"}, open: openNATS,
		},
	}
}

// Read reads a settings file.
func Read(path string) (Config, error) {
	cfg := Config{Spool: "/var/lib/toolguard/audit", State: "/var/lib/toolguard/ship"}
	f, err := os.Open(path)
	if err != nil {
		return cfg, err
	}
	defer f.Close()
	err = toml.NewDecoder(f).DisallowUnknownFields().Decode(&cfg)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		line, col := unknown.Errors[0].Position()
		return cfg, fmt.Errorf("%s:%d:%d: unknown key: docs/sinks.md lists the keys", path, line, col)
	case errors.As(err, &wrong):
		line, col := wrong.Position()
		return cfg, fmt.Errorf("%s:%d:%d: %w", path, line, col, err)
	case err != nil:
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	if err := cfg.check(); err != nil {
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// check sets defaults and validates the settings.
func (c *Config) check() error {
	if len(c.Sinks) == 0 {
		return errors.New("there is no [[sink]]")
	}
	if len(c.Sinks) > audit.MaxSinks {
		return fmt.Errorf("there are more than %d sinks", audit.MaxSinks)
	}
	names := map[string]bool{}
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(s.Name) || names[s.Name] {
			return fmt.Errorf("sink %d: the name must be unique and consist of lower case letters, digits, - and _", i+1)
		}
		names[s.Name] = true
		if err := s.check(); err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
	}
	return nil
}

func (s *Sink) check() (err error) {
	k, ok := sinkTypes()[s.Type]
	if !ok {
		return fmt.Errorf("unknown type %q: docs/sinks.md lists the types", s.Type)
	}
	if s.format, err = event.ParseFormat(orElse(s.Format, "ocsf")); err != nil {
		return err
	}
	if err := s.checkKeys(k); err != nil {
		return err
	}
	if err := s.checkURL(k); err != nil {
		return err
	}
	s.Timeout = max(s.Timeout, 0)
	if s.Timeout == 0 {
		s.Timeout = duration(30 * time.Second)
	}
	maxRecord := 1 << 20
	if s.Type == "syslog" {
		maxRecord = 8 << 10
	}
	s.Batch, s.BatchSize, s.MaxRecord = orElse(s.Batch, 500), orElse(s.BatchSize, 1<<20), orElse(s.MaxRecord, maxRecord)
	if min(s.Batch, s.BatchSize) < 1 || s.MaxRecord < 2048 {
		return errors.New("batch and batch_bytes must be at least 1, and max_record at least 2048, the size of a gap")
	}
	return nil
}

// checkKeys returns an error for a missing or unused setting.
func (s *Sink) checkKeys(k sinkType) error {
	v := reflect.ValueOf(*s)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("toml")
		switch {
		case key == "":
		case v.Field(i).IsZero() && slices.Contains(k.required, key):
			return fmt.Errorf("%s is missing", key)
		case !v.Field(i).IsZero() && !slices.Contains(k.keys, key) && !slices.Contains(commonKeys, key):
			return fmt.Errorf("a sink of type %s doesn't use %s", s.Type, key)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		return errors.New("cert_file and key_file need each other")
	}
	return nil
}

// tlsScheme maps each scheme without TLS to the one with TLS.
var tlsScheme = map[string]string{"http": "https", "nats": "tls", "tcp": "tls", "unix": "tls"}

// checkURL rejects secrets in addresses and secrets over unencrypted connections.
func (s *Sink) checkURL(k sinkType) error {
	if len(k.schemes) == 0 {
		return nil
	}
	for one := range strings.SplitSeq(s.URL, ",") {
		u, err := url.Parse(one)
		if err != nil || !slices.Contains(k.schemes, u.Scheme) || u.Host == "" && u.Path == "" {
			return fmt.Errorf("url must begin with one of %s://", strings.Join(k.schemes, "://, "))
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("url has a user or a query, which logs and status show: put secrets into files (token_file)")
		}
		plain := u.Scheme == "http" || u.Scheme == "nats"
		ip := net.ParseIP(u.Hostname())
		loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
		if s.CA+s.Cert+s.ServerName != "" && slices.Contains([]string{"http", "tcp", "unix"}, u.Scheme) { // nats:// becomes TLS with them
			return fmt.Errorf("%s:// isn't encrypted and doesn't use ca_file, cert_file, key_file and server_name: did you mean %s://?",
				u.Scheme, tlsScheme[u.Scheme])
		}
		if s.Token+s.Creds+s.Key != "" && plain && !loopback {
			return fmt.Errorf("%s:// would transmit the secrets unencrypted: use %s://", u.Scheme, tlsScheme[u.Scheme])
		}
	}
	return nil
}

// orElse returns the first value, or the second one if that is zero.
func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
