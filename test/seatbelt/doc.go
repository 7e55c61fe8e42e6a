// Package seatbelt compares the profiles that package darwin generates with the policies that they're for: internal/darwin/sbpltest decides
// operations by a profile's text, and policy.Compiled decides them by the policy. Policies and questions are random. A profile may allow nothing
// that the policy denies, and may deny what it allows only if the report says so.
//
// Nothing here runs on a Mac: what is compared is the profile's text, by the facts that sbpltest lists. This asks more questions:
//
//	go test ./test/seatbelt -run TestProfileAgreesWithPolicy -rapid.checks=20000
package seatbelt
