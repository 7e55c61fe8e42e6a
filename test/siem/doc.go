// Package siem tests toolguard-ship with real receivers: rsyslogd, journald, an OpenTelemetry collector, a JetStream cluster. It is
// a module of its own, so that the product's go.mod doesn't have their dependencies.
package siem
