// Package siem tests toolguard-ship with real receivers: rsyslogd, journald, an OpenTelemetry collector, a JetStream cluster. It's a module of its
// own, so that what these are made of isn't in the product's go.mod.
package siem
