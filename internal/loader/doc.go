// Package loader puts compiled policies into the kernel: it loads and attaches the programs of bpf/, keeps them pinned so
// that they outlive it, writes what a session may do into their maps, and reads what was denied from their ring.
//
// A policy's fs rules become an Image, which the kernel follows component by component (bpf/lib/match.h) just as package
// policy does. A session is complete in the maps before any process is labelled with it, and a new image takes an old
// one's place with one write.
package loader
