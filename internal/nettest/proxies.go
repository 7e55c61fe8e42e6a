package nettest

import "fmt"

// Squid returns the configuration of a squid that allows everything and stores nothing.
func Squid(host, port string) string {
	return fmt.Sprintf(`http_port %s:%s
http_access allow all
cache deny all
access_log none
cache_log /dev/null
cache_store_log none
pid_filename none
visible_hostname proxy.test
`, host, port)
}

// Tinyproxy returns the configuration of a tinyproxy that allows everything.
func Tinyproxy(host, port string) string {
	return fmt.Sprintf("Listen %s\nPort %s\nTimeout 600\nMaxClients 100\nLogLevel Critical\n", host, port)
}
