// Package test holds what is tested about the whole: the rules of the house, the promises of the documents, and, in its
// folders, stories and attacks that go through the real binary.
package test
