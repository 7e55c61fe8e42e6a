package denials

import (
	"net/url"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
)

// ProxiesOf returns the proxies in the variables that the command may see.
func ProxiesOf(c *policy.Compiled, env []string) (list []api.Proxy) {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasSuffix(strings.ToLower(name), "_proxy") || strings.EqualFold(name, "no_proxy") || !c.CheckEnv(name).Allow {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		if u, err := url.Parse(value); err == nil && u.Host != "" {
			list = append(list, api.Proxy{Variable: name, Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port()})
		}
	}
	return list
}
