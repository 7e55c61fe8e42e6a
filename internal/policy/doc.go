// Package policy is the language: what a policy means, and the one compiled form that every reader uses.
package policy
