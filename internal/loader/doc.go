// Package loader enforces compiled policies with the LSM programs of bpf/. It loads, attaches and pins the programs, so that they
// outlive the process, writes each session's policy into their maps, and reads denials from the session's ring.
//
// A policy's fs rules become an Image, which the programs follow component by component (bpf/lib/match.h), as package policy does. A
// session is complete in the maps before any process is labelled with it. One write replaces a session's image.
package loader
